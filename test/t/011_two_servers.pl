# Two PostgreSQL servers, one ZooKeeper: locks exclude backends of both
# servers.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(container_check => 200)->start;
my $node_a = new_node('a', $zk->hosts);
my $node_b = new_node('b', $zk->hosts);

# The table is on A; B reaches it through postgres_fdw.
$node_a->safe_psql('postgres',
	'CREATE TABLE stock (n int); INSERT INTO stock VALUES (10)');
$node_b->safe_psql(
	'postgres', sprintf(q(
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER a FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '%s', port '%s', dbname 'postgres');
	CREATE USER MAPPING FOR CURRENT_USER SERVER a;
	CREATE FOREIGN TABLE stock (n int) SERVER a),
		$node_a->host, $node_a->port));

my $s1 = ZkTest->new($node_a, application_name => 'seller');
my $s2 = ZkTest->new($node_b)->connect;

# A lock that is held on one server cannot be acquired on the other.

is($s1->query(q(SELECT zk_lock_acquire('/a/b'))), 't', 'lock is acquired on A');

my ($name, @others) = $zk->children('/a/b');
like(
	$name,
	qr/^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$/,
	"name of the node has Curator's format");
is(@others, 0, 'there is no other node');

# Backends that hand a lock over share its node.
my $seller =
  server_mode() eq 'gate'
  ? 'port=' . $node_a->port
  : sprintf('port=%d pid=%d database=postgres user=\S+ application=seller',
	$node_a->port, $s1->pid);
like(
	$zk->get("/a/b/$name")->{data},
	qr/^host=\S+ $seller$/,
	'data of the node describes the holder');

my $answer;
my $seconds = seconds_of(
	sub { $answer = $s2->query(q(SELECT zk_lock_acquire('/a/b', '1s'))) });
is($answer, 'f', 'lock is not acquired on B');
cmp_ok($seconds, '>=', 1, 'acquire on B waits until its timeout');
cmp_ok($seconds, '<', 30, 'acquire on B ends soon after its timeout');
wait_for_queue($zk, '/a/b', $s1);
pass('acquire on B leaves no node');

like(
	$s2->query(q(SELECT zk_lock_guard('/a/b', '0'))),
	qr{^ERROR:  55P03:.*"/a/b".*\nDETAIL: .* $seller .*\nHINT: },
	'error of zk_lock_guard describes the holder');

is($s1->query(q(SELECT zk_lock_release('/a/b'))), 't', 'lock is released on A');
is($s2->query(q(SELECT zk_lock_acquire('/a/b', '1 minute'))), 't', 'lock is acquired on B');
is($s2->query(q(SELECT zk_lock_release('/a/b'))), 't', 'lock is released on B');

# ZooKeeper shows containers as ordinary nodes, but removes only containers
# when they are empty.
wait_until('the parents are removed', sub { !$zk->get('/a') });
pass('parents of the node are containers');

# The next holder sees the committed changes of the previous one.

$s1->query(q(BEGIN; SELECT zk_lock_guard('/stock')));
$s1->query(q(UPDATE stock SET n = n - 1));
$s2->query('BEGIN');
$s2->start(q(SELECT zk_lock_guard('/stock') > 0));
wait_for_queue($zk, '/stock', $s1, $s2);
ok(!$s2->is_done, "waiter waits while the holder's transaction is open");
$s1->query('COMMIT');
is($s2->result, 't', 'commit of the holder wakes the waiter');
is($s2->query('SELECT n FROM stock'), '9', 'waiter sees the committed row');
$s2->query('COMMIT');

# The lock is granted in the order of requests: of backends, or of servers if
# backends of one server hand the lock over locally.

my @line = map { ZkTest->new($_) }
  ($node_a, $node_b) x (server_mode() eq 'gate' ? 1 : 3);
for my $i (0 .. $#line)
{
	$line[$i]->start(q(SELECT zk_lock_acquire('/line')));
	wait_for_queue($zk, '/line', @line[ 0 .. $i ]);
}
while (my $holder = shift @line)
{
	is($holder->result, 't', 'first backend in the queue gets the lock');
	is(scalar(grep { $_->is_done } @line), 0, '... and no other backend');
	$holder->query(q(SELECT zk_lock_release('/line')));
}

# Both servers read and then write one counter concurrently.

my @bench = map {
	my $node = $_;
	my $script = "${\ $node->basedir}/bump.sql";

	$node->safe_psql('postgres', q(
		CREATE FUNCTION bump() RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			seen int;
		BEGIN
			PERFORM zk_lock_guard('/bump');
			SELECT n INTO seen FROM stock;
			UPDATE stock SET n = seen + 1;
		END $$));
	append_to_file($script, "SELECT bump();\n");
	my $out = '';
	my $run = IPC::Run::start(
		[
			'pgbench', '-n', '-c', 5, '-t', 30,
			'-f', $script, $node->connstr('postgres')
		],
		'>&', \$out);
	[ $run, \$out ];
} ($node_a, $node_b);

for (@bench)
{
	my ($run, $out) = @$_;

	ok($run->finish, 'pgbench succeeds') || diag($$out);
}
is($node_a->safe_psql('postgres', 'SELECT n FROM stock'),
	9 + 2 * 5 * 30, 'no increment is lost');

done_testing();
