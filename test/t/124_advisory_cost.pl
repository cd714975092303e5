# What an advisory lock costs across servers if the server keeps it (zklock.keep_time): at most
# 2.2 times the processor time of PostgreSQL's own, in the same loop, and with 'both' at most twice
# that of 'cluster'. A transaction of a client that does nothing else costs the server at most 1.4
# times as much. A look at 1,000 locks of each kind costs at most 1.5 times as much as one at
# 2,000 of PostgreSQL's. A transaction of a session with 1,000 locks of 'both' costs at most 1.6
# times as much as with as many of PostgreSQL's, all of which PostgreSQL looks at.
#
# Left out of make test: it takes long.
# Runs once: only the server's session keeps locks.

use strict;
use warnings;

use Child;
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my %conf = (
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.keep_time' => '10s',
	'zklock.max_locks' => 16384,
	max_connections => 50,
	autovacuum => 'off',
	log_statement => 'none');
my $node = new_node('main', $zk->hosts, %conf);
my $session = ZkTest->new($node);
my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
sub schedstat { return '/proc/' . $_[0]->pid . '/schedstat' }
my $children = "/proc/$postmaster/task/$postmaster/children";

for (schedstat($session), $children)
{
	plan skip_all => "the kernel has no $_" if !-e;
}
$session->query(q(
	CREATE EXTENSION zklock_advisory;
	CREATE PROCEDURE session(n int) LANGUAGE plpgsql AS $$ BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM pg_advisory_lock(1);
			PERFORM pg_advisory_unlock(1);
		END LOOP; END $$;
	CREATE PROCEDURE transaction(n int) LANGUAGE plpgsql AS $$ BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM pg_try_advisory_xact_lock(1);
			COMMIT;
		END LOOP; END $$));

# Returns the nanoseconds of processor time that a backend has used.
sub processor_time
{
	my $file = schedstat($_[0]);

	open(my $fh, '<', $file) or die "$file: $!\n";
	return (split(' ', <$fh>))[0];
}

# Compares what advisory locks cost with the second setting, and with the first one. The least
# cost counts, because others can only add to it.
sub compare
{
	my ($what, $cost, $most, $base, $set) = @_;
	my %least;
	my $ratio;

	wait_until(
		"$what are not disturbed",
		sub {
			$least{$_} = min($cost->($_), $least{$_} // ()) for $base, $set;
			$ratio = $least{$set} / $least{$base};
			return $ratio <= $most;
		});
	cmp_ok($ratio, '<=', $most, "$what cost at most $most times as much with '$set' as with '$base'");
	return;
}

for my $scope (qw(session transaction))
{
	my $cost = sub {
		my ($set) = @_;
		$session->query("SET zklock.advisory_locks = '$set'; CALL $scope(1)");
		my $began = processor_time($session);
		is($session->query("CALL $scope(5000)"), '', "a loop of $scope scope, '$set'");
		return processor_time($session) - $began;
	};

	compare("locks of $scope scope", $cost, 2.2, qw(server cluster));
	compare("locks of $scope scope", $cost, 2.0, qw(cluster both));
}
cmp_ok($session->query('SELECT kept_grants FROM zk_lock_stats'), '>', 9000,
	'the locks were kept ones, but for the first');

# Returns the clock ticks of processor time that the server's backends took for
# transactions of 32 clients of pgbench, each of which locks its own key. The postmaster's
# count has those of processes that have ended.
my $tmp = PostgreSQL::Test::Utils::tempdir();
append_to_file("$tmp/own.sql", "SELECT pg_advisory_xact_lock(:client_id);\n");

sub ticks
{
	slurp_file("/proc/$postmaster/stat") =~ /^.*\)(?: \S+){13} (\d+) (\d+) / or die 'no times of children';
	return $1 + $2;
}

# Returns how many children of the postmaster are backends of clients, or have ended and wait
# for the postmaster. These have no command line any more.
sub clients
{
	my $n = 0;

	for my $pid (split(' ', slurp_file($children)))
	{
		open(my $fh, '<', "/proc/$pid/cmdline") or next;
		my $line = <$fh> // '';
		$n++ if $line eq '' || $line =~ /\[local\]/;
	}
	return $n;
}

sub ticks_of_clients
{
	my ($set) = @_;
	local $ENV{PGOPTIONS} = "-c zklock.advisory_locks=$set";
	my $ticks = ticks();

	Child->run("$tmp/pgbench", $Wait::timeout, 'pgbench', '-n', '-c', 32, '-t', 1000, '-f', "$tmp/own.sql",
		'-h', $node->host, '-p', $node->port, 'postgres');
	like(slurp_file("$tmp/pgbench"), qr/processed: 32000\b/, "transactions of 32 clients, '$set'");
	unlink("$tmp/pgbench") or die "$tmp/pgbench: $!\n";
	wait_until('the backends have ended', sub { clients() == 1 });
	return ticks() - $ticks;
}

compare('transactions of clients with a key each', \&ticks_of_clients, 1.4, qw(server cluster));
$session->close;

# Looks: at a server with 2,000 locks of PostgreSQL, and at one with 1,000 of each kind
my %nodes = (server => new_node('other', $zk->hosts, %conf), cluster => $node);
my %lookers = map { $_ => ZkTest->new($nodes{$_}, 'zklock.advisory_locks' => $_) } keys %nodes;
my $take = 'SELECT count(pg_advisory_lock(i)) FROM generate_series(%d, %d) i';
my @holders;

sub hold
{
	my ($on, $set, @keys) = @_;

	push(@holders, ZkTest->new($nodes{$on}, 'zklock.advisory_locks' => $set));
	is($holders[-1]->query(sprintf($take, @keys)), $keys[1] - $keys[0] + 1, "locks on '$on', with '$set'");
	return;
}
hold('server', 'server', 1, 2000);
hold('cluster', 'server', 1, 1000);
hold('cluster', 'cluster', 1001, 2000);
for my $set (sort keys %nodes)
{
	is($lookers{$set}->query(q(CREATE PROCEDURE look(n int) LANGUAGE plpgsql AS $$ BEGIN
			FOR i IN 1 .. n LOOP PERFORM count(*) FROM pg_locks; END LOOP; END $$;
			SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')), 2000, "'$set' shows all");
}
compare(
	'looks',
	sub {
		my $looker = $lookers{ $_[0] };
		my $began = processor_time($looker);
		is($looker->query('CALL look(50)'), '', "looks, '$_[0]'");
		return processor_time($looker) - $began;
	},
	1.5, qw(server cluster));

# Transactions of sessions with 1,000 locks each
hold('cluster', 'both', 8001, 9000);
my %with_locks = (server => $holders[1], both => $holders[-1]);
$node->safe_psql('postgres', q(CREATE PROCEDURE commits(n int) LANGUAGE plpgsql AS $$ BEGIN
		FOR i IN 1 .. n LOOP COMMIT; END LOOP; END $$));
compare(
	'transactions with locks',
	sub {
		my $holder = $with_locks{ $_[0] };
		my $began = processor_time($holder);
		is($holder->query('CALL commits(500)'), '', "transactions with locks, '$_[0]'");
		return processor_time($holder) - $began;
	},
	1.6, qw(server both));

# Whoever asks in a loop who blocks a waiter does not keep others from their locks.
hold('cluster', 'cluster', 2001, 7000);
my ($waiter, $locker, @loops) = map { ZkTest->new($node, 'zklock.advisory_locks' => 'cluster') } 1 .. 10;
my $path = '/pg_advisory/postgres/';
$waiter->start(qq(SELECT zk_lock_acquire_all(ARRAY(SELECT '$path' || i FROM generate_series(1001, 2000) i), '1h', 'write')));
wait_until('it waits for 1,000 locks', sub { $locker->query('SELECT count(*) FROM zk_locks WHERE NOT granted') eq '1000' });
$_->start(qq(DO \$\$ BEGIN LOOP PERFORM pg_blocking_pids(${\ $waiter->pid}); END LOOP; END \$\$)) for @loops;
is($locker->query(q(SET statement_timeout = '20s';
		DO $$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM pg_advisory_lock(7001); PERFORM pg_advisory_unlock(7001); END LOOP; END $$)),
	'', '1,000 locks while eight sessions ask who blocks a waiter');
$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO $$ BEGIN LOOP%'));
$_->close for @loops, $waiter, $locker, @holders, values %lookers;

done_testing();
