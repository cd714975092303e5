# The worker is suspended: no transaction commits without confirmation of its
# lock, and when the session has expired, each holder gets the error once.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

use constant {
	HOLDERS => 5,
	WAITERS => 4,
};

my $zk = ZkServer->new(tick_time => 1000)->start;
my %server = ('zklock.session_mode' => 'server', 'zklock.connect_timeout' => '60s');
my $node = new_node('a', $zk->hosts, %server, 'zklock.session_timeout' => '12s');
my $other = new_node('b', $zk->hosts, %server);
$node->safe_psql('postgres', 'CREATE TABLE t (i int)');

my @holders = map { ZkTest->new($node) } 1 .. HOLDERS;
my $writer = ZkTest->new($node);
my @waiters = map { ZkTest->new($node) } 1 .. WAITERS;
my $next = ZkTest->new($other);
my $worker = worker_of($node);

$holders[$_]->query("SELECT zk_lock_acquire('/paused/$_')") for 0 .. $#holders;
for my $n (1 .. WAITERS)
{
	# The last ones begin first, so that no other order could be mistaken for
	# the right one.
	$waiters[-$n]->start(q(SELECT zk_lock_acquire('/paused/0')));
	wait_until(
		"$n backends wait",
		sub {
			$node->safe_psql('postgres',
				'SELECT count(*) FROM zk_locks WHERE NOT granted') == $n;
		});
}
$writer->query(q(SELECT zk_lock_acquire('/paused/session')));
$writer->query(
	q(BEGIN; SELECT zk_lock_guard('/paused/writer'); INSERT INTO t VALUES (1)));

# For longer than two thirds of the timeout

kill('STOP', $worker);
wait_until(
	'the last confirmation is too old',
	sub {
		$node->safe_psql('postgres',
			'SELECT confirmed_ago > timeout * 2 / 3 FROM zk_session()') eq 't';
	});
$writer->start('COMMIT');
$writer->wait_for_event('Extension');
kill('CONT', $worker);
is($writer->result, '', 'unconfirmed commit waits until the worker is resumed');
is($node->safe_psql('postgres', 'SELECT sum(i) FROM t'), 1, '... and succeeds');
is($_->query('SELECT 1'), 1, 'no backend has lost a lock') for @holders;
is($writer->query('SELECT zk_lock_release_all()'), 1, '... nor the one that has committed');

# For longer than the session's timeout

$next->start(
	q(SELECT zk_lock_acquire_all(array_agg('/paused/' || i))
	  FROM generate_series(1, 4) AS i));
wait_until('the backend of the other server waits',
	sub { my @q = $zk->children('/paused/1'); @q > 1 });
my $session = $node->safe_psql('postgres', 'SELECT session_id FROM zk_session()');
kill('STOP', $worker);
wait_until('the session is over', sub { !grep { $_ eq $session } $zk->sessions });
is($next->result, 't', 'other server gets the locks of the expired session');
my $late = $holders[2];
$late->start('BEGIN; INSERT INTO t VALUES (4); COMMIT');
$holders[3]->start(q(SELECT pg_sleep(600)));
wait_until(
	'a statement is running, or is cancelled already',
	sub {
		$node->safe_psql('postgres',
			q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')) == 1 ||
			$holders[3]->is_done;
	});
kill('CONT', $worker);
like($late->result, qr/^ERROR:  40001: /, 'commit of a former holder is refused');
my $told = $holders[3]->result;
like($told, qr/^ERROR:  40001: /, 'running statement is cancelled');

# Waiters, which held nothing, begin new attempts one by one, and the lock is
# free: any of them can be the first.
my @line = reverse @waiters;
my $first = wait_until('a waiter has the lock', sub { (grep { $_->is_done } @line)[0] });
is($first->result, 't', 'one of the waiters gets the lock');
for my $i (0, 1, 4)
{
	like($holders[$i]->query('BEGIN; SELECT 1; COMMIT'), qr/^ERROR:  40001: /m,
		'former holder gets the error');
	$holders[$i]->query('ROLLBACK');
}
# If it was told before the worker was resumed, the loss was not certain, and may be told again.
$told =~ /ZooKeeper has not confirmed/ && $holders[3]->query($_) for 'BEGIN; SELECT 1; COMMIT', 'ROLLBACK';
is($_->query('BEGIN; INSERT INTO t VALUES (0); COMMIT; SELECT 1'), 1, '... once')
  for @holders;
is($node->safe_psql('postgres', 'SELECT sum(i) FROM t'), 1, 'no other row was committed');
is(worker_of($node), $worker, 'worker is the same process');
$next->query('SELECT zk_lock_release_all()');
wait_until(
	'the other waiters are back',
	sub {
		$node->safe_psql('postgres', qq(
			SELECT count(*) FROM zk_locks AS l JOIN zk_locks AS w USING (path, node)
			WHERE l.pid = ${\ $first->pid} AND NOT w.granted)) == WAITERS - 1;
	});
@line = grep { $_ != $first } @line;
while (my $waiter = shift @line)
{
	$first->query('SELECT zk_lock_release_all()');
	is($waiter->result, 't', 'waiter gets the lock');
	ok(!grep({ $_->is_done } @line), '... in the order of requests');
	$first = $waiter;
}
$first->query('SELECT zk_lock_release_all()');
is($_->query(q(SELECT zk_lock_acquire('/paused/0'), zk_lock_release_all())),
	't|1', 'all backends can acquire locks again')
  for @holders;
wait_until_idle($node, $zk, map { "/paused/$_" } 0 .. 4, 'writer', 'session');

done_testing();
