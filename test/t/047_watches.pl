# A wait that is given up removes its watches: the client library sends the
# names of all watches with each new connection, in one request, and ZooKeeper
# closes a connection on which more than a megabyte comes at once. So the
# number of watches of a session is limited, whatever they are for.
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# The limit of a session's nodes would be reached before that of its watches.
my @large = ('zklock.max_session_size' => '8MB');
my $node = new_node('main', $zk->hosts, @large);

sub watches
{
	my ($total) = $zk->four_letter('wchs') =~ /^Total watches:(\d+)/m;

	return $total;
}

sub no_watch_ok
{
	my ($what) = @_;

	ok(wait_until('no watch is left', sub { watches() == 0 }), $what);
	return;
}

# Two sets of a thousand locks with the longest possible paths
my @long = map {
	qq(ARRAY(SELECT format('/%s-%s', i, repeat('x', 1017))
		FROM generate_series($_, $_ + 999) i))
} (10000, 11000);
my $holder = ZkTest->new($node, 'zklock.session_timeout' => '40s');
my $waiter = ZkTest->new(
	with_settings(
		$node,
		(server_mode() ? @large : ()),
		'zklock.hosts' => $proxy->hosts,
		'zklock.session_timeout' => '30s'));

$waiter->query(q(SELECT zk_lock_acquire('/mine')));
my $session = $waiter->query('SELECT session_id FROM zk_session()');

# Each kind of wait, given up in each way
$holder->query(
	q(SELECT zk_lock_acquire('/queue'), zk_lock_acquire('/simple', mode => 'simple'),
		zk_semaphore_acquire('/semaphore', 1),
		zk_shared_count_set('/count', 0)));
my $second = ZkTest->new($node);
$second->start(q(SELECT zk_lock_acquire('/queue')));
wait_for_queue($zk, '/queue', $holder, $second);

# A gate needs no watch.
my $before = server_mode() eq 'gate' ? 0 : 1;
wait_until('the watch is set', sub { watches() == $before });

like($zk->four_letter('wchc'), qr{^0x\w+\n(?:\t.*\n)*\t/queue/.*-lock-}m, "wchc shows a session's watches")
  if $before;
is($waiter->query(q(SELECT zk_lock_acquire('/queue', '1s'))),
	'f', 'wait for a lock behind two nodes times out');
ok(wait_until('the watches are gone', sub { watches() == $before }),
	'... and leaves no watch');
$waiter->query(q(SET lock_timeout = '1s'));
for my $sql (
	q(zk_lock_acquire('/queue', mode => 'shared')),
	q(zk_lock_acquire('/simple', mode => 'simple')),
	q(zk_semaphore_acquire('/semaphore', 1)),
	q(zk_semaphore_acquire_counted('/counted', '/count')))
{
	like($waiter->query("SELECT $sql"), qr/^ERROR:  55P03/,
		"$sql ends by lock_timeout");
	ok(wait_until('the watches are gone', sub { watches() == $before }),
		'... and leaves no watch');
}
$waiter->query(q(RESET lock_timeout));
$holder->query('SELECT zk_lock_release_all()');
$second->result;
no_watch_ok('grants leave no watch');

# An attempt may end before its count is read, or because of what that is.
for my $i (1 .. 20)
{
	$zk->create("/bad-$i", 'no number');
	like($waiter->query("SELECT zk_semaphore_acquire_counted('/counted', '/bad-$i')"),
		qr/^ERROR:  55000/, 'lease is refused if its count is no number');
}
no_watch_ok('... and leaves no watch on the count');

# Its node is not created, so that no deletion ends the watch on its siblings.
$zk->create($_, '') for '/refused', '/refused/locks';
my $maker = ZkTest->new($node, OWN_SESSION, 'zklock.acl' => 'world:anyone:r');
like($_->query(q(SELECT zk_semaphore_acquire('/refused', 1))),
	qr/^ERROR:  28000/, 'lease below a node that can only be read is refused')
  for $maker, $waiter;
$maker->close;
no_watch_ok('... and leaves no watch on the leases');

# The connection is lost, and nobody uses the session after that.
$waiter->start(q(SELECT zk_semaphore_acquire_counted('/counted', '/count', '2s')));
wait_until('the count is watched', sub { $zk->four_letter('wchp') =~ m{^/count$}m });
$proxy->wait_idle;
$proxy->refuse;
$proxy->cut;
is($waiter->result, 'f', 'wait times out while there is no connection');
$proxy->mark;
$proxy->accept;
$proxy->wait_frame(dir => 's2c', op => 'connect');
no_watch_ok('... and leaves no watch on the next one');

# Too many watches for one request
for my $paths (@long)
{
	is($holder->query("SELECT zk_lock_acquire_all($paths)"),
		't', 'a thousand locks are held');
	is($waiter->query("SELECT zk_lock_acquire_all($paths, '4s')"),
		'f', '... and waits for them time out');
}
no_watch_ok('... and leave no watch');

$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
is($waiter->query(q(SELECT zk_lock_acquire('/more', '20s'))),
	't', 'session continues after a cut');
is( $waiter->query(
		'SELECT session_id, (SELECT sum(lost::int) FROM zk_locks) FROM zk_session()'),
	"$session|0",
	'... and has lost no lock');

# If there is no connection, or the request to remove a watch is lost, the
# removal is repeated.
$proxy->wait_idle;
$holder->query(
	q(SELECT zk_lock_release_all(), zk_lock_acquire_all('{/a, /b, /c}')));
my $rule = $proxy->rule(dir => 'c2s', op => 'removeWatches', action => 'drop');
is($waiter->query(q(SELECT zk_lock_acquire('/a', '1s'))),
	'f', 'wait times out and its request to remove the watch gets lost');
wait_until('the request is lost', sub { $proxy->fired($rule) });
is($waiter->query(q(SELECT zk_lock_acquire('/b', '5s'))),
	'f', '... another wait times out');
no_watch_ok('... and both watches are removed');

$proxy->rule(dir => 'c2s', op => 'removeWatches', action => 'drop');
is($waiter->query(q(SELECT zk_lock_acquire('/a', '1s'))),
	'f', 'wait times out and its request gets lost again');
$waiter->start(q(SELECT zk_lock_acquire('/a')));
wait_for_queue($zk, '/a', $holder, $waiter);
wait_until('the watch is set', sub { watches() > 0 });
$holder->query(q(SELECT zk_lock_release('/a')));
is($waiter->result, 't', '... and a new wait on the same path keeps its watch');

# Watches of all kinds count together.
$_->query('SELECT zk_lock_release_all()') for $holder, $waiter;
no_watch_ok('no watch is set at first');

# The error for a lock whose watch would exceed the limit
my $refused = qr/^ERROR:  53200: too many ZooKeeper watches to take lock on .*
DETAIL:  When a connection is made anew, .*
HINT:  Use shorter paths, /m;

# Calls a function for $n paths of the maximum length.
sub take
{
	my ($expression, $n) = @_;

	$expression =~ s/LONG/|| i || repeat('x', 1010)/;
	return $waiter->query(
		"DO 'BEGIN FOR i IN 1..$n LOOP PERFORM "
		  . $expression =~ s/'/''/gr
		  . "; END LOOP; END'");
}

sub held
{
	return $waiter->query(q(SELECT count(*) FROM zk_lock_status() WHERE NOT lost));
}

# Puts two nodes into the queue of a lock, lets the waiter wait behind them,
# and returns the number of its watches. Then the nodes are deleted, and the
# waiter gets the lock and releases it.
sub look_ahead
{
	my ($path) = @_;
	my @rivals;

	is($waiter->query("SELECT zk_lock_acquire('$path'), zk_lock_release('$path')"),
		't|t', "lock $path is acquired and released");
	$proxy->wait_idle;
	my $already = watches();
	push @rivals, $zk->create("$path/_c_$_-lock-", '', ZkClient::SEQUENCE)
	  for 'a', 'b';
	$waiter->start("SELECT zk_lock_acquire('$path')");
	wait_until('the watch is set', sub { watches() > $already });
	$proxy->wait_idle;

	my $watches = watches() - $already;
	$zk->delete($_) for @rivals;
	is($waiter->result, 't', 'waiter is granted the lock after both nodes are deleted');
	$waiter->query("SELECT zk_lock_release('$path')");
	return $watches;
}

is(look_ahead('/two'), 2, 'waiter watches the last two nodes ahead');

$waiter->query(q(SET zklock.revocable = on));
is(take(q(zk_lock_acquire('/r' LONG)), 300), '', 'many revocable locks are acquired');
is(look_ahead('/one'), 1, 'waiter watches only its predecessor then');

like(take(q(zk_lock_acquire('/r' LONG)), 1100),
	$refused, 'revocable locks are refused beyond the limit');
cmp_ok(held(), '>', 400, '... after many were acquired');
$waiter->query(q(RESET zklock.revocable));
is(take(q(zk_lock_acquire('/n' LONG)), 10), '', '... and other locks can be acquired');

like(take(q(zk_semaphore_acquire('/m' LONG, 1)), 1100),
	$refused, 'leases are refused beyond the limit');
cmp_ok(held(), '>', 700, '... after many were acquired');

my $long = q('/w' || repeat('x', 1020));
$holder->query("SELECT zk_lock_acquire($long), zk_lock_acquire('/short')");
like($waiter->query("SELECT zk_lock_acquire($long)"),
	$refused, 'wait is refused beyond the limit');
is($waiter->query("SELECT zk_lock_acquire($long, '0')"),
	'f', '... but not an attempt without a wait');
is($waiter->query(q(SELECT zk_lock_acquire('/short', '1s'))),
	'f', '... or a wait for a short path');

my $held = held();
$waiter->start(q(SELECT zk_lock_acquire('/short')));
wait_for_queue($zk, '/short', $holder, $waiter);
$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$holder->query(q(SELECT zk_lock_release('/short')));
is($waiter->result, 't', 'waiter is granted the lock after a cut');
is(held(), $held + 1, '... and no other lock is lost');
is($waiter->query('SELECT session_id FROM zk_session()'),
	$session, '... and the session is the same');

$_->query('SELECT zk_lock_release_all()') for $holder, $waiter;
no_watch_ok('released locks leave no watch');

done_testing();
