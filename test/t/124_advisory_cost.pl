# What an advisory lock costs across servers if the server keeps it (zklock.keep_time): at most
# 2.2 times the processor time of PostgreSQL's own, in the same loop. 32 clients of pgbench
# that have a key each reach at least 0.75 of the rate.
#
# Runs once: only the server's session keeps locks.

use strict;
use warnings;

use Child;
use List::Util qw(max min);
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
	log_statement => 'none');
my $session = ZkTest->new($node);
my $file = '/proc/' . $session->pid . '/schedstat';

plan skip_all => "the kernel has no $file" if !-e $file;
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

# The least time of a loop counts, because others can only slow it down.
for my $scope (qw(session transaction))
{
	my %least;
	my $ratio;

	wait_until(
		'a loop is not disturbed',
		sub {
			for my $set (qw(server cluster))
			{
				$session->query("SET zklock.advisory_locks = '$set'; CALL $scope(1)");
				my $began = processor_time();
				is($session->query("CALL $scope(5000)"), '', "a loop of $scope scope, '$set'");
				$least{$set} = min(processor_time() - $began, $least{$set} // ());
			}
			$ratio = $least{cluster} / $least{server};
			return $ratio <= 2.2;
		});
	cmp_ok($ratio, '<=', 2.2, "... costs at most 2.2 times as much");
}
cmp_ok($session->query('SELECT kept_grants FROM zk_lock_stats'), '>', 9000,
	'the locks were kept ones, but for the first');
$session->close;

# Returns the transactions a second of clients, each of which locks its own key.
my $tmp = PostgreSQL::Test::Utils::tempdir();
append_to_file("$tmp/own.sql", "SELECT pg_advisory_xact_lock(:client_id);\n");
sub rate
{
	my ($set) = @_;
	local $ENV{PGOPTIONS} = "-c zklock.advisory_locks=$set";

	Child->run("$tmp/pgbench", $Wait::timeout, 'pgbench', '-n', '-c', 32, '-T', 1, '-f', "$tmp/own.sql",
		'-h', $node->host, '-p', $node->port, 'postgres');
	my $output = slurp_file("$tmp/pgbench");
	$output =~ /^tps = ([\d.]+)/m or die "pgbench has no rate:\n$output";
	unlink("$tmp/pgbench") or die "$tmp/pgbench: $!\n";
	return $1;
}

# The highest rate counts, because others can only lower it.
my %rates;
wait_until(
	'pgbench is not disturbed',
	sub {
		$rates{$_} = max(rate($_), $rates{$_} // ()) for qw(server cluster);
		return $rates{cluster} >= 0.75 * $rates{server};
	});
cmp_ok($rates{cluster}, '>=', 0.75 * $rates{server},
	'clients with a key each reach at least 0.75 of the rate');

done_testing();
