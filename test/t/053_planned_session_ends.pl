# The worker ends its session on purpose, for changed settings or because it is
# terminated, at the most inconvenient moments: no lock is lost.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkServer;
use ZkTest;

use constant {
	MANY => 20,         # no release makes so many calls
	CLIENTS => 6,
	PATHS => 3,
	RELOADS => 10,
	TERMINATIONS => 3,
	NODES => 400,
};

my $zk = ZkServer->new->start;
my $library = build_module('standstill');
my %server = (
	'zklock.session_mode' => 'server',
	shared_preload_libraries => "zklock,$library");
my %nodes = (
	gate => new_node('gate', $zk->hosts, %server, 'zklock.handover_time' => '10min'),
	own => new_node('own', $zk->hosts, %server, 'zklock.handover_time' => '0'));
my $timeout = 20_000;    # a new value for each change

# Returns how often the process has slept.
sub sleeps_of
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m ? $1 : 0;
}

# Waits until the worker has completed its loop more than once, unless it is
# suspended.
sub wait_for_turns
{
	my ($worker) = @_;
	my $before = sleeps_of($worker);

	wait_until('the worker has completed a loop',
		sub { is_suspended($worker) || sleeps_of($worker) > $before + 1 });
	return;
}

# Changes a setting of the session. The worker has got the signal when this
# returns.
sub change_session
{
	my ($node) = @_;

	$timeout++;
	$node->safe_psql('postgres',
		"ALTER SYSTEM SET zklock.session_timeout = $timeout");
	kill('HUP', worker_of($node));
	return;
}

for my $kind (sort keys %nodes)
{
	my $node = $nodes{$kind};
	my ($observer, $holder) = map { ZkTest->new($node) } 1 .. 2;
	my $worker = worker_of($node);
	my ($n, $still, @wrong) = (0, 1);

	$node->safe_psql('postgres', qq(
		CREATE FUNCTION standstill(pid int, which int) RETURNS void
			AS '$library' LANGUAGE C));

	# A statement that releases its only lock is suspended at each of its
	# calls, while the session ends as soon as it can.
	while ($still && ++$n < MANY)
	{
		$holder->query(q(SELECT zk_lock_acquire('/planned/released')));
		$observer->query("SELECT standstill(${\ $holder->pid}, $n)");
		$holder->start(q(SELECT zk_lock_release('/planned/released')));
		wait_until('the holder is suspended or done',
			sub { ($still = is_suspended($holder->pid)) || $holder->is_done });
		change_session($node);
		wait_for_turns($worker);
		$observer->query('SELECT standstill(0, 0)');
		kill('CONT', $holder->pid);
		push @wrong, "call $n: ${\ $holder->result}" if $holder->result ne 't';
	}
	is(join("\n", @wrong), '', "$kind: no release is cancelled");
	cmp_ok($n, '>', 2, '... whichever call of it is suspended');
	$_->close for $observer, $holder;
	wait_until_idle($node, $zk);
}

# The worker is suspended while it examines a lock, and the lock is handed over
# from a claim that it has not examined yet to one that it has.

my $node = $nodes{gate};
my ($observer, $first, $holder, $waiter) = map { ZkTest->new($node) } 1 .. 4;
my $worker = worker_of($node);
my $acquire = q(SELECT zk_lock_acquire('/planned/handed'));

$first->query(q(SELECT zk_lock_acquire('/planned/first')));
$holder->query($acquire);
$first->query('SELECT zk_lock_release_all()');
wait_for_turns($worker);
change_session($node);
wait_for_turns($worker);

# Served as soon as the worker stops delaying newcomers
is($first->query(q(SELECT zk_lock_acquire('/planned/first'), zk_lock_release_all())),
	't|1', 'session continues while a lock is held');
wait_for_turns($worker);
$observer->query("SELECT standstill($worker, 1)");
wait_for_turns($worker);
$waiter->start($acquire);
wait_until(
	'the waiter is shown in zk_locks',
	sub {
		$node->safe_psql('postgres', 'SELECT count(*) FROM zk_locks WHERE NOT granted');
	});
is($holder->query('SELECT zk_lock_release_all()'), 1, 'lock is released');
is($waiter->result, 't', '... and handed over to the waiter');
$observer->query('SELECT standstill(0, 0)');
kill('CONT', $worker);
wait_for_turns($worker);
is($waiter->query('BEGIN; SELECT 1; COMMIT'),
	1, '... which does not lose it by the planned end');
$waiter->query('SELECT zk_lock_release_all()');
$_->close for $first, $holder, $waiter;

# Under load: backends hold a lock at almost any time

my $losses = q(SELECT losses FROM zk_lock_stats);
my $session = q(SELECT session_id FROM zk_session());
my $work = qq(
	DO \$\$ BEGIN
		WHILE NOT EXISTS (SELECT FROM t) LOOP
			PERFORM zk_lock_guard('/planned/' || i, '1min')
				FROM (SELECT DISTINCT (random() * ${\ PATHS})::int AS i
					  FROM generate_series(1, 2) ORDER BY i) AS _;
			COMMIT;
			PERFORM zk_lock_acquire('/planned/session', '1min');
			PERFORM zk_lock_release('/planned/session');
		END LOOP;
	END \$\$);

for my $kind (sort keys %nodes)
{
	my $node = $nodes{$kind};
	my $observer = ZkTest->new($node);
	my @clients = map { ZkTest->new($node) } 1 .. CLIENTS;
	my @errors;

	my $check = sub {
		my ($what) = @_;

		for my $client (grep { $_->is_done } @clients)
		{
			push @errors, "$what: ${\ $client->result}";
			$client->start($work);
		}
		return;
	};
	my $new_session = sub {
		my ($id, $what) = @_;

		wait_until(
			'there is a new session',
			sub {
				my $now = $observer->query($session);
				$check->($what);
				return $now =~ /^0x/ && $now ne $id;
			});
		return;
	};

	$node->safe_psql('postgres', 'CREATE TABLE t (done int)');
	$node->safe_psql('postgres', 'SELECT zk_lock_stats_reset()');
	$_->start($work) for @clients;
	wait_until('the session is connected', sub { $observer->query($session) =~ /^0x/ });
	for my $n (1 .. RELOADS)
	{
		my $id = $observer->query($session);

		change_session($node);
		$new_session->($id, "reload $n");
	}
	for my $n (1 .. TERMINATIONS)
	{
		my $id = $observer->query($session);
		my $worker = worker_of($node);

		$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
		wait_for_other_worker($node, $worker);
		$new_session->($id, "termination $n");
	}
	$node->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
	$_->result for @clients;
	push @errors, grep { $_ ne '' } map { $_->result } @clients;
	is(join("\n", @errors), '',
		"$kind: no errors after ${\ RELOADS} reloads and ${\ TERMINATIONS} terminations");
	is($observer->query($losses), 0, '... and no lock was lost');
	wait_until_idle($node, $zk);
}

# Nodes are deleted before the session ends, although a busy ZooKeeper deletes them more
# slowly than the worker may take to close a session. This one answers so many requests at
# a time, and then after so many ms.

my $slow = ZkServer->new(
	config => { flushDelay => 250, globalOutstandingLimit => 10 })->start;
$node = new_node('slow', $slow->hosts, %server);
$holder = ZkTest->new($node);
$holder->query("SELECT zk_lock_acquire_all(array_agg('/planned/' || i))
	FROM generate_series(1, ${\ NODES}) AS i");
my $id = $holder->query($session);
my $began = time();
change_session($node);
is($holder->query('SELECT zk_lock_release_all()'), NODES, 'many locks are released');
my $end = wait_until('the session has ended', sub { $slow->ended_sessions->{$id} });
cmp_ok(time() - $began, '>', 2, '... and the session ends later');
is($end->{nodes}, 0, '... when all their nodes are deleted');
$node->stop;

done_testing();
