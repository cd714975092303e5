# Waits across servers that are no deadlock, or that end as a deadlock is found.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: a queue of 60 waiters, not of 1,000

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use Time::HiRes qw(time);
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant {
	WAITS => '/zklock/waits',
	CHAIN => 50,
	WAITERS => sample_of(1000, 60),
	OTHERS => 120,
	RECORDS => 1500
};

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my %conf = (
	deadlock_timeout => '200ms',
	log_lock_waits => 'on',
	shared_preload_libraries => 'zklock');
# dblink uses at most a third of the files of a process. The sessions of all waiters begin
# at the same time.
my $near = new_node(
	'near', $proxy->hosts, %conf,
	'zklock.connect_timeout' => '60s',
	max_connections => OTHERS + WAITERS + 20,
	max_files_per_process => 4 * (OTHERS + WAITERS) + 1000,
	'zklock.max_locks' => 16 * (OTHERS + WAITERS));
my $far = new_node('far', $zk->hosts, %conf, max_connections => CHAIN + 20);
my ($a, $b, $killer) = map { ZkTest->new($_) } $far, $near, $near;

sub counted
{
	my $counted = 0;

	$counted += $_->safe_psql('postgres', 'SELECT sum(deadlocks) FROM zk_lock_stats')
	  for $near, $far;
	return $counted;
}

sub wait_for_records
{
	my ($n) = @_;

	wait_until("there are $n records", sub { $zk->children(WAITS) == $n });
	return;
}

# Waits until so many backends of a server have looked for a deadlock.
sub wait_for_looks
{
	my ($node, $n) = @_;

	wait_until("$n backends have looked for a deadlock",
		sub { (() = slurp_file($node->logfile) =~ /still waiting for/g) >= $n });
	return;
}

# Many connections, numbered from 0, cost less than as many processes of psql.
$near->safe_psql('postgres', 'CREATE EXTENSION dblink');
my $many = ZkTest->new($near);

sub connect_many
{
	my ($last, @nodes) = @_;
	my @conninfo = map { $_->connstr('postgres') =~ s/'/''/gr } @nodes;
	my $conninfo = join(', ', map { "'$_'" } @conninfo);

	my $connected = $many->query(
		"SELECT count(dblink_connect('c' || i, (ARRAY[$conninfo])[1 + i % ${\ scalar @nodes}])),
			count(dblink_exec('c' || i, 'BEGIN'))
		 FROM generate_series(0, $last) AS i");
	die "$connected\n" if $connected !~ /^\d+\|\d+$/;
	return;
}

# Sends each connection from $first to $last SQL that contains its number plus $shift as
# %s, without a wait for the end.
sub start_many
{
	my ($first, $last, $sql, $shift) = @_;

	$shift //= 0;
	$many->query(
		"SELECT count(dblink_send_query('c' || i, format(\$\$$sql\$\$, i + $shift)))
		 FROM generate_series($first, $last) AS i");
	return;
}

sub are_busy
{
	my ($last) = @_;

	return $many->query(
		"SELECT sum(dblink_is_busy('c' || i)) FROM generate_series(0, $last) AS i");
}

sub disconnect_many
{
	my ($last) = @_;

	$many->query(
		"SELECT count(dblink_disconnect('c' || i)) FROM generate_series(0, $last) AS i");
	return;
}

# A queue of backends that hold nothing

$a->query('BEGIN; ' . xact_acquire('/queue'));
connect_many(WAITERS - 1, $near);
start_many(0, WAITERS - 1,  xact_acquire('/queue') . '; COMMIT');
wait_for_looks($near, WAITERS);
$proxy->wait_idle;
is(scalar(grep { ($_->{path} // '') =~ m{^/zklock} } $proxy->trace),
	0, 'a queue of backends that hold nothing sends nothing for the detection');
$proxy->mark;
$a->query('ROLLBACK');
wait_until('each one is granted the lock', sub { are_busy(WAITERS - 1) == 0 });
disconnect_many(WAITERS - 1);

# A chain: each backend has a lock that the next one waits for.

my $log = (() = slurp_file($near->logfile) =~ /still waiting for/g);
connect_many(CHAIN, $near, $far);
start_many(0, CHAIN, xact_acquire('/chain/%s'));
wait_until('all have a lock', sub { are_busy(CHAIN) == 0 });
$many->query(
	"SELECT count(r), count(e)
	 FROM generate_series(0, ${\ CHAIN}) AS i,
		dblink_get_result('c' || i) AS t (r boolean)
		LEFT JOIN LATERAL dblink_get_result('c' || i) AS u (e boolean) ON true");
start_many(1, CHAIN, xact_acquire('/chain/%s') . '; COMMIT', -1);
wait_for_records(CHAIN);
wait_for_looks($near, $log + CHAIN / 2);
wait_for_looks($far, CHAIN / 2);
$proxy->wait_idle;
is(counted(), 0, 'a chain of ' . CHAIN . ' waiters is no deadlock');
is(are_busy(CHAIN), CHAIN, '... and all of them wait');

# One victim lets all others go on.
start_many(0, 0, xact_acquire('/chain/%s') . '; COMMIT', CHAIN);
wait_until('all waits end', sub { are_busy(CHAIN) == 0 });
is(counted(), 1, '... until it is closed: one of them is a victim');
my ($detail) = (slurp_file($near->logfile) . slurp_file($far->logfile)) =~
  /deadlock detected\n.*DETAIL:  (.*?)\n\tRecord of/s;
my @lines = map { [/^\t?Process (\d+) of .*; blocked by process (\d+) of/] } split(/\n/, $detail);
cmp_ok(scalar(@lines), '>', 1, '... whose error has several members');
is(join(' ', map { $_->[1] } @lines[ 0 .. $#lines - 1 ]),
	join(' ', map { $_->[0] } @lines[ 1 .. $#lines ]), '... each blocked by the next');
isnt($lines[-1][1], $lines[0][0], '... and not the last one by the first if others have no room');
disconnect_many(CHAIN);
wait_for_records(0);

# Begins two transactions, of which each one waits for the other in the end.
sub begin
{
	my ($path, $other, $victim) = @_;

	$other->query('BEGIN; ' . xact_acquire("$path/1"));
	$victim->query('BEGIN; ' . xact_acquire("$path/2"));
	$other->start(xact_acquire("$path/2"));
	return;
}

sub found_ok
{
	my ($path, $what) = @_;

	begin($path, $a, $b);
	$b->start(xact_acquire("$path/1"));
	my $began = time();
	my @results = sort map { $_->result } $a, $b;
	note(sprintf('%s: after %.3f s', $what, time() - $began));
	like("@results", qr/^ERROR:  40P01.* t$/s, "$what: a deadlock of others is found");
	$_->query('ROLLBACK') for $a, $b;
	return;
}

# Many connections, each with a record as long as possible, have nothing to do with a
# deadlock of others.

$killer->query('BEGIN; ' . xact_acquire('/flood/held'));
connect_many(OTHERS - 1, $near);
start_many(0, OTHERS - 1,
	q(SELECT count(zk_lock_acquire('/flood/' || repeat('x', 180) || '/%1$s/' || i, scope => 'transaction'))
	  FROM generate_series(1, 15) AS i; ) . xact_acquire('/flood/held') . '; COMMIT');
wait_for_records(OTHERS);
found_ok('/beside/many', OTHERS . ' connections with 15 locks');
$killer->query('ROLLBACK');
wait_until('all waits end', sub { are_busy(OTHERS - 1) == 0 });
disconnect_many(OTHERS - 1);
wait_for_records(0);
$many->close;

# Nor have records of a client that wants to do harm, although their names say that each
# may have any node.

my $client = ZkClient->new($zk->hosts);
for my $i (1 .. RECORDS)
{
	my $node = "_c_00000000-0000-4000-8000-000000000000-lock-000000000$i";
	my @held = map { "holds\twrite\t/beside/records/$_\t$node\n" } 1 .. 40;

	$client->create(WAITS . '/' . 'f' x 64 . sprintf('%016x', $i),
		join('', "zklock-1\thostile\thostile\n", "waits\texclusive\t/hostile/$i\t$node\n", @held),
		ZkClient::EPHEMERAL);
}
found_ok('/beside/records', RECORDS . ' records');
$client->close;
wait_for_records(0);

# A user cancels the victim when it is about to know of the deadlock: the wait ends with
# one error or the other, and nothing is left of it.

my %ends;

# Ends the cycle of these two, of which the second one is the victim and is cancelled.
sub cancel
{
	my ($other, $victim, $path, $cancel) = @_;
	my $session = $victim->query('SELECT session_id FROM zk_session()');

	$victim->start(xact_acquire("$path/1"));
	$cancel->();
	my $error = $victim->result;
	$killer->result;
	$ends{ $error =~ /^ERROR:  (40P01|57014)/ ? $1 : $error }++;
	$victim->query('ROLLBACK');
	is( $victim->query(
			"SELECT count(*), (SELECT session_id FROM zk_session()) FROM zk_locks
			 WHERE pid = ${\ $victim->pid}"),
		"0|$session",
		'a cancelled victim has no lock after its rollback, and still its session');
	is($other->result, 't', '... and the other one goes on');
	$other->query('ROLLBACK');
	return;
}

# Across servers, the cancellation and the last reply but two of the walk are on their way
# at the same time.
for my $round (1 .. 6)
{
	my $path = "/cancelled/$round";

	begin($path, $a, $b);
	wait_for_records(1);
	$proxy->mark;
	my $rule = $proxy->rule(dir => 's2c', op => 'sync', action => 'hold');
	cancel($a, $b, $path,
		sub {
			wait_until('the walk is held', sub { $proxy->fired($rule) });
			$proxy->release if $round % 2;
			$killer->start("SELECT pg_cancel_backend(${\ $b->pid})");
			$proxy->reset;
		});
}
wait_for_records(0);

# Within a server, both are due at the same time.
my $c = ZkTest->new($near, deadlock_timeout => '1h');
for my $round (1 .. 6)
{
	my $path = "/cancelled/here/$round";

	begin($path, $c, $b);
	wait_for_queue($zk, "$path/2", $b, $c);
	cancel($c, $b, $path,
		sub {
			$killer->start(
				"SELECT pg_sleep(${\ (0.19 + 0.002 * $round)}), pg_cancel_backend(${\ $b->pid})");
		});
}
note(join(', ', map { "$_: $ends{$_}" } sort keys %ends));
is(join(' ', grep { !/^(40P01|57014)$/ } keys %ends), '',
	'a cancellation races with the verdict: each wait ends with one or the other');

done_testing();
