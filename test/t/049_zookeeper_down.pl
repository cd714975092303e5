# ZooKeeper is restarted, suspended, unreachable or absent; and backends stop
# for longer than their sessions' timeout.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use IO::Socket::INET;
use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

# Limit for "at once", and for statements with a timeout of a second: generous,
# because the machine may be busy.
use constant SOON => 15;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
$node->safe_psql('postgres',
	'CREATE TABLE stock (n int); INSERT INTO stock VALUES (10)');

sub signal_backend
{
	my ($function, $session) = @_;

	$node->safe_psql('postgres', "SELECT $function(${\ $session->pid})");
	return;
}

# Checks that a statement that waits for ZooKeeper can be cancelled at once.
sub cancel_ok
{
	my ($session, $sql, $what) = @_;
	my $answer;

	$session->start($sql);
	$session->wait_for_event('Extension');
	my $seconds = seconds_of(
		sub {
			signal_backend('pg_cancel_backend', $session);
			$answer = $session->result;
		});
	like($answer, qr/^ERROR:  57014:/, "$what: wait can be cancelled");
	cmp_ok($seconds, '<', SOON, '... at once');
	return;
}

# Checks that a statement ends in time with the expected result.
sub ends_ok
{
	my ($session, $sql, $expected, $what) = @_;
	my $answer;
	my $seconds = seconds_of(sub { $answer = $session->query($sql) });

	like($answer, $expected, $what);
	cmp_ok($seconds, '<', SOON, '... in time');
	return;
}

# ZooKeeper is restarted: holders and waiters keep their places.

# A busy machine may take long to restart ZooKeeper.
my @patient = with_settings(
	$node,
	'zklock.hosts' => $zk->hosts,
	'zklock.session_timeout' => '60s');
my ($holder, $waiter) = map { ZkTest->new(@patient) } (1 .. 2);

for my $stop (qw(stop kill9))
{
	$holder->query(q(SELECT zk_lock_acquire('/restart')));
	$waiter->start(q(SELECT zk_lock_acquire('/restart')));
	wait_for_queue($zk, '/restart', $holder, $waiter);
	my @names = $zk->children('/restart');

	$zk->$stop;
	$zk->start;
	is_deeply([ $zk->children('/restart') ],
		\@names, "holder and waiter keep their places after $stop and start");
	is($holder->query(q(SELECT zk_lock_release('/restart'))),
		't', '... holder can release the lock');
	is($waiter->result, 't', '... waiter is granted the lock');
	$waiter->query(q(SELECT zk_lock_release('/restart')));
	wait_for_queue($zk, '/restart');
}

# ZooKeeper is unreachable in several ways.

my $silent = IO::Socket::INET->new(
	LocalAddr => '127.0.0.1',
	Listen => 1024,
	Proto => 'tcp') or die "cannot listen: $@";
my %nowhere = (
	'a closed port' => '127.0.0.1:' . ZkServer::free_port(),
	'a listener that never answers' => '127.0.0.1:' . $silent->sockport,
	'a host that does not exist' => 'no-such-host.invalid:2181');
for my $what (sort keys %nowhere)
{
	my $session = ZkTest->new($node,
		'zklock.hosts' => $nowhere{$what},
		'zklock.connect_timeout' => '1s');

	ends_ok($session, q(SELECT zk_lock_acquire('/nowhere')),
		qr/^ERROR:  08001:.*^HINT:  Check zklock\.hosts/ms, $what);

	# A name that cannot be resolved is reported at once, or only when the
	# resolver gives up.
	if ($what !~ /host/)
	{
		ends_ok($session, qq(SELECT $_),
			qr/^ERROR:  08001:.*DETAIL:.*127\.0\.0\.1:/ms, "$what, $_")
		  for q(zk_lock_acquire('/nowhere', '100ms')),
		  q(zk_lock_acquire('/nowhere', '0')),
		  q(zk_lock_guard('/nowhere', '100ms')),
		  q(zk_lock_acquire_all('{/nowhere, /else}', '100ms')),
		  q(zk_semaphore_acquire('/nowhere', 1, '100ms')),
		  q(count(*) FROM zk_lock_queue('/probe'));
		$session->query(q(SET zklock.connect_timeout = '1h'));
		cancel_ok($session, q(SELECT zk_lock_acquire('/nowhere')), $what);
	}
	is($session->query('SELECT 1'), '1', '... and the backend can run more statements');
	$session->close;
}

my $session = ZkTest->new($node, 'zklock.hosts' => $zk->hosts . '/missing');
like(
	$session->query(q(SELECT zk_lock_acquire('/nowhere'))),
	qr/^ERROR:  42704:.*^HINT:  The path at the end of zklock\.hosts/ms,
	'error for a path that does not exist in ZooKeeper');
$session->close;

# Invalid values are refused at once.

$session = ZkTest->new($node);
$session->query(q(LOAD 'zklock'));
for my $hosts (
	'', ',', 'zk', 'zk:', ':2181', 'zk:0', 'zk:65536', 'zk:port', 'z k:2181',
	'zk1:2181,,zk2:2181', 'zk1:2181;zk2:2181', 'zk1;zk2:2181', '/shop', 'zk:2181//shop', 'zk:2181/shop/',
	'zk:2181/../shop')
{
	like(
		$session->query("SET zklock.hosts = '$hosts'"),
		qr/^ERROR:  22023:.*"zklock\.hosts".*\nDETAIL:/,
		"zklock.hosts refuses '$hosts'");
}
$session->close;

# ZooKeeper is suspended, for less than the session's timeout.

$session = ZkTest->new($node, 'zklock.session_timeout' => '60s');
$session->query(q(SELECT zk_lock_acquire('/frozen'), zk_lock_release_all();
	SET zklock.connect_timeout = '1s'));
$zk->pause;
cancel_ok($session, q(SELECT zk_lock_acquire('/frozen')), 'suspended server');
ends_ok($session, qq(SELECT $_),
	qr/^ERROR:  0800[16]:.*DETAIL:.*does not answer/ms,
	"suspended server cannot answer, $_")
  for q(zk_lock_acquire('/frozen', '100ms')),
  q(zk_lock_acquire('/frozen', '0')),
  q(zk_lock_acquire('/frozen', '0') FROM set_config('lock_timeout', '10ms', true)),
  q(zk_lock_guard('/frozen', '100ms')),
  q(zk_lock_acquire_all('{/frozen, /else}', '100ms')),
  q(zk_semaphore_acquire('/frozen', 1, '100ms'));

# After the time, it takes 0.3 s to ask the servers for the detail. On a busy machine it
# can take longer, but not always.
my $after = min(
	map { seconds_of(sub { $session->query(q(SELECT zk_lock_acquire('/frozen', '500ms'))) }) - 0.5 } 1 .. 5);
cmp_ok($after, '<', 0.35, 'error comes at most 0.3 s after the time');
cmp_ok($after, '>=', 0, '... and not before');

# A call that does not wait for a lock waits for the answer.
$session->query(q(SET zklock.connect_timeout = '1h'; SET zklock.try_timeout = '100ms'));
ends_ok($session, q(SELECT zk_lock_acquire('/frozen', '0')),
	qr/^ERROR:  0800[16]:/m, 'zklock.try_timeout limits a try');
$session->query(q(SET zklock.try_timeout = '1h'));
$session->start(q(SELECT zk_lock_acquire('/thawed', '0'), zk_lock_release_all()));
$session->wait_for_event('Extension');
$zk->resume;
is($session->result, 't|1', '... and if it is long, the try waits');
$session->query('RESET zklock.connect_timeout');
is($session->query(q(SELECT zk_lock_acquire('/frozen'))),
	't', 'lock can be acquired after ZooKeeper is resumed');
wait_for_queue($zk, '/frozen', $session);
pass('failed attempts leave no node');

# A backend can end meanwhile.
$zk->pause;
signal_backend('pg_terminate_backend', $session);
my $seconds = seconds_of(
	sub {
		$node->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_stat_activity
			 WHERE pid = ${\ $session->pid}");
	});
cmp_ok($seconds, '<', SOON, 'backend ends while ZooKeeper is suspended');
$zk->resume;
wait_for_queue($zk, '/frozen');
pass('node of the ended backend goes after ZooKeeper is resumed');
$session->close;

# A commit is refused if the backend cannot know whether the lock is still
# held.
$session = ZkTest->new($node, 'zklock.session_timeout' => '3s');
$session->query(q(BEGIN; SELECT zk_lock_guard('/lease')));
$session->query(q(SET LOCAL zklock.connect_timeout = '1s'));
$session->query('UPDATE stock SET n = n - 1');
$zk->pause;
$session->outlive_lease;
ends_ok(
	$session, 'COMMIT',
	qr{^ERROR:  40001:.*"/lease".*^HINT:  Retry the transaction}ms,
	'commit past the lease is refused while ZooKeeper is suspended');
$zk->resume;
is($node->safe_psql('postgres', 'SELECT n FROM stock'),
	10, '... and rolled back');
is($session->query(q(SELECT zk_lock_guard('/lease') > 0)),
	't', '... and can be retried after ZooKeeper is resumed');
$session->close;

# A backend is suspended until its session has expired and another backend has
# the lock. The backend has its own session: the server's session would survive
# this.

$waiter = ZkTest->new($node);

for my $in_transaction (0, 1)
{
	$session = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '2s');
	$session->query(
		$in_transaction
		? q(BEGIN; UPDATE stock SET n = n - 1; SELECT zk_lock_guard('/asleep'))
		: q(SELECT zk_lock_acquire('/asleep')));
	$waiter->start(q(SELECT zk_lock_acquire('/asleep')));
	wait_for_queue($zk, '/asleep', $session, $waiter);

	kill('STOP', $session->pid);
	is($waiter->result, 't', 'lock of an expired session goes to the waiter');
	kill('CONT', $session->pid);

	like(
		$session->query($in_transaction ? 'COMMIT' : 'SELECT 1'),
		qr{^ERROR:  40001:.*"/asleep"}m,
		$in_transaction
		? '... former holder cannot commit changes made under the lock'
		: '... former holder gets an error in its next transaction');
	is($session->query('SELECT n FROM stock'),
		10, '... and can run statements after that');
	$waiter->query(q(SELECT zk_lock_release_all()));
	is($session->query(q(SELECT zk_lock_acquire('/asleep', '10s'))),
		't', '... and can acquire the lock again');
	$session->close;
}

if (server_mode())
{
	$session = ZkTest->new($node);
	$session->query(q(SELECT zk_lock_acquire('/asleep')));
	kill('STOP', $session->pid);
	is($waiter->query(q(SELECT zk_lock_acquire('/asleep', '12s'))),
		'f', "suspended backend keeps its lock in the server's session");
	kill('CONT', $session->pid);
	is($session->query('SELECT 1'), '1', '... and holds it after it is resumed');
	$session->close;
}

# The loss of a session-level lock makes a transaction fail even if the error
# is caught at a savepoint. Several locks that are lost together make only one
# transaction fail.
$session = ZkTest->new($node, OWN_SESSION, 'zklock.session_timeout' => '2s');
$session->query(
	q(SELECT zk_lock_acquire_all('{/asleep, /asleep2, /asleep3}');
	  BEGIN; UPDATE stock SET n = n - 1));
$waiter->start(q(SELECT zk_lock_acquire('/asleep')));
wait_for_queue($zk, '/asleep', $session, $waiter);
kill('STOP', $session->pid);
is($waiter->result, 't', 'waiter gets one of three locks of an expired session');
kill('CONT', $session->pid);
like(
	$session->query(q(SAVEPOINT s; SELECT zk_lock_acquire('/awake'))),
	qr{^ERROR:  40001:}m, '... and the former holder gets an error at a savepoint');
$session->query('ROLLBACK TO s');
like($session->query('COMMIT'), qr{^ERROR:  40001:}m,
	'... and its transaction cannot commit');
is($session->query('SELECT n FROM stock'), 10, '... but the next transaction can');
is($session->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
	'0', '... and no lock is held any more');
$waiter->query(q(SELECT zk_lock_release_all()));
$session->close;

# The connection is cut until the session has expired.
my $proxy = ZkProxy->new($zk->hosts);
$session = ZkTest->new($node,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '2s');
$session->query(q(SELECT zk_lock_acquire('/cut')));
$session->query(q(SET zklock.connect_timeout = '1s'));
wait_for_queue($zk, '/cut', $session);
$proxy->refuse;
$proxy->cut;
wait_for_queue($zk, '/cut');
ends_ok($session, 'SELECT 1', qr{^ERROR:  40001:.*"/cut"}m,
	'transaction fails after its backend was cut off for too long');
is($session->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
	'0',
		'... and the backend gives the lock up although ZooKeeper has not reported the loss');
$proxy->accept;
$session->query('RESET zklock.connect_timeout');
is($session->query(q(SELECT zk_lock_acquire('/cut'))),
	't', '... and can acquire the lock again');
$session->query(q(SELECT zk_lock_release_all()));
$session->close;

# A request that comes while the connection is lost does not wait as long as the session may
# live, whether the session has locks, which it keeps, or not.
my @lost = with_settings(
	$node,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '60s',
	'zklock.connect_timeout' => '2s');
my ($keeper, $newcomer) = map { ZkTest->new(@lost) } (1 .. 2);
my @requests = (
	q(zk_lock_acquire('/lost/new')),
	q(zk_lock_acquire_all('{/lost/new, /lost/more}')),
	q(zk_semaphore_acquire('/lost/new', 1)));

$newcomer->query(q(SELECT zk_lock_acquire('/lost/held'), zk_lock_release_all()));
$keeper->query(q(SELECT zk_lock_acquire('/lost/held')));
wait_for_queue($zk, '/lost/held', $keeper);
my $owner = $zk->owners('/lost/held');
$proxy->refuse;
$proxy->cut;
wait_until('the connection is lost',
	sub { $keeper->query('SELECT state FROM zk_session()') eq 'connecting' });
for my $request (@requests)
{
	ends_ok($_->[0], "SELECT $request",
		qr/^ERROR:  08001: could not connect to ZooKeeper\n.*^DETAIL:  There was no answer within 2000 ms \(zklock\.connect_timeout\)\.\n/ms,
		"$_->[1] waits for zklock.connect_timeout, $request")
	  for [ $keeper, 'holder whose connection is lost' ],
	  [ $newcomer, 'newcomer' ];
}
$proxy->accept;
is($keeper->query("SELECT $requests[0]"), 't', '... and gets the lock when the connection is back');
is_deeply($zk->owners('/lost/held'), $owner, '... in the same session');
$keeper->query('SELECT zk_lock_release_all()');
is($newcomer->query("SELECT $requests[0]"), 't', '... and so does the newcomer');
$_->close for $keeper, $newcomer;

# A backend that waits meanwhile loses its place with its session, and gives up
# when it cannot connect to get a new one.
my @cut_off = with_settings(
	$node,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '2s',
	'zklock.connect_timeout' => '2s');
my @waits = (
	[ '/outage1', q(zk_lock_acquire('/outage1')) ],
	[ '/outage2', q(zk_lock_acquire_all('{/outage2, /outage2/b}')) ],
	[ '/outage3/locks', q(zk_semaphore_acquire('/outage3', 1)) ]);
my @waiters = map { ZkTest->new(@cut_off) } @waits;
for my $i (0 .. $#waits)
{
	my ($path, $call) = @{ $waits[$i] };

	$holder->query("SELECT zk_lock_acquire('$path')");
	$waiters[$i]->start("SELECT $call");
	wait_for_queue($zk, $path, $holder, $waiters[$i]);
}
$proxy->refuse;
$proxy->cut;
for my $i (0 .. $#waits)
{
	my ($path, $call) = @{ $waits[$i] };

	$path =~ s{/locks$}{(?:/locks)?};
	like(
		$waiters[$i]->result,
		qr{^ERROR:  08006: lost the connection to ZooKeeper while waiting for lock on "$path"\n.*^DETAIL:.*\Q${\ $proxy->hosts}\E .*^HINT:  Check zklock\.hosts}ms,
		"an outage ends the wait of $call");
}
ends_ok($waiters[0], "SELECT $waits[0][1]",
	qr{^ERROR:  08001: could not connect}m, '... and the next request cannot connect');

done_testing();
