# What an advisory lock costs across servers if the server keeps it (zklock.keep_time): at most
# 2.2 times the processor time of PostgreSQL's own, in the same loop. A transaction of a
# client that does nothing else costs the server at most 1.4 times as much.
#
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
my $node = new_node('main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.keep_time' => '10s',
	max_connections => 50,
	autovacuum => 'off',
	log_statement => 'none');
my $session = ZkTest->new($node);
my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
my $file = '/proc/' . $session->pid . '/schedstat';
my $children = "/proc/$postmaster/task/$postmaster/children";

for ($file, $children)
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

# Returns the nanoseconds of processor time that the backend has used.
sub processor_time
{
	open(my $fh, '<', $file) or die "$file: $!\n";
	return (split(' ', <$fh>))[0];
}

# Compares what advisory locks across servers and those of PostgreSQL cost. The least cost
# counts, because others can only add to it.
sub compare
{
	my ($what, $cost, $most) = @_;
	my %least;
	my $ratio;

	wait_until(
		"$what are not disturbed",
		sub {
			$least{$_} = min($cost->($_), $least{$_} // ()) for qw(server cluster);
			$ratio = $least{cluster} / $least{server};
			return $ratio <= $most;
		});
	cmp_ok($ratio, '<=', $most, "$what cost at most $most times as much");
	return;
}

for my $scope (qw(session transaction))
{
	compare(
		"locks of $scope scope",
		sub {
			my ($set) = @_;
			$session->query("SET zklock.advisory_locks = '$set'; CALL $scope(1)");
			my $began = processor_time();
			is($session->query("CALL $scope(5000)"), '', "a loop of $scope scope, '$set'");
			return processor_time() - $began;
		},
		2.2);
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

compare('transactions of clients with a key each', \&ticks_of_clients, 1.4);
$session->close;

done_testing();
