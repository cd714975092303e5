# Who gives a wait up takes its watches back: the client library sends the names
# of all with each new connection, in one request, and ZooKeeper closes a
# connection on which more than a megabyte comes at once. So a session has no more
# watches than fit, whatever they are for.

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
my $node = new_node('main', $zk->hosts);

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

# Two times a thousand locks with the longest paths there are
my @long = map {
	qq(ARRAY(SELECT format('/%s-%s', i, repeat('x', 1017))
		FROM generate_series($_, $_ + 999) i))
} (10000, 11000);
my $holder = ZkTest->new($node, 'zklock.session_timeout' => '40s');
my $waiter = ZkTest->new(
	with_settings(
		$node,
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

# At a gate there is nothing to be watched.
my $before = server_mode() eq 'gate' ? 0 : 1;
wait_until('it watches', sub { watches() == $before });

is($waiter->query(q(SELECT zk_lock_acquire('/queue', '1s'))),
	'f', 'a wait for a lock behind two times out');
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
		"$sql is cancelled");
	ok(wait_until('the watches are gone', sub { watches() == $before }),
		'... and leaves no watch');
}
$waiter->query(q(RESET lock_timeout));
$holder->query('SELECT zk_lock_release_all()');
$second->result;
no_watch_ok('those who were granted what they waited for have none either');

# So many that they would be too much for one request.
for my $paths (@long)
{
	is($holder->query("SELECT zk_lock_acquire_all($paths)"),
		't', 'a thousand locks are held');
	is($waiter->query("SELECT zk_lock_acquire_all($paths, '4s')"),
		'f', '... and waited for in vain');
}
no_watch_ok('... which leaves no watch');

$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
is($waiter->query(q(SELECT zk_lock_acquire('/more', '20s'))),
	't', 'after a cut the session goes on');
is( $waiter->query(
		'SELECT session_id, (SELECT sum(lost::int) FROM zk_locks) FROM zk_session()'),
	"$session|0",
	'... and so do its locks');

# If there is no connection, or the request is lost, that is made up for.
$proxy->wait_idle;
$holder->query(
	q(SELECT zk_lock_release_all(), zk_lock_acquire_all('{/a, /b, /c}')));
my $rule = $proxy->rule(dir => 'c2s', op => 'removeWatches', action => 'drop');
is($waiter->query(q(SELECT zk_lock_acquire('/a', '1s'))),
	'f', 'the request to take a watch back gets lost');
wait_until('it is lost', sub { $proxy->fired($rule) });
is($waiter->query(q(SELECT zk_lock_acquire('/b', '5s'))), 'f', '... another wait');
no_watch_ok('... takes back both');

$proxy->rule(dir => 'c2s', op => 'removeWatches', action => 'drop');
is($waiter->query(q(SELECT zk_lock_acquire('/a', '1s'))),
	'f', 'it gets lost again');
$waiter->start(q(SELECT zk_lock_acquire('/a')));
wait_for_queue($zk, '/a', $holder, $waiter);
wait_until('it watches', sub { watches() > 0 });
$holder->query(q(SELECT zk_lock_release('/a')));
is($waiter->result, 't', '... and a new wait on the same path keeps its watch');

# Whatever watches are for, they have to fit together.
$_->query('SELECT zk_lock_release_all()') for $holder, $waiter;
no_watch_ok('nothing is watched to begin with');

# What is refused when there is no room for its watch
my $refused = qr/^ERROR:  53200: too many ZooKeeper watches to take lock on .*
DETAIL:  When a connection is made anew, .*
HINT:  Use shorter paths, /m;

# Takes what the expression says, of paths as long as they can be, up to so many.
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

# Puts two in the queue for a lock, has the waiter wait for it, and returns how many
# watches that takes. Then both leave, and the lock is its own.
sub look_ahead
{
	my ($path) = @_;
	my @rivals;

	is($waiter->query("SELECT zk_lock_acquire('$path'), zk_lock_release('$path')"),
		't|t', "there is $path");
	$proxy->wait_idle;
	my $already = watches();
	push @rivals, $zk->create("$path/_c_$_-lock-", '', ZkClient::SEQUENCE)
	  for 'a', 'b';
	$waiter->start("SELECT zk_lock_acquire('$path')");
	wait_until('it watches', sub { watches() > $already });
	$proxy->wait_idle;

	my $watches = watches() - $already;
	$zk->delete($_) for @rivals;
	is($waiter->result, 't', 'it is granted when both have left');
	$waiter->query("SELECT zk_lock_release('$path')");
	return $watches;
}

is(look_ahead('/two'), 2, 'a waiter looks ahead');

$waiter->query(q(SET zklock.revocable = on));
is(take(q(zk_lock_acquire('/r' LONG)), 300), '', 'many locks can be asked back');
is(look_ahead('/one'), 1, 'then a waiter does not look ahead');

like(take(q(zk_lock_acquire('/r' LONG)), 1100),
	$refused, 'no more locks than fit can be asked back');
cmp_ok(held(), '>', 400, '... which are many');
$waiter->query(q(RESET zklock.revocable));
is(take(q(zk_lock_acquire('/n' LONG)), 10), '', '... and others that cannot');

like(take(q(zk_semaphore_acquire('/m' LONG, 1)), 1100),
	$refused, 'no more leases than fit can be had');
cmp_ok(held(), '>', 700, '... which are many');

my $long = q('/w' || repeat('x', 1020));
$holder->query("SELECT zk_lock_acquire($long), zk_lock_acquire('/short')");
like($waiter->query("SELECT zk_lock_acquire($long)"),
	$refused, 'nobody can begin to wait');
is($waiter->query("SELECT zk_lock_acquire($long, '0')"), 'f', '... but try');
is($waiter->query(q(SELECT zk_lock_acquire('/short', '1s'))),
	'f', '... or wait at a short path');

my $held = held();
$waiter->start(q(SELECT zk_lock_acquire('/short')));
wait_for_queue($zk, '/short', $holder, $waiter);
$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$holder->query(q(SELECT zk_lock_release('/short')));
is($waiter->result, 't', 'after a cut the one who waits is granted the lock');
is(held(), $held + 1, '... nothing else is lost');
is($waiter->query('SELECT session_id FROM zk_session()'),
	$session, '... and the session is the same');

$_->query('SELECT zk_lock_release_all()') for $holder, $waiter;
no_watch_ok('all is given back');

done_testing();
