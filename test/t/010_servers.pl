# Two PostgreSQL servers, one ZooKeeper: locks hold across the servers.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(container_check => 200)->start;
my $node_a = new_node('a', $zk->hosts);
my $node_b = new_node('b', $zk->hosts);

# The table is on A; B reaches it over postgres_fdw.
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

# A lock that is held on one server cannot be had on the other.

is($s1->query(q(SELECT zk_lock_acquire('/a/b'))), 't', 'taken on A');

my ($name, @others) = $zk->children('/a/b');
like(
	$name,
	qr/^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$/,
	"the node's name is as Curator's");
is(@others, 0, '... and it is the only one');

my $seller = sprintf(
	'port=%d pid=%d database=postgres user=\S+ application=seller',
	$node_a->port, $s1->pid);
like(
	$zk->get("/a/b/$name")->{data},
	qr/^host=\S+ $seller$/,
	'its data says who holds the lock');

my $answer;
my $seconds = seconds_of(
	sub { $answer = $s2->query(q(SELECT zk_lock_acquire('/a/b', '1s'))) });
is($answer, 'f', 'not to be had on B');
cmp_ok($seconds, '>=', 1, '... which is said no earlier than asked for');
cmp_ok($seconds, '<', 30, '... and not much later');
wait_for_queue($zk, '/a/b', $s1);
pass('... and leaves no node');

like(
	$s2->query(q(SELECT zk_lock_guard('/a/b', '0'))),
	qr{^ERROR:  55P03:.*"/a/b".*\nDETAIL: .* $seller .*\nHINT: },
	'zk_lock_guard says who holds the lock');

is($s1->query(q(SELECT zk_lock_release('/a/b'))), 't', 'released on A');
is($s2->query(q(SELECT zk_lock_acquire('/a/b', '1 minute'))), 't', 'taken on B');
is($s2->query(q(SELECT zk_lock_release('/a/b'))), 't', 'released on B');

# ZooKeeper shows containers as if they were ordinary nodes, but it reaps no
# others.
wait_until('the parents are reaped', sub { !$zk->get('/a') });
pass('the parents are containers');

# The next holder sees what the one before it committed.

$s1->query(q(BEGIN; SELECT zk_lock_guard('/stock')));
$s1->query(q(UPDATE stock SET n = n - 1));
$s2->query('BEGIN');
$s2->start(q(SELECT zk_lock_guard('/stock') > 0));
wait_for_queue($zk, '/stock', $s1, $s2);
ok(!$s2->is_done, 'a waiter waits while the other transaction is open');
$s1->query('COMMIT');
is($s2->result, 't', 'its commit wakes the waiter');
is($s2->query('SELECT n FROM stock'), '9', '... who sees the committed row');
$s2->query('COMMIT');

# First come, first served: backends, or servers if backends of one hand the lock
# over by themselves.

my @line = map { ZkTest->new($_) }
  ($node_a, $node_b) x (server_mode() eq 'gate' ? 1 : 3);
for my $i (0 .. $#line)
{
	$line[$i]->start(q(SELECT zk_lock_acquire('/line')));
	wait_for_queue($zk, '/line', @line[ 0 .. $i ]);
}
while (my $holder = shift @line)
{
	is($holder->result, 't', 'the first in line gets the lock');
	is(scalar(grep { $_->is_done } @line), 0, '... and nobody else');
	$holder->query(q(SELECT zk_lock_release('/line')));
}

# A counter that is read and then written, from both servers at once.

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

	ok($run->finish, 'pgbench') || diag($$out);
}
is($node_a->safe_psql('postgres', 'SELECT n FROM stock'),
	9 + 2 * 5 * 30, 'no increment is lost');

done_testing();
