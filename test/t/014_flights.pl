# What each operation costs, in flights (round trips to ZooKeeper one after the
# other) and in frames.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

# Silence of this many seconds means that everybody waits for a reply. A machine
# that is busy must not look silent.
use constant SETTLE => 0.5;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# A session of the server is to need no renewal, and each claim to have its node:
# what is saved where they share one is told at the end.
my $node = new_node(
	'main', $proxy->hosts,
	'zklock.session_timeout' => '60s',
	'zklock.local_handover' => 0);

# What passed the proxy since the mark, as "c2s create2" and the like; only one
# way if $dir is given.
sub frames
{
	my ($dir) = @_;

	return
	  map { "$_->{dir} $_->{op}" }
	  grep { !$dir || $_->{dir} eq $dir } $proxy->trace;
}

# The statement answers what is expected, in so many flights, and the session
# sends just these requests.
sub costs
{
	my ($session, $sql, $expected, $flights, $requests, $what) = @_;
	my ($answer, $counted);

	# To count them takes time, and who takes a lock only if it is free has little: on a
	# busy machine it may be over before there is an answer.
	for my $try (1 .. 5)
	{
		$proxy->wait_idle;
		$proxy->mark;
		$counted =
		  $proxy->flights(sub { $answer = $session->query($sql) }, SETTLE);
		last if $answer !~ /^ERROR:  08006:/;
	}
	is($counted, $flights, "$what: $flights flights");
	is($answer, $expected, '... with the right answer');

	# The last one may be on its way still.
	wait_until("it sends @$requests", sub { frames('c2s') >= @$requests });
	$proxy->wait_idle;
	is_deeply([ frames('c2s') ],
		[ map { "c2s $_" } @$requests ], "... by @$requests");
	return;
}

my $session = ZkTest->new($node, 'zklock.session_timeout' => '60s');
my $rival = ZkTest->new($node, 'zklock.session_timeout' => '60s');
my @enter = qw(create2 getChildren);

# The parent of the lock comes to be. What was given back may be on its way still.
$session->query(q(SELECT zk_lock_acquire('/flights'), zk_lock_release_all()));
wait_for_queue($zk, '/flights');

costs(
	$rival,
	q(SELECT zk_lock_acquire('/flights') AND zk_lock_release('/flights')),
	't',
	server_mode() ? (1, [ @enter, 'delete' ], 'a first lock, all connected') :
	  (2, [ 'connect', @enter, 'delete' ], 'a first lock, connecting'));
costs($session, q(SELECT zk_lock_acquire('/flights')),
	't', 1, \@enter, 'a free lock');
costs($rival, q(SELECT zk_lock_acquire('/flights', '0')),
	'f', 1, [ @enter, 'delete' ], 'a lock that is taken');
costs($session, q(SELECT zk_lock_acquire('/flights')),
	't', 0, [], 'a lock that is held already');
costs($session, q(SELECT zk_lock_release('/flights')),
	't', 0, [], 'a release but for one');
costs($session, q(SELECT 1), '1', 0, [], 'a commit with a lock of the session');
costs($session, q(SELECT zk_lock_release('/flights')),
	't', 0, ['delete'], 'the last release');
costs($session, q(SELECT zk_lock_acquire('/un/known/parent')),
	't', 2, [ @enter, ('createContainer') x 3, @enter ], 'parents missing');
costs($session, q(SELECT zk_lock_release_all()),
	'1', 0, ['delete'], 'release of all');

# Many at once
my $paths = "'{" . join(', ', map { "/all/$_" } 1 .. 8) . "}'";

$session->query("SELECT zk_lock_acquire_all($paths), zk_lock_release_all()");
wait_for_queue($zk, "/all/$_") for 1 .. 8;
costs($session, "SELECT zk_lock_acquire_all($paths)",
	't', 1, [ (@enter) x 8 ], 'eight free locks');
costs($session, 'SELECT zk_lock_release_all()',
	'8', 0, [ ('delete') x 8 ], 'release of eight');

# A semaphore is two queues, the second of which says how many leases there are.
$session->query(q(SELECT zk_semaphore_acquire('/sized', 2), zk_lock_release_all()));
wait_for_queue($zk, "/sized/$_") for qw(locks leases);
my @lease = qw(create2 getData getChildren);
costs($session, q(SELECT zk_semaphore_acquire('/sized', 2)),
	't', 2, [ @enter, @lease, 'delete' ], 'a lease that is free');
costs($session, q(SELECT zk_semaphore_release('/sized')),
	't', 0, ['delete'], '... its release');
$session->query('SET client_min_messages = error');
costs($session, q(SELECT zk_semaphore_acquire('/sized', 3)),
	't', 2, [ @enter, @lease, 'setData', 'delete' ],
	'... by who names another number');
$session->query('RESET client_min_messages');
$session->query(q(SELECT zk_semaphore_release('/sized')));
wait_for_queue($zk, '/sized/leases');

# A count says it, which is watched until the lease is had.
$session->query(q(SELECT zk_shared_count_set('/count', 1)));
costs($session, q(SELECT zk_semaphore_acquire_counted('/sized', '/count')),
	't', 2, [ @enter, @lease, qw(removeWatches delete) ], 'a lease of a count');
costs($session, q(SELECT zk_semaphore_acquire_counted('/sized', '/count')),
	't', 0, [], '... that is held already');
costs($session, q(SELECT zk_semaphore_acquire('/sized', 1)),
	't', 0, [], '... whatever its size');
$rival->start(q(SELECT zk_semaphore_acquire_counted('/sized', '/count')));
wait_for_queue($zk, '/sized/leases', $session, $rival);
my $counter = ZkTest->new($node, 'zklock.hosts' => $zk->hosts, OWN_SESSION);
$counter->connect;
$proxy->wait_idle;
$proxy->mark;
is( $proxy->flights(
		sub {
			$counter->query(q(SELECT zk_shared_count_set('/count', 2)));
			is($rival->result, 't', 'who waits for a count to be raised has it');
		},
		SETTLE),
	1,
	'... in a flight after he was told');
wait_until('the mutex is given back', sub { frames('c2s') >= 4 });
is_deeply(
	[ frames('c2s') ],
	[ map { "c2s $_" } qw(getData getChildren removeWatches delete) ],
	'... by a look at it and at the leases');
$counter->close;
$_->query('SELECT zk_lock_release_all()') for $session, $rival;
wait_for_queue($zk, '/sized/leases');

# One that can be asked back is watched, which nobody waits for; asking takes two
# looks and a word.
$session->query('SET zklock.revocable = on');
costs($session, q(SELECT zk_lock_acquire('/flights')),
	't', 1, [ @enter, 'getData' ], 'a free lock that can be asked back');
costs($session, q(SELECT zk_lock_release('/flights')),
	't', 0, ['delete'], '... its release');
costs($session, "SELECT zk_lock_acquire_all($paths)",
	't', 1, [ (@enter) x 8, ('getData') x 8 ], '... eight of them');
costs($session, 'SELECT zk_lock_release_all()',
	'8', 0, [ ('delete') x 8 ], '... their release');
$session->query('SET zklock.revocable = off');

my $asker = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '60s');
my $asked = ZkTest->new($node, 'zklock.hosts' => $zk->hosts,
	'zklock.revocable' => 'on');
$asked->query(q(SELECT zk_lock_acquire('/flights')));
$asker->query(q(SELECT * FROM zk_lock_queue('/flights')));
costs($asker, q(SELECT zk_lock_revoke('/flights')),
	'1', 3, [ 'getData', ('getChildren') x 3, qw(getData setData) ],
	'asking for it');
$_->close for $asked, $asker;
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

# Past the lease a commit has to ask.  A server renews it as long as anybody holds
# anything.
my $lazy = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '6s');
$lazy->query(q(BEGIN; SELECT zk_lock_guard('/flights')));
$lazy->outlive_lease;
costs($lazy, 'COMMIT', '', 1, [qw(setData delete)], 'COMMIT past the lease');
$lazy->close;

# Who has waited for more than half of the lease has it renewed in the background.
my $holder = ZkTest->new($node, OWN_SESSION);
$lazy = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '6s');
$holder->query(q(SELECT zk_lock_acquire('/flights')));
$lazy->start(q(SELECT zk_lock_guard('/flights') > 0));
wait_for_queue($zk, '/flights', $holder, $lazy);
my $began = time();
wait_until('more than a sixth of the timeout has passed',
	sub { time() > $began + 1.1 });
$proxy->wait_idle;
$proxy->mark;
$proxy->rule(dir => 's2c', op => 'setData', action => 'hold', pings => 1);
$holder->query(q(SELECT zk_lock_release('/flights')));
is($lazy->result, 't', 'a grant after a long wait');
$proxy->wait_frame(dir => 's2c', op => 'setData');
wait_until('all is sent', sub { frames('c2s') >= 3 });
is_deeply(
	[ frames('c2s') ],
	[ map { "c2s $_" } qw(delete setData delete) ],
	'... renews the lease, but waits for no answer');
$proxy->release;
$proxy->reset;
$_->close for $lazy, $holder;

# From hand to hand down a queue.
my @line =
  map { ZkTest->new($node, 'zklock.session_timeout' => '60s') } (1 .. 5);
for my $i (0 .. $#line)
{
	$line[$i]->start(q(SELECT zk_lock_acquire('/line')));
	wait_for_queue($zk, '/line', @line[ 0 .. $i ]);
}
is($line[0]->result, 't', 'the first in line has the lock');
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

# Two who take turns: the one before is seen in the list, but may be gone by the
# time it is watched. Even so the lock is had in the flight that the watch takes.
$session->query(q(SELECT zk_lock_acquire('/turns')));
$proxy->wait_idle;
$proxy->mark;
$proxy->rule(dir => 's2c', op => 'getChildren', action => 'hold', pings => 1);
$rival->start(q(SELECT zk_lock_acquire('/turns')));
$proxy->wait_frame(dir => 's2c', op => 'getChildren');
$session->query(q(SELECT zk_lock_release('/turns')));
wait_until('the one before is gone', sub { queue($zk, '/turns') == 1 });
is( $proxy->flights(
		sub {
			$proxy->reset;
			is($rival->result, 't', 'who finds the one before gone has the lock');
		},
		SETTLE),
	1,
	'... in the flight of the watch');
$proxy->wait_idle;
is_deeply(
	[ grep { !/delete/ } frames('c2s') ],
	[ map { "c2s $_" } @enter, qw(getData getChildren) ],
	'... by no more than four requests');
$rival->query(q(SELECT zk_lock_release('/turns')));
wait_for_queue($zk, '/turns');

# Who gives up takes his node and his watches back, and waits for neither.
$session->query(q(SELECT zk_lock_acquire('/flights')));
costs(
	$rival, q(SELECT zk_lock_acquire('/flights', '6s')), 'f', 2,
	[ @enter, qw(getData getChildren delete removeWatches) ],
	'a wait that is given up');
$session->query(q(SELECT zk_lock_release('/flights')));

# The event that the predecessor is gone is all that a waiter needs: it is
# granted the lock though nothing else reaches it. Only the waiter is behind the
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
		"number $depth in line watches no more than two");

	# Once the one it looks ahead to has gone, it asks in the background who is
	# left.
	my $last = pop @ahead;
	$proxy->mark;
	for my $holder (@ahead)
	{
		$holder->result;
		$holder->query(q(SELECT zk_lock_release('/event')));
	}
	is($last->result, 't', '... the one before it has the lock');
	$proxy->wait_frame(dir => 's2c', op => 'getChildren') if @ahead;
	$proxy->wait_idle;
	ok(!$session->is_done, '... and it waits');

	$proxy->mark;
	$proxy->rule(dir => 's2c', nth => 2, action => 'hold');
	$last->query(q(SELECT zk_lock_release('/event')));
	is($session->result, 't', '... the event alone makes it the holder');
	$proxy->wait_idle;
	is_deeply([ frames() ], ['s2c event'], '... and it asks nothing more');
	$proxy->reset;
	$session->query(q(SELECT zk_lock_release('/event')));
	$_->close for @ahead, $last;
}

# While anything is held in a server's session, that is renewed now and then, through
# the same proxy.
wait_for_calm($node, $zk) if server_mode();

# Backends of one server hand a lock over by themselves, for as long as they may.
my $pair = new_node(
	'pair', $proxy->hosts,
	'zklock.session' => 'server',
	'zklock.session_timeout' => '60s',
	'zklock.local_handover' => '1h');
my ($first, $second) = map { ZkTest->new($pair) } (1, 2);

$first->query(q(SELECT zk_lock_acquire('/flights'), zk_lock_release_all()));
wait_for_queue($zk, '/flights');
costs($first, q(SELECT zk_lock_acquire('/flights')),
	't', 1, \@enter, 'the first of a server');
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
is_deeply([ frames('c2s') ], [], '... by no request');
costs($second, q(SELECT zk_lock_release('/flights')),
	't', 0, ['delete'], 'the last release');

done_testing();
