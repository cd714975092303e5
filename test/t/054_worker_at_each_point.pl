# The worker is suspended at each point where it holds no lock of shared
# memory, while the backend that it works for is cancelled or terminated: it
# does not continue with a request that was given up, and no node is left.
#
# Runs once: the test sets the mode itself.

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
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '40s',
	shared_preload_libraries => "zklock,$library");
my %nodes = (
	gate => new_node('gate', $zk->hosts, %server, 'zklock.handover_time' => '10min'),
	own => new_node('own', $zk->hosts, %server, 'zklock.handover_time' => '0'));
my %errors = (
	pg_cancel_backend => qr/^ERROR:  57014: /,
	pg_terminate_backend => qr/^FATAL:  57P01: /);

for my $kind (sort keys %nodes)
{
	my $node = $nodes{$kind};
	my ($observer, $committer) = map { ZkTest->new($node) } 1 .. 2;
	my $worker = worker_of($node);

	$node->safe_psql('postgres', qq(
		CREATE FUNCTION standstill(pid int, which int) RETURNS void
			AS '$library' LANGUAGE C));

	# Each commit of this session waits until the worker has completed all
	# earlier requests.
	$committer->query(q(SET zklock.confirm_commit = 'always';
		SELECT zk_lock_acquire('/standstill/committer')));

	for my $end (sort keys %errors)
	{
		my ($n, $still, @wrong) = (0, 1);

		while ($still && ++$n < MANY)
		{
			my $path = "/standstill/$kind/$end/$n";
			my $victim = ZkTest->new($node);

			$observer->query("SELECT standstill($worker, $n)");
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('the worker is suspended, or the request is done',
				sub { ($still = is_suspended($worker)) || $victim->is_done });
			$observer->query("SELECT $end(${\ $victim->pid})") if $still;
			my $result = $victim->result;

			# The request may be done before the session ends.
			push @wrong, $result if $result ne 't' && $result =~ s/^t\n//r !~ $errors{$end};
			$victim->close;
			wait_until('the victim has ended',
				sub {
					!$observer->query("SELECT count(*) FROM pg_stat_activity
						WHERE pid = ${\ $victim->pid}");
				});
			$observer->query('SELECT standstill(0, 0)');
			kill('CONT', $worker);
			push @wrong, $result if ($result = $committer->query('SELECT 1')) ne '1';
			wait_until("no node is left after call $n of the worker",
				sub { !$zk->exists($path) || !$zk->children($path) });
		}
		is(join("\n", @wrong), '', "$kind: requests end as expected after $end");
		cmp_ok($n, '>', 4, '... and the worker was suspended');
	}
	is(worker_of($node), $worker, '... and is the same process');
	$committer->close;
	wait_until_idle($node, $zk);
}

# The session has expired, and the worker is suspended when it is about to
# cancel the statement of a holder: the holder does not wait for the signal.

my $node = new_node('signal', $zk->hosts, %server, 'zklock.session_timeout' => '4s');
my $worker = worker_of($node);
my ($control, $latch) = map { ZkTest->new($node) } 1 .. 2;
$node->safe_psql('postgres', qq(
	CREATE FUNCTION standstill_at_signal(pid int, which int) RETURNS void
		AS '$library' LANGUAGE C));

for my $end (sort keys %errors)
{
	my $victim = ZkTest->new($node);

	is($victim->query(q(SELECT zk_lock_acquire('/standstill/signal'))),
		't', 'lock is held');
	$latch->query('SELECT pg_advisory_lock(1)');
	$victim->start('SELECT pg_advisory_lock(1)');
	$victim->wait_for_event('advisory');
	my $session = $node->safe_psql('postgres', 'SELECT session_id FROM zk_session()');
	kill('STOP', $worker);
	wait_until('the session is over', sub { !grep { $_ eq $session } $zk->sessions });
	$control->query("SELECT standstill_at_signal($worker, 1)");
	kill('CONT', $worker);
	wait_until('the worker is suspended, or is not needed any more',
		sub { is_suspended($worker) || $victim->is_done });
	if (!is_suspended($worker))
	{
		# ZooKeeper was slow, so that the holder has cancelled its statement itself.
		like($victim->result, qr/^ERROR:  40001: /, 'holder knows without the worker');
		$control->query('SELECT standstill_at_signal(0, 0)');
		$latch->query('SELECT pg_advisory_unlock(1)');
		$victim->close;
		redo;
	}

	# The statement ends by itself, and gets the error all the same.
	$latch->query('SELECT pg_advisory_unlock(1)');
	like($victim->result, qr/^ERROR:  40001: /,
		'holder gets the error at the end of its statement');
	$victim->start('SELECT pg_sleep(600)');
	$victim->wait_for_event('PgSleep');

	# The signal comes late, and has no effect.
	$control->query('SELECT standstill_at_signal(0, 0)');
	kill('CONT', $worker);
	is( $control->query(
			q(SELECT zk_lock_acquire('/standstill/signal'), zk_lock_release_all())),
		't|1', 'worker continues');
	ok(!$victim->is_done, '... and a late signal does not cancel the next statement');
	$control->query("SELECT $end(${\ $victim->pid})");
	like($victim->result, $errors{$end}, "$end ends that statement");
	$victim->close;
}
wait_until_idle($node, $zk);

done_testing();
