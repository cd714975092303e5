# zklock.idle_session_timeout: a backend that has held no lock and made no
# request for that time closes its connection to ZooKeeper, whether it is idle
# or busy, and opens another one when it needs it.
#
# Runs once: the test sets the mode itself.

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
	'zklock.session_mode' => 'backend');    # the setting has no effect on the server's session
my %idle = ('zklock.idle_session_timeout' => '1s');

sub id
{
	my ($session) = @_;

	return $session->query('SELECT session_id FROM zk_session()');
}

# Does ZooKeeper have a connection of this session?
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

# Acquires and releases a lock, and returns the id of the session.
sub use_it
{
	my ($session, $path) = @_;
	my $answer = $session->query(
		"SELECT zk_lock_acquire('$path'); SELECT session_id FROM zk_session(); SELECT zk_lock_release('$path')");

	like($answer, qr/^t\n0x\w+\nt$/, "$path is locked and released");
	return (split /\n/, $answer)[1];
}

# Sessions that must stay: with the default setting, with a lock, with a place
# in a queue, and with a transaction-level lock
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

# Sessions that are closed: one while its client is idle, and one during a
# statement
my $idle = ZkTest->new($node, %idle);
$idle->query(q(SELECT zk_lock_acquire('/idle')));
my $first = id($idle);
ok(is_connected($first), 'backend with a lock is connected to ZooKeeper');
is($idle->query(q(SELECT zk_lock_release('/idle'))), 't', '... and releases the lock');
my $busy = ZkTest->new($node, %idle);
my $busy_id = use_it($busy, '/busy');
$busy->start('SELECT pg_sleep(1000)');
wait_until_closed($first);
pass('idle session is closed');
wait_until_closed($busy_id);
ok(!$busy->is_done, '... also during another statement, which continues');

wait_until('zk_session() shows the state',
	sub { $idle->query('SELECT state FROM zk_session()') eq 'closed' });
my $second = use_it($idle, '/idle');
isnt($second, $first, 'closed session is opened again when needed');
is($idle->query(q(SELECT count(*) FROM zk_lock_queue('/idle'))),
	'0', '... several times');
wait_until_closed($second);
is($idle->query(q(SELECT count(*) FROM zk_lock_queue('/idle'))),
	'0', '... for zk_lock_queue()');
like($idle->query(q(SELECT zk_lock_acquire_all('{/idle, /idle2}'); SELECT zk_lock_release_all())),
	qr/^t\n2$/, '... and for several locks');
is( $node->safe_psql('postgres', 'SELECT expiries, losses, reconnects FROM zk_lock_stats'),
	'0|0|0', '... and no loss or reconnect is counted');

# By now, the other sessions have had twice the timeout.
ok(is_connected($default_id), 'session stays connected without the setting');
is(id($default), $default_id, '... and is the same');
ok(is_connected($holder_id), 'session with a lock stays connected');
ok(is_connected($open_id), '... and one with a lease of a transaction');
wait_for_queue($zk, '/held', $holder, $waiter);
is($open->query('COMMIT; SELECT 1'), '1', '... which can commit');
is($holder->query(q(SELECT zk_lock_release('/held'))),
	't', "holder's lock can be released");
is($waiter->result, 't', '... and the waiter is granted it');
wait_until_closed($holder_id);
wait_until_closed($open_id);
pass('sessions are closed after their locks are released');
is($waiter->query('SELECT zk_lock_release_all()'),
	'1', 'waiter has held its lock meanwhile');

# A backend can exit while its session is being closed.
my $proxy = ZkProxy->new($zk->hosts);
my $stuck = ZkTest->new($node, %idle, 'zklock.hosts' => $proxy->hosts);
my $close_request = $proxy->rule(dir => 'c2s', op => 'closeSession', action => 'hold');
use_it($stuck, '/stuck');
wait_until('the request to close the session is sent',
	sub { $proxy->fired($close_request) });
my $pid = $stuck->pid;
$stuck->close;
$node->poll_query_until('postgres',
	"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
pass('backend exits before ZooKeeper has received its close request');
$proxy->release;

# Sessions that are used again about when they are closed, slightly before or
# after
my @crowd = map { ZkTest->new($node, %idle) } 0 .. 9;
for my $i (0 .. $#crowd)
{
	my $pace = 0.95 + $i * 0.035;

	$crowd[$i]->start(join(';', map { qq(SELECT zk_lock_acquire('/crowd$i', '1min');
		SELECT zk_lock_release('/crowd$i'); SELECT pg_sleep($pace)) } 1 .. 4));
}
is($_->result, join("\n", ("t\nt\n") x 4), 'request during the close of a session succeeds')
  for @crowd;

like($idle->query(q(SET zklock.idle_session_timeout = '999ms')),
	qr/^ERROR:  22023: .*\nDETAIL:  It must be 0, for six times the session's timeout, or at least 1 second/m,
	'timeout of less than a second is refused');

done_testing();
