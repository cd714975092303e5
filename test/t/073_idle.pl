# zklock.idle_session_timeout: a backend that holds nothing and has not asked for
# anything for so long has no connection to ZooKeeper any more, whatever it does or
# does not do meanwhile, and gets another one when it needs it.
#
# Runs once: the setting is for sessions of backends.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node(
	'main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session' => 'backend');    # the setting is for that only
my %idle = ('zklock.idle_session_timeout' => '1s');

sub id
{
	my ($session) = @_;

	return $session->query('SELECT session_id FROM zk_session()');
}

# Is there a connection of this session in ZooKeeper?
sub is_connected
{
	my ($id) = @_;

	return $zk->four_letter('cons') =~ /sid=$id,/;
}

sub wait_until_closed
{
	my ($id) = @_;

	wait_until("$id is closed",
		sub { !is_connected($id) && !grep { $_ eq $id } $zk->sessions });
	return;
}

# Takes a lock and gives it back; the id of the session.
sub use_it
{
	my ($session, $path) = @_;
	my $answer = $session->query(
		"SELECT zk_lock_acquire('$path'); SELECT session_id FROM zk_session(); SELECT zk_lock_release('$path')");

	like($answer, qr/^t\n0x\w+\nt$/, "$path is locked and released");
	return (split /\n/, $answer)[1];
}

# Those that must stay: by default, with a lock, with a place in a queue, with a
# transaction's lock
my $default = ZkTest->new($node);
my $default_id = use_it($default, '/default');
my $holder = ZkTest->new($node, %idle);
$holder->query(q(SELECT zk_lock_acquire('/held')));
my $holder_id = id($holder);
my $waiter = ZkTest->new($node, %idle);
$waiter->start(q(SELECT zk_lock_acquire('/held')));
wait_for_queue($zk, '/held', $holder, $waiter);
my $open = ZkTest->new($node, %idle);
$open->query(q(BEGIN; SELECT zk_semaphore_acquire('/open', 1, scope => 'transaction')));
my $open_id = id($open);

# Those that go: while the client says nothing, and while a statement runs
my $idle = ZkTest->new($node, %idle);
$idle->query(q(SELECT zk_lock_acquire('/idle')));
my $first = id($idle);
ok(is_connected($first), 'a backend that uses it is connected to ZooKeeper');
is($idle->query(q(SELECT zk_lock_release('/idle'))), 't', '... and then is idle');
my $busy = ZkTest->new($node, %idle);
my $busy_id = use_it($busy, '/busy');
$busy->start('SELECT pg_sleep(1000)');
wait_until_closed($first);
pass('... which it is not connected for long');
wait_until_closed($busy_id);
ok(!$busy->is_done, '... nor is one that does other things, undisturbed');

wait_until('it can be seen',
	sub { $idle->query('SELECT state FROM zk_session()') eq 'closed' });
my $second = use_it($idle, '/idle');
isnt($second, $first, '... and it is opened anew when needed');
is($idle->query(q(SELECT count(*) FROM zk_lock_queue('/idle'))),
	'0', '... again and again');
wait_until_closed($second);
is($idle->query(q(SELECT count(*) FROM zk_lock_queue('/idle'))),
	'0', '... to look at a queue, too');
like($idle->query(q(SELECT zk_lock_acquire_all('{/idle, /idle2}'); SELECT zk_lock_release_all())),
	qr/^t\n2$/, '... and for many locks');
is( $node->safe_psql('postgres', 'SELECT expiries, losses, reconnects FROM zk_lock_stats'),
	'0|0|0', '... which counts as no misfortune');

# By now all others had the time, twice over.
ok(is_connected($default_id), 'without the setting it stays');
is(id($default), $default_id, '... the same');
ok(is_connected($holder_id), 'who holds a lock keeps it');
ok(is_connected($open_id), '... also one of a transaction, or a lease');
wait_for_queue($zk, '/held', $holder, $waiter);
is($open->query('COMMIT; SELECT 1'), '1', '... which commits');
is($holder->query(q(SELECT zk_lock_release('/held'))),
	't', 'who waits keeps his place');
is($waiter->result, 't', '... and gets the lock');
wait_until_closed($holder_id);
wait_until_closed($open_id);
pass('when a lock is released its session goes, too');
is($waiter->query('SELECT zk_lock_release_all()'),
	'1', 'the lock had by then is released');

# A session that is being closed does not keep its backend from exiting.
my $proxy = ZkProxy->new($zk->hosts);
my $stuck = ZkTest->new($node, %idle, 'zklock.hosts' => $proxy->hosts);
my $goodbye = $proxy->rule(dir => 'c2s', op => 'closeSession', action => 'hold');
use_it($stuck, '/stuck');
wait_until('it says goodbye', sub { $proxy->fired($goodbye) });
my $pid = $stuck->pid;
$stuck->close;
$node->poll_query_until('postgres',
	"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
pass('a backend exits though ZooKeeper does not hear its goodbye');
$proxy->release;

# Used again at the very moment when it is closed, a bit before and a bit after
my @crowd = map { ZkTest->new($node, %idle) } 0 .. 9;
for my $i (0 .. $#crowd)
{
	my $pace = 0.95 + $i * 0.035;

	$crowd[$i]->start(join(';', map { qq(SELECT zk_lock_acquire('/crowd$i', '1min');
		SELECT zk_lock_release('/crowd$i'); SELECT pg_sleep($pace)) } 1 .. 4));
}
is($_->result, join("\n", ("t\nt\n") x 4), 'who comes when the door closes gets in')
  for @crowd;

like($idle->query(q(SET zklock.idle_session_timeout = '999ms')),
	qr/^ERROR:  22023: .*\nDETAIL:  It must be 0, which turns it off, or at least 1 second/m,
	'less than a second is refused');

done_testing();
