# Conflicts between lock modes: each pair on one path, with sessions of two
# servers.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my @nodes = map { new_node($_, $zk->hosts) } qw(a b);
my @s = map { ZkTest->new($nodes[ $_ % 2 ])->connect } 0 .. 3;

sub release
{
	my ($session, $path, $mode) = @_;

	is($session->query("SELECT zk_lock_release('$path', '$mode')"),
		't', "$mode lock is released");
	return;
}

#
# Any two modes conflict, unless both are shared.
#
for my $first (qw(exclusive shared write))
{
	for my $second (qw(exclusive shared write))
	{
		my $path = "/pairs/$first-$second";
		my $both = $first eq 'shared' && $second eq 'shared';

		is($s[0]->query(acquire($path, mode => $first, timeout => '1 minute')),
			't', "$first lock is acquired before $second");
		is( $s[1]->query(acquire($path, mode => $second, timeout => '0')),
			$both ? 't' : 'f',
			$both ? '... both are granted' : '... they conflict');
		next if $both;

		$s[1]->start(acquire($path, mode => $second));
		wait_for_nodes($zk, $path, 2);
		ok(!$s[1]->is_done, '... the second waits');
		release($s[0], $path, $first);
		is($s[1]->result, 't', '... until the first is released');
	}
}
$_->query('SELECT zk_lock_release_all()') for @s;

#
# Requests are granted in order: a reader does not overtake a waiting writer, once
# zklock.handover_time has passed.
#
is($s[0]->query(acquire('/fair', mode => 'shared')), 't', 'reader has the lock');
$s[1]->start(acquire('/fair', mode => 'write'));
wait_for_nodes($zk, '/fair', 2);
my $late = time() + 0.2;
wait_until('no reader joins the first', sub { time() > $late });
$s[2]->start(acquire('/fair', mode => 'shared'));
wait_for_nodes($zk, '/fair', 3);
$s[3]->start(acquire('/fair', mode => 'shared'));
wait_for_nodes($zk, '/fair', 4);
ok(!grep({ $_->is_done } @s[ 1 .. 3 ]), 'a writer and two readers wait behind it');
release($s[0], '/fair', 'shared');
is($s[1]->result, 't', 'the writer is granted first');
ok(!grep({ $_->is_done } @s[ 2, 3 ]), 'both readers still wait');
release($s[1], '/fair', 'write');
is($s[2]->result, 't', 'the first reader is granted after the writer');
is($s[3]->result, 't', 'the second reader is granted at the same time');
$_->query('SELECT zk_lock_release_all()') for @s;

#
# After a downgrade, an exclusive waiter keeps waiting, whether it came before
# or after the downgrade, and whether or not other nodes are ahead of it.
#
for my $mode (qw(exclusive write))
{
	for my $late (0, 1)
	{
		my $path = "/downgrade/$mode-$late";

		is($s[0]->query(acquire($path, mode => $mode)), 't', "$mode lock is acquired");
		$s[1]->start(acquire($path, mode => 'exclusive')) if !$late;
		wait_for_nodes($zk, $path, 2) if !$late;
		is($s[0]->query(acquire($path, mode => 'shared')), 't', '... and the shared lock');
		$s[1]->start(acquire($path, mode => 'exclusive')) if $late;
		wait_for_nodes($zk, $path, 3);
		release($s[0], $path, $mode);
		wait_for_nodes($zk, $path, 2);

		# If the waiter were granted by mistake, a second one behind it would
		# be next.
		$s[2]->start(acquire($path, mode => 'shared'));
		wait_for_nodes($zk, $path, 3);
		is($s[3]->query(acquire($path, mode => 'exclusive', timeout => '1s')),
			'f', '... a request of another session times out');
		ok(!$s[1]->is_done, '... the waiter waits for the reader');
		release($s[0], $path, 'shared');
		is($s[1]->result, 't', '... until the reader releases the lock');
		ok(!$s[2]->is_done, '... the next waiter still waits');
		release($s[1], $path, 'exclusive');
		is($s[2]->result, 't', '... until its predecessor releases the lock');
		$_->query('SELECT zk_lock_release_all()') for @s;
	}
}

# Readers are granted beside a downgraded lock.
is($s[0]->query(acquire('/beside', mode => 'exclusive')), 't', 'exclusive lock is acquired');
is($s[0]->query(acquire('/beside', mode => 'shared')), 't', '... and the shared lock');
is($s[1]->query(acquire('/beside', mode => 'shared', timeout => '0')),
	'f', 'another reader is not granted before the downgrade');
release($s[0], '/beside', 'exclusive');
is($s[1]->query(acquire('/beside', mode => 'shared', timeout => '1 minute')),
	't', 'another reader is granted after the downgrade');
$_->query('SELECT zk_lock_release_all()') for @s;

#
# A semaphore of one lease: one session has the lease, a second one waits for
# it and holds the mutex, and a third one does not get the mutex in time
#
is($s[0]->query("SELECT zk_semaphore_acquire('/one', 1)"),
	't', 'the only lease is acquired');
$s[1]->start("SELECT zk_semaphore_acquire('/one', 1)");
wait_for_nodes($zk, '/one/leases', 2);
is($s[2]->query("SELECT zk_semaphore_acquire('/one', 1, '$_')"),
	'f', "a third session gets no lease within $_")
  for '1s', '0';
is($s[0]->query("SELECT zk_semaphore_release('/one')"), 't', 'lease is released');
is($s[1]->result, 't', 'the waiter has the lease');
is($s[1]->query("SELECT zk_semaphore_release('/one')"), 't', '... and releases it');
wait_for_nodes($zk, $_, 0) for qw(/one/leases /one/locks);
pass('semaphore leaves no node');

#
# Simple locks: one node without a queue
#
is($s[0]->query(acquire('/simple', mode => 'simple')), 't', 'simple lock is acquired');
is($zk->get('/simple')->{data} =~ /pid=(\d+)/ ? $1 : '',
	$s[0]->pid, '... its node describes the holder');
is($s[1]->query(acquire('/simple', mode => 'simple', timeout => '0')),
	'f', '... it conflicts with another request');
is($s[1]->query(acquire('/simple', mode => 'simple', timeout => '1s')),
	'f', '... and with one that waits for a time');
$_->start(acquire('/simple', mode => 'simple')) for @s[ 1, 2 ];
release($s[0], '/simple', 'simple');
wait_until('one of two waiters has the lock', sub { grep { $_->is_done } @s[ 1, 2 ] });
my ($winner, $loser) = $s[1]->is_done ? @s[ 1, 2 ] : @s[ 2, 1 ];
is($winner->result, 't', 'one of two waiters gets the lock');
ok(!$loser->is_done, '... and the other one waits');
$winner->close;
is($loser->result, 't', '... until the first one disconnects');
$loser->query('SELECT zk_lock_release_all()');
wait_until('the node is gone', sub { !$zk->exists('/simple') });
pass('simple lock leaves no node');

# The node of a simple lock is deleted by hand, and another session creates a
# new one.

my $former = ZkTest->new($nodes[0], 'zklock.confirm_commit' => 'always');
my $next = ZkTest->new($nodes[1]);

for my $end (q(SELECT zk_lock_release('/simple', 'simple')), 'COMMIT')
{
	$former->query(
		$end eq 'COMMIT'
		? q(BEGIN; SELECT zk_lock_guard('/simple', mode => 'simple'))
		: q(SELECT zk_lock_acquire('/simple', mode => 'simple')));
	$zk->delete('/simple');
	is( $next->query(q(SELECT zk_lock_acquire('/simple', '10s', 'simple'))),
		't', 'simple lock whose node was deleted can be acquired');
	like(
		$former->query($end),
		qr{^ERROR:  40001:.*"/simple"}m,
		"... and the former holder's $end fails");
	$former->query('SELECT zk_lock_release_all()');

	# The former holder's deletion is done when its next lock is granted.
	$former->query(q(SELECT zk_lock_acquire('/behind'), zk_lock_release_all()));
	wait_for_queue($zk, '/behind');
	is($former->query(q(SELECT zk_lock_acquire('/simple', '0', 'simple'))),
		'f', '... and does not delete the new node');
	is( $next->query(
			q(SELECT zk_lock_release('/simple', 'simple'),
				zk_lock_acquire('/simple', '0', 'simple'),
				zk_lock_release('/simple', 'simple'))),
		't|t|t',
		'... whose holder can release the lock and acquire it again at once');
	wait_until('the node is gone', sub { !$zk->exists('/simple') });
}

done_testing();
