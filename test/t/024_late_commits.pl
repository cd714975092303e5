# A commit that becomes visible long after its lock was checked, because it
# waits for a synchronous standby that does not answer, or for another
# backend's notifications. If its session ends meanwhile, only a fence keeps
# the next holder from committing first.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);

# Only sessions with synchronous_commit = on wait for the standby.
my $main = new_node(
	'main', $zk->hosts,
	max_wal_senders => 1,
	wal_level => 'replica',
	synchronous_commit => 'local',
	synchronous_standby_names => 'nobody');
my $other = new_node('other', $zk->hosts);

# One piece is for sale; each sale is a row.
$main->safe_psql('postgres', q(
	CREATE TABLE orders (buyer text);
	CREATE TABLE news (n int)));
create_fence($main);
import_tables($other, $main, qw(orders fence));

# Statements that fence, locally and through postgres_fdw
my $here = q(SELECT zk_lock_fence('/late') > 0;);
my $from_there = q(INSERT INTO fence VALUES ('/late', :token););

# A transaction that buys the piece if it is not sold yet.
sub buy
{
	my ($buyer, $fence, $before_commit) = @_;

	return qq(
		BEGIN;
		SELECT zk_lock_guard('/late') AS token \\gset
		$fence
		INSERT INTO orders SELECT '$buyer' WHERE NOT EXISTS (SELECT FROM orders);
		$before_commit
		COMMIT);
}

sub orders
{
	return $main->safe_psql('postgres',
		q(SELECT string_agg(buyer, ' ' ORDER BY buyer) FROM orders));
}

# Begins a purchase whose commit waits for $event. Returns the session, and a
# function that ends the wait.
sub begin_late
{
	my ($event, $fence) = @_;
	my $late = ZkTest->new($main,
		'zklock.hosts' => $proxy->hosts,
		'zklock.session_timeout' => '1s',
		synchronous_commit => $event eq 'SyncRep' ? 'on' : 'local');
	my $standby = $late;
	my $notify = '';

	if ($event ne 'SyncRep')
	{
		$standby = ZkTest->new($main, synchronous_commit => 'on');
		$notify = 'NOTIFY news;';
		$standby->start('BEGIN; INSERT INTO news VALUES (1); NOTIFY news; COMMIT');
		$standby->wait_for_event('SyncRep');
	}
	$late->start(buy('late', $fence, $notify));
	$late->wait_for_event($event);
	return ($late,
		sub { $main->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $standby->pid})") });
}

for my $event ('SyncRep', 'object')
{
	my $what = $event eq 'SyncRep' ? 'its standby' : 'the queue of NOTIFY';

	for my $where ('here', 'there')
	{
		my $fence = $where eq 'here' ? $here : $from_there;
		my $rival = ZkTest->new($where eq 'here' ? $main : $other);

		$main->safe_psql('postgres', 'TRUNCATE orders');
		my ($late, $go_on) = begin_late($event, '');
		ok(!$late->is_done, "commit waits for $what");
		$proxy->hold;
		is($rival->query(buy('rival', '', '')),
			'', "... while a backend of server $where gets the lock and commits");
		is(orders(), 'rival', '... and only the other commit is visible');
		$go_on->();
		unlike($late->result, qr/ERROR/, '... and the first one commits, too');
		is(orders(), 'late rival', '... under the same lock');
		$proxy->release;
		$late->close;
		wait_for_queue($zk, '/late');

		$main->safe_psql('postgres', 'TRUNCATE orders');
		($late, $go_on) = begin_late($event, $here);
		ok(!$late->is_done, "commit with a fence waits for $what");
		$proxy->hold;
		$rival->start(buy('rival', $fence, ''));
		$main->poll_query_until('postgres', q(
			SELECT count(*) = 1 FROM pg_stat_activity
			WHERE wait_event = 'transactionid'));
		ok(!$rival->is_done,
			"... and a backend of server $where that has the lock waits for it");
		$go_on->();
		unlike($late->result, qr/ERROR/, '... the first one commits');
		if ($where eq 'here')
		{
			is($rival->result, 't', '... the other one sees the committed row');
		}
		else
		{
			like(
				$rival->result,
				qr/^ERROR:  40001: could not serialize access/m,
				'... the other one has an older snapshot and must retry');
			$rival->query('ROLLBACK');
			is($rival->query(buy('rival', $fence, '')),
				'', '... and succeeds');
		}
		is(orders(), 'late', '... and the piece is sold once');
		$proxy->release;
		$_->close for $late, $rival;
		wait_for_queue($zk, '/late');
	}
}

# A procedure that continues after such a commit
my $looping = new_node(
	'looping', $proxy->hosts,
	'zklock.session_timeout' => '3s',
	max_wal_senders => 1,
	wal_level => 'replica',
	synchronous_commit => 'local',
	synchronous_standby_names => 'nobody');
$looping->safe_psql('postgres', 'CREATE TABLE t (i int)');
my $looper = ZkTest->new($looping, synchronous_commit => 'on');
my $next = ZkTest->new($other);
$looper->query(q(LOAD 'zklock'));
$looper->start(q(DO $$
	BEGIN
		PERFORM zk_lock_acquire('/late/loop', scope => 'session');
		INSERT INTO t VALUES (1);
		COMMIT;
		PERFORM pg_sleep(3600);
	END $$));
$looper->wait_for_event('SyncRep');
$proxy->hold;
is($next->query(q(SELECT zk_lock_acquire('/late/loop'))),
	't', 'session-level lock is lost during a commit');
$proxy->mark;
$proxy->release;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$looping->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $looper->pid})");
like($looper->result, qr{^ERROR:  40001: lock on "/late/loop" was lost$}m,
	'... and the procedure does not continue after it');
$looper->close;

# While a commit relies on the server's session, no other session begins. The errors name
# the process that commits.
SKIP:
{
	skip('each backend has its own session', 11) if !server_mode();
	my $node = new_node(
		'waiting', $proxy->hosts,
		'zklock.session_timeout' => '2s',
		'zklock.connect_timeout' => '2s',
		max_wal_senders => 1,
		wal_level => 'replica',
		synchronous_commit => 'local',
		synchronous_standby_names => 'nobody');
	my ($late, $waiter, $newcomer) = map { ZkTest->new($node) } 1 .. 3;
	my $named = qr/^DETAIL:  .* the commit of process ${\ $late->pid} has ended\.\nHINT:  See pg_stat_activity/m;

	$node->safe_psql('postgres', 'CREATE TABLE t (i int)');
	$late->query(q(SET synchronous_commit = 'on'; BEGIN; SELECT zk_lock_guard('/late/named')));
	$waiter->start(q(SELECT zk_lock_acquire('/late/named')));
	wait_for_queue($zk, '/late/named', $late, $waiter);
	$late->query('INSERT INTO t VALUES (1)');
	$late->start('COMMIT');
	$late->wait_for_event('SyncRep');
	$proxy->hold;
	is($next->query(q(SELECT zk_lock_acquire('/late/named'), zk_lock_release('/late/named'))),
		't|t', "the server's session expires during a commit");
	$proxy->release;
	like($waiter->result,
		qr{^ERROR:  08006: lost the connection to ZooKeeper while waiting for lock on "/late/named"$}m,
		'a waiter gets an error');
	like($waiter->result, $named, '... that names the process which commits');
	for my $timeout ('NULL', q('300ms'), q('0'))
	{
		my $answer = $newcomer->query("SELECT zk_lock_acquire('/late/else', $timeout)");

		like($answer, qr/^ERROR:  08001: could not connect to ZooKeeper$/m,
			"a backend that comes later, with timeout $timeout, gets an error");
		like($answer, $named, '... that names it, too');
	}
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $late->pid})");
	unlike($late->result, qr/ERROR/, '... until the commit has ended');
	is($newcomer->query(q(SELECT zk_lock_acquire('/late/named', '10s'))),
		't', '... and then a lock can be taken');
	$_->close for $late, $waiter, $newcomer;
	$node->stop;
}

# A new ZooKeeper has smaller tokens than the fences in a restored database.
my $new_zk = ZkServer->new->start;
my $session = ZkTest->new($main, 'zklock.hosts' => $new_zk->hosts);
like(
	$session->query(buy('new', $here, '')),
	qr/^ERROR:  55000: fence of "\/late" is newer than the lock, which is held\nDETAIL:  The lock's fencing token is \d+, that in zk_lock_fences \d+\.\nHINT:  ZooKeeper was set up anew/m,
	'error says that ZooKeeper was set up anew');
$session->query('ROLLBACK');
$main->safe_psql('postgres', 'DELETE FROM zk_lock_fences');
is($session->query(buy('new', $here, '')),
	't', 'tokens are accepted after old fences are deleted');

done_testing();
