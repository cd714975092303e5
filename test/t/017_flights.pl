# The cost of each operation, in flights (consecutive round trips to ZooKeeper)
# and in frames.
#
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

# After this many seconds of silence, all processes wait for a reply. The limit
# is generous, because a busy machine must not look silent.
use constant SETTLE => 0.5;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# The long timeout avoids renewals of the server's session. Without local
# hand-over, each claim has its own node; the end of this file tests the
# hand-over.
my $node = new_node(
	'main', $proxy->hosts,
	'zklock.session_timeout' => '60s',
	'zklock.handover_time' => 0);

# Returns the frames that have passed the proxy since the mark, such as "c2s
# create2"; only those of one direction if $dir is given.
sub frames
{
	my ($dir) = @_;

	return
	  map { "$_->{dir} $_->{op}" }
	  grep { !$dir || $_->{dir} eq $dir } $proxy->trace;
}

# Checks that the statement returns the expected result after so many flights,
# and that the session sends just these requests.
sub costs
{
	my ($session, $sql, $expected, $flights, $requests, $what) = @_;
	my ($answer, $counted);

	# Counting takes time, and an attempt to take a lock only if it is free has
	# a short timeout: on a busy machine, it can end without an answer.
	for my $try (1 .. 5)
	{
		$proxy->wait_idle;
		$proxy->mark;
		$counted =
		  $proxy->flights(sub { $answer = $session->query($sql) }, SETTLE);
		last if $answer !~ /^ERROR:  08006:/;
	}
	is($counted, $flights, "$what: $flights flights");
	is($answer, $expected, '... with the expected result');

	# The last request may still be on its way.
	wait_until("it sends @$requests", sub { frames('c2s') >= @$requests });
	$proxy->wait_idle;
	is_deeply([ frames('c2s') ],
		[ map { "c2s $_" } @$requests ], "... with requests @$requests");
	return;
}

# Ends sessions. A backend closes its session at its exit, and that request
# would be counted with those of the next statement.
sub disconnect
{
	my (@sessions) = @_;

	$_->close for @sessions;
	for my $session (@sessions)
	{
		wait_until('the backend is gone', sub { !kill(0, $session->pid) });
	}
	return;
}

my $session = ZkTest->new($node, 'zklock.session_timeout' => '60s');
my $rival = ZkTest->new($node, 'zklock.session_timeout' => '60s');
my @enter = qw(create2 getChildren);

# Create the parent of the lock. The deletion of the lock's own node may still
# be on its way.
$session->query(q(SELECT zk_lock_acquire('/flights'), zk_lock_release_all()));
wait_for_queue($zk, '/flights');

costs(
	$rival,
	q(SELECT zk_lock_acquire('/flights') AND zk_lock_release('/flights')),
	't',
	server_mode() ? (1, [ @enter, 'delete' ], 'a first lock, already connected') :
	  (2, [ 'connect', @enter, 'delete' ], 'a first lock, not yet connected'));
costs($session, q(SELECT zk_lock_acquire('/flights')),
	't', 1, \@enter, 'a free lock');
costs($rival, q(SELECT zk_lock_acquire('/flights', '0')),
	'f', 1, [ @enter, 'delete' ], 'a lock that another backend holds');
costs($session, q(SELECT zk_lock_acquire('/flights')),
	't', 0, [], 'a lock that is already held');
costs($session, q(SELECT zk_lock_release('/flights')),
	't', 0, [], 'a release of one hold of two');
costs($session, q(CALL zk_lock_wait('/flights', scope => 'transaction')),
	'', 0, [], 'a CALL for a lock that is already held');
costs($session, q(SELECT 1), '1', 0, [], 'a commit with a session-level lock');
costs($session, q(SELECT zk_lock_release('/flights')),
	't', 0, ['delete'], 'the last release');
costs($session, q(SELECT zk_lock_acquire('/un/known/parent')),
	't', 3, [ @enter, 'createContainer', @enter, ('createContainer') x 3, @enter ],
		'a lock whose parents are missing');
costs($session, q(SELECT zk_lock_acquire('/un/known/key')),
	't', 2, [ @enter, 'createContainer', @enter ], 'a new key below a known parent');
costs($session, q(CALL zk_lock_wait('/flights', scope => 'session')),
	'', 1, \@enter, 'a CALL for a free lock');
costs($session, q(SELECT zk_lock_release_all()),
	'3', 0, [ ('delete') x 3 ], 'a release of all locks');

# Many at once
my $paths = "'{" . join(', ', map { "/all/$_" } 1 .. 8) . "}'";

$session->query("SELECT zk_lock_acquire_all($paths), zk_lock_release_all()");
wait_for_queue($zk, "/all/$_") for 1 .. 8;
costs($session, "SELECT zk_lock_acquire_all($paths)",
	't', 1, [ (@enter) x 8 ], 'eight free locks');
costs($session, 'SELECT zk_lock_release_all()',
	'8', 0, [ ('delete') x 8 ], 'a release of eight locks');

# A semaphore has two queues. The second one stores the number of leases.
$session->query(q(SELECT zk_semaphore_acquire('/sized', 2), zk_lock_release_all()));
wait_for_queue($zk, "/sized/$_") for qw(locks leases);
my @lease = qw(create2 getData getChildren);
costs($session, q(SELECT zk_semaphore_acquire('/sized', 2)),
	't', 2, [ @enter, @lease, 'delete' ], 'a free lease');
costs($session, q(SELECT zk_semaphore_release('/sized')),
	't', 0, ['delete'], '... its release');
$session->query('SET client_min_messages = error');
costs($session, q(SELECT zk_semaphore_acquire('/sized', 3)),
	't', 2, [ @enter, @lease, 'setData', 'delete' ],
	'... a request for another number of leases');
$session->query('RESET client_min_messages');
$session->query(q(SELECT zk_semaphore_release('/sized')));
wait_for_queue($zk, '/sized/leases');

# A shared count has the number of leases. It is watched until the lease is
# granted.
$session->query(q(SELECT zk_shared_count_set('/count', 1)));
costs($session, q(SELECT zk_semaphore_acquire_counted('/sized', '/count')),
	't', 2, [ @enter, @lease, qw(removeWatches delete) ], 'a lease of a counted semaphore');
costs($session, q(SELECT zk_semaphore_acquire_counted('/sized', '/count')),
	't', 0, [], '... a lease that is already held');
costs($session, q(SELECT zk_semaphore_acquire('/sized', 1)),
	't', 0, [], '... a lease that is already held, with another size');
$rival->start(q(SELECT zk_semaphore_acquire_counted('/sized', '/count')));
wait_for_queue($zk, '/sized/leases', $session, $rival);
my $counter = ZkTest->new($node, 'zklock.hosts' => $zk->hosts, OWN_SESSION);
$counter->connect;
$proxy->wait_idle;
$proxy->mark;
is( $proxy->flights(
		sub {
			$counter->query(q(SELECT zk_shared_count_set('/count', 2)));
			is($rival->result, 't', 'waiter gets a lease after the count is raised');
		},
		SETTLE),
	1,
	'... in one flight after the event');
wait_until('the mutex is released', sub { frames('c2s') >= 4 });
is_deeply(
	[ frames('c2s') ],
	[ map { "c2s $_" } qw(getData getChildren removeWatches delete) ],
	'... by reading the count and the list of leases');
disconnect($counter);
$_->query('SELECT zk_lock_release_all()') for $session, $rival;
wait_for_queue($zk, '/sized/leases');

# A revocable lock is watched, but its grant does not wait for the watch. A
# request to revoke it takes two reads and a write.
$session->query('SET zklock.revocable = on');
costs($session, q(SELECT zk_lock_acquire('/flights')),
	't', 1, [ @enter, 'getData' ], 'a free revocable lock');
costs($session, q(SELECT zk_lock_release('/flights')),
	't', 0, ['delete'], '... its release');
costs($session, "SELECT zk_lock_acquire_all($paths)",
	't', 1, [ (@enter) x 8, ('getData') x 8 ], '... eight of them');
costs($session, 'SELECT zk_lock_release_all()',
	'8', 0, [ ('delete') x 8 ], '... their release');
$session->query('SET zklock.revocable = off');

my $revoker = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '60s');
my $revocable = ZkTest->new($node, 'zklock.hosts' => $zk->hosts,
	'zklock.revocable' => 'on');
$revocable->query(q(SELECT zk_lock_acquire('/flights')));
$revoker->query(q(SELECT * FROM zk_lock_queue('/flights')));
costs($revoker, q(SELECT zk_lock_revoke('/flights')),
	'1', 3, [ 'getData', ('getChildren') x 3, qw(getData setData) ],
	'a request to revoke it');
disconnect($revocable, $revoker);
wait_for_queue($zk, '/flights');

for my $end (qw(COMMIT ROLLBACK))
{
	$session->query('BEGIN');
	costs($session, q(SELECT zk_lock_guard('/flights') > 0),
		't', 1, \@enter, 'a free lock in a transaction');
	costs($session, $end, '', 0, ['delete'], $end);
}
costs($session, q(BEGIN; SELECT zk_lock_guard('/flights') > 0; COMMIT),
	't', 1, [ @enter, 'delete' ], 'a whole transaction');
costs(
	$session,
	q(BEGIN; SAVEPOINT s; SELECT zk_lock_guard('/flights') > 0; ROLLBACK TO s),
	't', 1,
	[ @enter, 'delete' ],
	'ROLLBACK TO');
$session->query('COMMIT');

# A session is confirmed without requests of its user, while its backend is idle and while it
# waits for a lock.
my $holder = ZkTest->new($node, OWN_SESSION);
my $lazy = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '6s');
for my $waits (0, 1)
{
	$holder->query(q(SELECT zk_lock_acquire('/flights'))) if $waits;
	$lazy->start(q(BEGIN; SELECT zk_lock_guard('/flights') > 0));
	wait_for_queue($zk, '/flights', $waits ? $holder : (), $lazy);
	my $began = time();
	wait_until("more than the session's timeout has passed", sub { time() > $began + 6.1 });
	$proxy->wait_idle;
	$proxy->mark;
	$holder->query(q(SELECT zk_lock_release('/flights'))) if $waits;
	is($lazy->result, 't', 'lock is granted');
	costs($lazy, 'COMMIT', '', 0, ['delete'], 'COMMIT after ' . ($waits ? 'a long wait' : 'a while'));
}
disconnect($lazy, $holder);

# The lock is handed over along a queue, to functions and procedures.
my @line =
  map { ZkTest->new($node, 'zklock.session_timeout' => '60s') } (1 .. 5);
for my $i (0 .. $#line)
{
	$line[$i]->start($i % 2 ? q(CALL zk_lock_wait('/line', scope => 'session')) :
		  q(SELECT zk_lock_acquire('/line')));
	wait_for_queue($zk, '/line', @line[ 0 .. $i ]);
}
is($line[0]->result, 't', 'first backend in the queue has the lock');
while (@line > 1)
{
	my $holder = shift @line;

	is( $proxy->flights(
			sub {
				$holder->query(q(SELECT zk_lock_release('/line')));
				$line[0]->result;
			},
			SETTLE),
		1,
		'a hand-over with ' . @line . ' waiting: 1 flight');
}
$line[0]->query(q(SELECT zk_lock_release('/line')));

# Two backends take turns: the predecessor is in the list, but can be gone by
# the time it is watched. Even so, the lock is granted in the flight of the
# watch.
$session->query(q(SELECT zk_lock_acquire('/turns')));
$proxy->wait_idle;
$proxy->mark;
$proxy->rule(dir => 's2c', op => 'getChildren', action => 'hold', pings => 1);
$rival->start(q(SELECT zk_lock_acquire('/turns')));
$proxy->wait_frame(dir => 's2c', op => 'getChildren');
$session->query(q(SELECT zk_lock_release('/turns')));
wait_until('the predecessor is gone', sub { queue($zk, '/turns') == 1 });
is( $proxy->flights(
		sub {
			$proxy->reset;
			is($rival->result, 't', 'backend whose predecessor is gone has the lock');
		},
		SETTLE),
	1,
	'... in the flight of the watch');
$proxy->wait_idle;
is_deeply(
	[ grep { !/delete/ } frames('c2s') ],
	[ map { "c2s $_" } @enter, qw(getData getChildren) ],
	'... with no more than four requests');
$rival->query(q(SELECT zk_lock_release('/turns')));
wait_for_queue($zk, '/turns');

# A backend that gives up deletes its node and its watches, and waits for
# neither.
$session->query(q(SELECT zk_lock_acquire('/flights')));
costs(
	$rival, q(SELECT zk_lock_acquire('/flights', '6s')), 'f', 2,
	[ @enter, qw(getData getChildren delete removeWatches) ],
	'a wait that times out');
$session->query(q(SELECT zk_lock_release('/flights')));

# A waiter needs only the event that its predecessor is gone: it is granted the
# lock although no other frame reaches it. Only the waiter connects through the
# proxy.
for my $depth (2, 5)
{
	my @ahead =
	  map { ZkTest->new($node, 'zklock.hosts' => $zk->hosts) } (2 .. $depth);
	my @queue;

	for my $waiter (@ahead)
	{
		$waiter->start(q(SELECT zk_lock_acquire('/event')));
		push @queue, $waiter;
		wait_for_queue($zk, '/event', @queue);
	}

	$proxy->wait_idle;
	$proxy->mark;
	$session->start(q(SELECT zk_lock_acquire('/event')));
	wait_for_queue($zk, '/event', @queue, $session);
	$proxy->wait_frame(dir => 's2c', op => 'getData');
	$proxy->wait_idle;
	is_deeply(
		[ frames('c2s') ],
		[
			map { "c2s $_" } @enter,
			$depth == 2 ? qw(getData getChildren) : qw(getData getData)
		],
		"waiter number $depth sets no more than two watches");

	# When the second of the watched nodes has gone, the waiter lists the queue
	# in the background.
	my $last = pop @ahead;
	$proxy->mark;
	for my $holder (@ahead)
	{
		$holder->result;
		$holder->query(q(SELECT zk_lock_release('/event')));
	}
	is($last->result, 't', '... its predecessor has the lock');
	$proxy->wait_frame(dir => 's2c', op => 'getChildren') if @ahead;
	$proxy->wait_idle;
	ok(!$session->is_done, '... and the waiter still waits');

	$proxy->mark;
	$proxy->rule(dir => 's2c', nth => 2, action => 'hold');
	$last->query(q(SELECT zk_lock_release('/event')));
	is($session->result, 't', '... the event alone makes it the holder');
	$proxy->wait_idle;
	is_deeply([ frames() ], ['s2c event'], '... and it sends no other request');
	$proxy->reset;
	$session->query(q(SELECT zk_lock_release('/event')));
	$_->close for @ahead, $last;
}

# While any backend holds a lock in the server's session, the worker renews
# that session through the same proxy.
wait_until_idle($node, $zk) if server_mode();

# Backends of one server hand a lock over locally until the hand-over time is
# over.
my $pair = new_node(
	'pair', $proxy->hosts,
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '60s',
	'zklock.handover_time' => '1h');
my ($first, $second) = map { ZkTest->new($pair) } (1, 2);

$first->query(q(SELECT zk_lock_acquire('/flights'), zk_lock_release_all()));
wait_for_queue($zk, '/flights');
costs($first, q(SELECT zk_lock_acquire('/flights')),
	't', 1, \@enter, 'a first lock of a server');
$second->start(q(SELECT zk_lock_acquire('/flights')));
wait_for_queue($zk, '/flights', $first, $second);
$proxy->wait_idle;
$proxy->mark;
is( $proxy->flights(
		sub {
			$first->query(q(SELECT zk_lock_release('/flights')));
			$second->result;
		},
		SETTLE),
	0,
	'a hand-over within the server: 0 flights');
$proxy->wait_idle;
is_deeply([ frames('c2s') ], [], '... without a request');
costs($second, q(SELECT zk_lock_release('/flights')),
	't', 0, ['delete'], 'the last release');

done_testing();
