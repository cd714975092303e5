# A waiting backend is suspended, and wakes long after its attempt was decided:
# it keeps its place if the lock that it was granted is lost, and reports the
# error of its own attempt, not that of another one.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 1000)->start;
my $node = new_node(
	'main', $zk->hosts,
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '6s',
	'zklock.connect_timeout' => '60s',
	'zklock.handover_time' => '10min');
my $worker = worker_of($node);
my ($holder, $late, $second, $third) = map { ZkTest->new($node) } 1 .. 4;

sub row
{
	my ($session, $what) = @_;

	return $node->safe_psql('postgres', "SELECT $what FROM zk_locks JOIN pg_stat_activity
		USING (pid) WHERE pid = ${\ $session->pid}");
}

# Starts to wait for a lock, and returns when the backend sleeps and holds none
# of the locks of shared memory.
sub start_waiting
{
	my ($session, $path) = @_;

	$session->start("SELECT zk_lock_acquire('$path')");
	wait_until(
		'the backend sleeps',
		sub {
			row($session, q(wait_event_type = 'Extension' AND NOT granted)) eq 't'
			  && slurp_file("/proc/${\ $session->pid}/stat") =~ /\) S /
			  && row($session, q(wait_event_type = 'Extension')) eq 't';
		});
	return;
}

# The lock is handed over to a suspended backend, and the session ends before
# it notices.

$holder->query(q(SELECT zk_lock_acquire('/late/place')));
start_waiting($_, '/late/place') for $late, $second, $third;
kill('STOP', $late->pid);
is($holder->query('SELECT zk_lock_release_all()'), 1, 'lock is released and handed over');
kill('STOP', $worker);
wait_until('the session is over', sub { !$zk->sessions });
kill('CONT', $worker);

# Both other waiters begin new attempts in a new session. The lock is free, so
# either can be the first.
my ($first, $next) = ($second, $third);
wait_until('one of the other waiters has the lock',
	sub { $second->is_done || $third->is_done });
($first, $next) = ($next, $first) if $third->is_done;
is($first->result, 't', 'another waiter gets the lock in a new session');
kill('CONT', $late->pid);
wait_until('two backends wait behind it',
	sub {
		$node->safe_psql('postgres', qq(
			SELECT count(*) FROM zk_locks AS l JOIN zk_locks AS w USING (path, node)
			WHERE l.pid = ${\ $first->pid} AND NOT w.granted)) == 2;
	});
$first->query('SELECT zk_lock_release_all()');
wait_until('one of them has the lock', sub { $late->is_done || $next->is_done });
ok(!$next->is_done, 'backend that was first in the queue still is');
is($_->result . $_->query('SELECT zk_lock_release_all()'),
	't1', 'each waiter gets the lock in turn')
  for $late, $next;

# The attempt of a suspended backend is refused, and the next one for the same
# lock has begun when it wakes.

ZkTest->new($node, OWN_SESSION, 'zklock.acl' => 'ip:10.1.2.3:cdrwa,world:anyone:r')
  ->query(q(SELECT zk_lock_acquire('/late/reason'), zk_lock_release_all()));
$zk->pause;
start_waiting($_, '/late/reason') for $late, $second;
kill('STOP', $late->pid);
$zk->resume;
my $refused = qr/^ERROR:  28000: could not lock "\/late\/reason"\nDETAIL:  ZooKeeper refused to create a node below "\/late\/reason"/;
like($second->result, $refused, 'waiter gets the error of the refused attempt');
wait_until('the path is empty',
	sub { !$zk->children('/late/reason') });
$zk->delete('/late/reason');
$zk->create('/late/reason', '');
my $ahead = $zk->create('/late/reason/_c_1-lock-', '', ZkClient::SEQUENCE);
$third->start(q(SELECT zk_lock_acquire('/late/reason')));
wait_until('the next attempt waits', sub { $zk->children('/late/reason') == 2 });
kill('CONT', $late->pid);
like($late->result, $refused, 'suspended backend gets the same error when it is resumed');
$zk->delete($ahead);
is($third->result, 't', '... and the next attempt is not affected');
$third->query('SELECT zk_lock_release_all()');
wait_until_idle($node, $zk, '/late/place', '/late/reason');

done_testing();
