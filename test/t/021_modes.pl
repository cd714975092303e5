# The modes among themselves, each pair on one path, with sessions of two
# servers.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my @nodes = map { new_node($_, $zk->hosts) } qw(a b);
my @s = map { ZkTest->new($nodes[ $_ % 2 ])->connect } 0 .. 3;

sub acquire
{
	my ($path, $mode, $timeout) = @_;

	return sprintf("SELECT zk_lock_acquire('%s', %s, '%s')",
		$path, defined $timeout ? "'$timeout'" : 'NULL', $mode);
}

sub release
{
	my ($session, $path, $mode) = @_;

	is($session->query("SELECT zk_lock_release('$path', '$mode')"),
		't', "released $mode");
	return;
}

# Waits until so many nodes are at the path, that is until the last has queued.
sub wait_for_nodes
{
	my ($path, $number) = @_;

	wait_until("there are $number nodes at $path",
		sub {
			my @nodes = $zk->exists($path) ? $zk->children($path) : ();

			return @nodes == $number;
		});
	return;
}

#
# Any two exclude each other, unless both are shared.
#
for my $first (qw(exclusive shared write))
{
	for my $second (qw(exclusive shared write))
	{
		my $path = "/pairs/$first-$second";
		my $both = $first eq 'shared' && $second eq 'shared';

		is($s[0]->query(acquire($path, $first, '1 minute')),
			't', "$first, then $second");
		is( $s[1]->query(acquire($path, $second, '0')),
			$both ? 't' : 'f',
			$both ? '... share' : '... exclude each other');
		next if $both;

		$s[1]->start(acquire($path, $second));
		wait_for_nodes($path, 2);
		ok(!$s[1]->is_done, '... one waits');
		release($s[0], $path, $first);
		is($s[1]->result, 't', '... for the other');
	}
}
$_->query('SELECT zk_lock_release_all()') for @s;

#
# First come, first served: a reader does not pass a writer who waits.
#
is($s[0]->query(acquire('/fair', 'shared')), 't', 'a reader');
$s[1]->start(acquire('/fair', 'write'));
wait_for_nodes('/fair', 2);
$s[2]->start(acquire('/fair', 'shared'));
wait_for_nodes('/fair', 3);
$s[3]->start(acquire('/fair', 'shared'));
wait_for_nodes('/fair', 4);
ok(!grep({ $_->is_done } @s[ 1 .. 3 ]), 'a writer and two readers wait');
release($s[0], '/fair', 'shared');
is($s[1]->result, 't', 'the writer is first');
ok(!grep({ $_->is_done } @s[ 2, 3 ]), 'the readers still wait');
release($s[1], '/fair', 'write');
is($s[2]->result, 't', 'one reader');
is($s[3]->result, 't', 'and the other, at once');
$_->query('SELECT zk_lock_release_all()') for @s;

#
# A downgrade lets nobody slip in, whether the waiter comes before or after it,
# and whether or not it has others ahead.
#
for my $mode (qw(exclusive write))
{
	for my $late (0, 1)
	{
		my $path = "/downgrade/$mode-$late";

		is($s[0]->query(acquire($path, $mode)), 't', "holds $mode");
		$s[1]->start(acquire($path, 'exclusive')) if !$late;
		wait_for_nodes($path, 2) if !$late;
		is($s[0]->query(acquire($path, 'shared')), 't', '... and shared');
		$s[1]->start(acquire($path, 'exclusive')) if $late;
		wait_for_nodes($path, 3);
		release($s[0], $path, $mode);
		wait_for_nodes($path, 2);

		# Were the waiter granted by mistake, one in line behind it would be next.
		$s[2]->start(acquire($path, 'shared'));
		wait_for_nodes($path, 3);
		is($s[3]->query(acquire($path, 'exclusive', '1s')),
			'f', '... time passes');
		ok(!$s[1]->is_done, '... the waiter waits for the reader');
		release($s[0], $path, 'shared');
		is($s[1]->result, 't', '... until it has gone');
		ok(!$s[2]->is_done, '... with the next behind it');
		release($s[1], $path, 'exclusive');
		is($s[2]->result, 't', '... whose turn comes');
		$_->query('SELECT zk_lock_release_all()') for @s;
	}
}

# Readers come in beside a downgraded lock.
is($s[0]->query(acquire('/beside', 'exclusive')), 't', 'holds exclusive');
is($s[0]->query(acquire('/beside', 'shared')), 't', '... and shared');
is($s[1]->query(acquire('/beside', 'shared', '0')), 'f', 'no reader yet');
release($s[0], '/beside', 'exclusive');
is($s[1]->query(acquire('/beside', 'shared', '1 minute')),
	't', 'a reader beside the reader');
$_->query('SELECT zk_lock_release_all()') for @s;

#
# A semaphore: one inside, one who waits for a lease under the mutex, and others
# who do not even get the mutex in time
#
is($s[0]->query("SELECT zk_semaphore_acquire('/one', 1)"), 't', 'one lease');
$s[1]->start("SELECT zk_semaphore_acquire('/one', 1)");
wait_for_nodes('/one/leases', 2);
is($s[2]->query("SELECT zk_semaphore_acquire('/one', 1, '$_')"),
	'f', "none is left for a third within $_")
  for '1s', '0';
is($s[0]->query("SELECT zk_semaphore_release('/one')"), 't', 'released');
is($s[1]->result, 't', 'the second has it');
is($s[1]->query("SELECT zk_semaphore_release('/one')"), 't', '... and back');
wait_for_nodes($_, 0) for qw(/one/leases /one/locks);
pass('nothing is left of the semaphore');

#
# Simple locks: one node, no queue
#
is($s[0]->query(acquire('/simple', 'simple')), 't', 'a simple lock');
is($zk->get('/simple')->{data} =~ /pid=(\d+)/ ? $1 : '',
	$s[0]->pid, '... is a node that names its holder');
is($s[1]->query(acquire('/simple', 'simple', '0')), 'f', '... is not free');
is($s[1]->query(acquire('/simple', 'simple', '1s')),
	'f', '... not after a while, either');
$_->start(acquire('/simple', 'simple')) for @s[ 1, 2 ];
release($s[0], '/simple', 'simple');
wait_until('one of two has it', sub { grep { $_->is_done } @s[ 1, 2 ] });
my ($winner, $loser) = $s[1]->is_done ? @s[ 1, 2 ] : @s[ 2, 1 ];
is($winner->result, 't', 'one of two gets it');
ok(!$loser->is_done, '... and the other waits');
$winner->close;
is($loser->result, 't', '... until the one disconnects');
$loser->query('SELECT zk_lock_release_all()');
wait_until('the node is gone', sub { !$zk->exists('/simple') });
pass('a simple lock leaves nothing');

# A simple lock's node is deleted by hand, and somebody else makes another.

my $robbed = ZkTest->new($nodes[0], 'zklock.confirm_commit' => 'always');
my $next = ZkTest->new($nodes[1]);

for my $end (q(SELECT zk_lock_release('/simple', 'simple')), 'COMMIT')
{
	$robbed->query(
		$end eq 'COMMIT'
		? q(BEGIN; SELECT zk_lock_guard('/simple', mode => 'simple'))
		: q(SELECT zk_lock_acquire('/simple', mode => 'simple')));
	$zk->delete('/simple');
	is( $next->query(q(SELECT zk_lock_acquire('/simple', '10s', 'simple'))),
		't', 'a simple lock whose node was deleted can be taken');
	like(
		$robbed->query($end),
		$end eq 'COMMIT' ? qr{^ERROR:  40001:.*"/simple"}m : qr/^t$/,
		'... and who had it can give it back, but not commit');
	$robbed->query('SELECT zk_lock_release_all()');

	# What the old holder has let go is gone when his next lock is.
	$robbed->query(q(SELECT zk_lock_acquire('/behind'), zk_lock_release_all()));
	wait_for_queue($zk, '/behind');
	is($robbed->query(q(SELECT zk_lock_acquire('/simple', '0', 'simple'))),
		'f', '... and leaves the new one alone');
	is( $next->query(
			q(SELECT zk_lock_release('/simple', 'simple'),
				zk_lock_acquire('/simple', '0', 'simple'),
				zk_lock_release('/simple', 'simple'))),
		't|t|t',
		'... who can give it back and have it again at once');
	wait_until('the node is gone', sub { !$zk->exists('/simple') });
}

done_testing();
