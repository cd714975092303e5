# The worker is stopped, as by SIGSTOP: it tells nobody of a loss, so the holders of locks
# find by themselves, by a timer, that the server's session must have expired.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkServer;
use ZkTest;

use constant TIMEOUT => 12;

my $zk = ZkServer->new(tick_time => 200)->start;
my $other = new_node('other', $zk->hosts, 'zklock.session_mode' => 'backend');
my $next = ZkTest->new($other);
my %handover = (gate => '1s', own => '0');
my $lost = qr/^ERROR:  40001: lock on "\S+" was lost\nDETAIL:  ZooKeeper has not confirmed its session for as long/m;
my ($node, $admin, $worker);

sub is_alive
{
	my ($session) = @_;

	return $admin->query("SELECT count(*) FROM pg_stat_activity WHERE pid = ${\ $session->pid}");
}

sub wait_until_running
{
	my ($n, $event) = @_;

	wait_until("$n statements run",
		sub { $admin->query("SELECT count(*) FROM pg_stat_activity WHERE wait_event = '$event'") eq $n });
}

sub confirmed_ago
{
	return $admin->query('SELECT extract(epoch FROM confirmed_ago) FROM zk_session()');
}

# Suspends the worker, just after the session was confirmed, and returns when, and how long ago
# that was confirmed.
sub stop_worker
{
	my $ago;

	wait_until('the session is confirmed', sub { ($ago = confirmed_ago()) < TIMEOUT * 5 / 12 });
	kill('STOP', $worker);
	return (time(), $ago);
}

for my $kind (sort keys %handover)
{
	$node = new_node(
		$kind, $zk->hosts,
		log_line_prefix => '%p ',
		max_wal_senders => 4,
		wal_level => 'replica',
		synchronous_standby_names => 'nobody',
		synchronous_commit => 'local',
		'zklock.session_mode' => 'server',
		'zklock.handover_time' => $handover{$kind},
		'zklock.session_timeout' => TIMEOUT . 's');
	$admin = ZkTest->new($node);
	$worker = worker_of($node);
	$admin->query('CREATE TABLE t (n int)');

	my $begin = sub {
		my ($what, $on_loss, $then) = @_;
		my $session = ZkTest->new($node, 'zklock.on_loss' => $on_loss);

		is($session->query("SELECT zk_lock_acquire('/$kind/$what')"), 't', "$kind: $what holds a lock");
		$session->start($then) if $then;
		return $session;
	};
	my $idle = $begin->('idle', 'disconnect');
	my $in_transaction = $begin->('in_transaction', 'disconnect', 'BEGIN; SELECT 1');
	my $patient = $begin->('patient', 'cancel');
	my $busy = $begin->('busy', 'cancel', 'SELECT pg_sleep(600)');
	my $busy_disconnected = $begin->('busy_disconnected', 'disconnect', 'SELECT pg_sleep(600)');
	my $unlocked = $begin->('unlocked', 'disconnect',
		"SELECT zk_lock_release_all(); SELECT pg_sleep(600)");

	# On a slow machine, the worker is stopped for longer than others would wait for it.
	my $waiter = ZkTest->new($node, 'zklock.on_loss' => 'disconnect', 'zklock.connect_timeout' => '10min');

	is($in_transaction->result, '1', '... one of them in a transaction');
	wait_until_running(3, 'PgSleep');
	$waiter->start("SELECT zk_lock_acquire('/$kind/idle', '10min')");
	$waiter->wait_for_lock;

	# Longer than it takes to find a worker that is stopped, twice
	my $begun = time();
	wait_until('time has passed', sub { time() > $begun + 2.5 * TIMEOUT });

	# For less than the timeout
	stop_worker();
	wait_until('beats were left out', sub { confirmed_ago() > TIMEOUT * 7 / 12 });
	kill('CONT', $worker);
	wait_until('the session is confirmed again', sub { confirmed_ago() < TIMEOUT * 5 / 12 });
	ok(is_alive($_), 'nothing is lost in a short stop')
	  for $idle, $in_transaction, $patient, $busy, $busy_disconnected, $unlocked, $waiter;
	wait_until_running(3, 'PgSleep');

	# A commit waits for its standby.
	my $commit = $begin->('commit', 'disconnect');
	$commit->start('SET synchronous_commit = on; BEGIN; INSERT INTO t VALUES (1); COMMIT');
	wait_until_running(1, 'SyncRep');

	# For longer
	$next->start("SELECT zk_lock_acquire('/$kind/busy', '10min')");
	wait_until('the other server waits', sub { my @queue = $zk->children("/$kind/busy"); @queue == 2 });
	my ($stopped, $ago) = stop_worker();
	like($busy->result, $lost, 'statement of a holder is cancelled, with the reason');
	my $cancelled = time() - $stopped;
	wait_until('idle holders are disconnected',
		sub { !is_alive($idle) && !is_alive($in_transaction) && !is_alive($busy_disconnected) });
	my $disconnected = time() - $stopped;
	cmp_ok($cancelled, '>=', TIMEOUT, '... not before the session can have expired');
	cmp_ok($cancelled, '<', TIMEOUT * 5 / 4, '... and soon after that');
	cmp_ok($disconnected, '<', TIMEOUT * 4 / 3, 'idle holders are disconnected as soon');
	like($busy_disconnected->result, $lost, 'statement of a holder that is then disconnected is, too');
	is($next->result, 't', 'another server has the lock');
	for my $case ([ $idle, 'idle' ], [ $in_transaction, 'in_transaction' ])
	{
		my ($session, $what) = @$case;

		like(slurp_file($node->logfile),
			qr{^${\ $session->pid} LOG:  disconnected the client because lock on "/$kind/$what" was lost$}m,
			"the log names the lock of $what");
	}
	ok(is_alive($_), 'nobody else is disconnected') for $patient, $busy, $unlocked, $waiter, $commit;
	ok(!$unlocked->is_done, '... or cancelled');

	# A statement that begins after the loss fails at once. After that, the session is free,
	# also when the timer expires for the second time.
	like($patient->query('BEGIN; SELECT pg_sleep(600)'), $lost, 'later statement fails before it begins');
	is($patient->query("ROLLBACK; BEGIN; SELECT pg_sleep(${\ (TIMEOUT + 2)}); SELECT 1; COMMIT"), "\n1",
		'... and the next transaction is not cancelled');
	is($admin->query(q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep')), '1',
		'commit still waits for its standby');
	$admin->query(q(ALTER SYSTEM SET synchronous_standby_names = ''));
	$admin->query('SELECT pg_reload_conf()');
	unlike($commit->result, qr/^(WARNING|ERROR|FATAL)/m, '... and ends');
	is($admin->query('SELECT count(*) FROM t'), '1', '... with its effect');
	wait_until('it is disconnected then', sub { !is_alive($commit) });

	# The worker continues.
	kill('CONT', $worker);
	is($waiter->result, 't', 'waiter gets the lock in another session');
	is(worker_of($node), $worker, '... of the same worker');
	$next->query('SELECT zk_lock_release_all()');
	is($_->query('SELECT 1'), '1', 'former holder gets no further error') for $busy, $patient;
	is($busy->query("SELECT zk_lock_acquire('/$kind/busy', '10min'), zk_lock_release_all()"), 't|1',
		'the former holder can have the lock again');
	$admin->query("SELECT pg_cancel_backend(${\ $unlocked->pid})");
	$_->close for $waiter, $unlocked, $patient, $busy;
	wait_until_idle($node, $zk, map { "/$kind/$_" }
		  qw(idle in_transaction patient busy busy_disconnected unlocked commit));
}

# The kernel has no timer left for a backend.
my $poor = ZkTest->new($node);

system('prlimit', '--sigpending=0:', '--pid', $poor->pid) == 0 or die "prlimit: $?\n";
like($poor->query("SELECT zk_lock_acquire('/poor')"),
	qr/^ERROR:  53200: could not connect to ZooKeeper: out of memory, timers or threads/,
	'no lock without a timer in the session of the server');
$poor->query("SET zklock.session_mode = 'backend'");
is($poor->query("SELECT zk_lock_acquire('/poor')"), 't', '... and one in a session of its own');

END
{
	my $status = $?;

	# A suspended process cannot be shut down.
	kill('CONT', $worker) if $worker;
	$? = $status;
}

done_testing();
