# A commit that comes late, after its lock was checked: it waits for a synchronous
# standby that does not answer, or for another's notifications. That its session
# ends meanwhile stops nothing but a fence.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);

# Only those who ask for it wait for the standby.
my $main = new_node(
	'main', $zk->hosts,
	max_wal_senders => 1,
	wal_level => 'replica',
	synchronous_commit => 'local',
	synchronous_standby_names => 'nobody');
my $other = new_node('other', $zk->hosts);

# One piece is for sale; what is sold has a row each.
$main->safe_psql('postgres', q(
	CREATE TABLE orders (who text);
	CREATE TABLE news (n int)));
create_fence($main);
import_tables($other, $main, qw(orders fence));

# How each server fences, if it does
my $here = q(SELECT zk_lock_fence('/late') > 0;);
my $from_there = q(INSERT INTO fence VALUES ('/late', :token););

# A transaction that buys the piece if it is there.
sub buy
{
	my ($who, $fence, $before_commit) = @_;

	return qq(
		BEGIN;
		SELECT zk_lock_guard('/late') AS token \\gset
		$fence
		INSERT INTO orders SELECT '$who' WHERE NOT EXISTS (SELECT FROM orders);
		$before_commit
		COMMIT);
}

sub orders
{
	return $main->safe_psql('postgres',
		q(SELECT string_agg(who, ' ' ORDER BY who) FROM orders));
}

# Waits until a session waits for such a thing.
sub wait_for_wait
{
	my ($session, $event, $node) = @_;

	($node // $main)->poll_query_until('postgres',
		"SELECT wait_event = '$event' FROM pg_stat_activity
		 WHERE pid = ${\ $session->pid}")
	  or die "it does not wait\n";
	return;
}

# Begins a purchase whose commit waits for $event. Returns the session, and what
# ends the wait.
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
		wait_for_wait($standby, 'SyncRep');
	}
	$late->start(buy('late', $fence, $notify));
	wait_for_wait($late, $event);
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
		ok(!$late->is_done, "a commit waits for $what");
		$proxy->hold;
		is($rival->query(buy('rival', '', '')),
			'', "... while its lock goes to another one, $where, who commits");
		is(orders(), 'rival', '... which is all there is to see');
		$go_on->();
		unlike($late->result, qr/ERROR/, '... and it commits, too');
		is(orders(), 'late rival', '... under the same lock');
		$proxy->release;
		$late->close;
		wait_for_queue($zk, '/late');

		$main->safe_psql('postgres', 'TRUNCATE orders');
		($late, $go_on) = begin_late($event, $here);
		ok(!$late->is_done, "a commit that has fenced waits for $what");
		$proxy->hold;
		$rival->start(buy('rival', $fence, ''));
		$main->poll_query_until('postgres', q(
			SELECT count(*) = 1 FROM pg_stat_activity
			WHERE wait_event = 'transactionid'));
		ok(!$rival->is_done,
			"... and another one, $where, who has the lock by now, for it");
		$go_on->();
		unlike($late->result, qr/ERROR/, '... it commits');
		if ($where eq 'here')
		{
			is($rival->result, 't', '... the other one sees that');
		}
		else
		{
			like(
				$rival->result,
				qr/^ERROR:  40001: could not serialize access/m,
				'... the other one has a snapshot, and must retry');
			$rival->query('ROLLBACK');
			is($rival->query(buy('rival', $fence, '')),
				'', '... which goes well');
		}
		is(orders(), 'late', '... so that the piece is sold once');
		$proxy->release;
		$_->close for $late, $rival;
		wait_for_queue($zk, '/late');
	}
}

# A procedure that goes on after such a commit
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
wait_for_wait($looper, 'SyncRep', $looping);
$proxy->hold;
is($next->query(q(SELECT zk_lock_acquire('/late/loop'))),
	't', 'a lock of the session is lost in the midst of a commit');
$proxy->mark;
$proxy->release;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$looping->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $looper->pid})");
like($looper->result, qr{^ERROR:  40001: lock on "/late/loop" was lost$}m,
	'... after which the procedure does not go on');
$_->close for $looper, $next;

# One who comes after a fence that was restored beside a new ZooKeeper
my $new_zk = ZkServer->new->start;
my $session = ZkTest->new($main, 'zklock.hosts' => $new_zk->hosts);
like(
	$session->query(buy('new', $here, '')),
	qr/^ERROR:  55000: fence of "\/late" is newer than the lock, which is held\nDETAIL:  The lock's fencing token is \d+, that in zk_lock_fences \d+\.\nHINT:  ZooKeeper was set up anew/m,
	'a new ZooKeeper is known for what it is');
$session->query('ROLLBACK');
$main->safe_psql('postgres', 'DELETE FROM zk_lock_fences');
is($session->query(buy('new', $here, '')),
	't', '... and its tokens are good when the old ones are deleted');

done_testing();
