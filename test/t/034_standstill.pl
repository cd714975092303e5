# The worker stands still, wherever it has none of the locks of shared memory, and
# whom it works for is cancelled or terminated meanwhile: it does not go on with what
# nobody wants any more, and nothing is left.
#
# Runs once: of server mode.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

use constant MANY => 100;    # no lock takes so many calls

my $zk = ZkServer->new->start;
my $library = build_module('standstill');
my %server = (
	'zklock.session' => 'server',
	'zklock.session_timeout' => '40s',
	shared_preload_libraries => "zklock,$library");
my %nodes = (
	gate => new_node('gate', $zk->hosts, %server, 'zklock.local_handover' => '10min'),
	own => new_node('own', $zk->hosts, %server, 'zklock.local_handover' => '0'));
my %errors = (
	pg_cancel_backend => qr/^ERROR:  57014: /,
	pg_terminate_backend => qr/^FATAL:  57P01: /);

sub is_still
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/stat") =~ /\) T /;
}

for my $kind (sort keys %nodes)
{
	my $node = $nodes{$kind};
	my ($observer, $asker) = map { ZkTest->new($node) } 1 .. 2;
	my $worker = worker_of($node);

	$node->safe_psql('postgres', qq(
		CREATE FUNCTION standstill(pid int, which int) RETURNS void
			AS '$library' LANGUAGE C));

	# Each of its commits waits until the worker has done all that it had to.
	$asker->query(q(SET zklock.confirm_commit = 'always';
		SELECT zk_lock_acquire('/standstill/asker')));

	for my $end (sort keys %errors)
	{
		my ($n, $still, @wrong) = (0, 1);

		while ($still && ++$n < MANY)
		{
			my $path = "/standstill/$kind/$end/$n";
			my $victim = ZkTest->new($node);

			$observer->query("SELECT standstill($worker, $n)");
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('the worker stands still, or has done it',
				sub { ($still = is_still($worker)) || $victim->is_done });
			$observer->query("SELECT $end(${\ $victim->pid})") if $still;
			my $result = $victim->result;
			push @wrong, $result if $result ne 't' && $result !~ $errors{$end};
			$victim->close;
			wait_until('it is gone',
				sub {
					!$observer->query("SELECT count(*) FROM pg_stat_activity
						WHERE pid = ${\ $victim->pid}");
				});
			$observer->query('SELECT standstill(0, 0)');
			kill('CONT', $worker);
			push @wrong, $result if ($result = $asker->query('SELECT 1')) ne '1';
			wait_until("no node is left after call $n of the worker",
				sub { !$zk->exists($path) || !$zk->children($path) });
		}
		is(join("\n", @wrong), '', "$kind, $end");
		cmp_ok($n, '>', 4, '... and the worker has stood still');
	}
	is(worker_of($node), $worker, '... which is the same one');
	$asker->close;
	wait_for_calm($node, $zk);
}

# The session is over, and the worker stands still when it is about to have the statement
# of a holder cancelled: the holder does not wait for that.

my $node = new_node('signal', $zk->hosts, %server, 'zklock.session_timeout' => '4s');
my $worker = worker_of($node);
my ($asker, $latch) = map { ZkTest->new($node) } 1 .. 2;
$node->safe_psql('postgres', qq(
	CREATE FUNCTION standstill_at_signal(pid int, which int) RETURNS void
		AS '$library' LANGUAGE C));

for my $end (sort keys %errors)
{
	my $victim = ZkTest->new($node);

	is($victim->query(q(SELECT zk_lock_acquire('/standstill/signal'))),
		't', 'a lock is held');
	$latch->query('SELECT pg_advisory_lock(1)');
	$victim->start('SELECT pg_advisory_lock(1)');
	wait_until('its statement is under way',
		sub {
			$asker->query("SELECT wait_event FROM pg_stat_activity
				WHERE pid = ${\ $victim->pid}") eq 'advisory';
		});
	my $session = $node->safe_psql('postgres', 'SELECT session_id FROM zk_session()');
	kill('STOP', $worker);
	wait_until('the session is over', sub { !grep { $_ eq $session } $zk->sessions });
	$asker->query("SELECT standstill_at_signal($worker, 1)");
	kill('CONT', $worker);
	wait_until('the worker stands still', sub { is_still($worker) });

	# It ends by itself, and is told of the loss all the same.
	$latch->query('SELECT pg_advisory_unlock(1)');
	like($victim->result, qr/^ERROR:  40001: /,
		'the holder is told at the end of its statement');
	$victim->start('SELECT pg_sleep(600)');
	wait_until('it goes on',
		sub {
			$asker->query("SELECT wait_event FROM pg_stat_activity
				WHERE pid = ${\ $victim->pid}") eq 'PgSleep';
		});

	# The signal is late, and does nothing.
	$asker->query('SELECT standstill_at_signal(0, 0)');
	kill('CONT', $worker);
	is( $asker->query(
			q(SELECT zk_lock_acquire('/standstill/signal'), zk_lock_release_all())),
		't|1', 'the worker goes on');
	ok(!$victim->is_done, '... and the statement, too');
	$asker->query("SELECT $end(${\ $victim->pid})");
	like($victim->result, $errors{$end}, "$end ends it");
	$victim->close;
}
wait_for_calm($node, $zk);

done_testing();
