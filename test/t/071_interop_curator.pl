# zklock and Curator's InterProcessMutex and InterProcessReadWriteLock wait in
# the same queue.
#
# Shortened unless ZKLOCK_LONG is set: 100 rounds for each contender, not 250.
# Not in gate mode: each waiter must have its own node in ZooKeeper.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../interop";

use Interop;
use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = counting_node($zk->hosts);
my $curator = Peer->curator($zk, $node);
my @sessions = map { ZkTest->new($node) } 0 .. 3;

# InterProcessMutex

my @all =
  parties('/mutex', \@sessions, ['exclusive'], $curator, ['mutex']);
my ($ours, $theirs) = @all;

get_turns($zk, '/mutex', 1, @all);
give_up($zk, '/mutex', $ours, $theirs);
give_up($zk, '/mutex', $theirs, $ours);
see_each_other($zk, '/mutex', $ours, $theirs);
count_together($node, sample_of(250, 100), @all);
wait_until_gone($zk, '/mutex');

# Curator counts every child of the path, zklock only contenders.

my $below = ours($sessions[0], 'exclusive', '/above/0');
my $actor = $curator->actor;
is($below->acquire, 't', 'zklock holds a lock below another path');
is($sessions[1]->query(q(SELECT zk_lock_acquire('/above', '20s'), zk_lock_release_all())),
	't|1', '... which does not block zklock on that path');
$actor->start('acquire mutex /above 500');
is($actor->result, 'f', '... but blocks Curator');
$below->release;
wait_until_gone($zk, '/above/0');

# InterProcessReadWriteLock

@all = parties('/rw', \@sessions, [ 'shared', 'write' ],
	$curator, [ 'read', 'write' ]);
my ($shared, $read, $write, $their_write) = @all;

get_turns($zk, '/rw', 1, @all[ 0, 1, 2, 5, 3, 4 ]);
get_turns($zk, '/rw', 1, @all[ 1, 0, 3, 4, 2, 5, 7, 6 ]);
give_up($zk, '/rw', $shared, $their_write);
give_up($zk, '/rw', $read, $write);
give_up($zk, '/rw', $write, $read);
give_up($zk, '/rw', $their_write, $shared);
see_each_other($zk, '/rw', $write, $their_write);
count_together($node, sample_of(250, 100), @all);
wait_until_gone($zk, '/rw');

# The holder of a write lock can continue with a read lock, and no other writer
# gets in between. With zklock this holds even if another client already waits
# to write.

my $downgraded = ours($write->{session}, 'shared', '/rw');

is($write->acquire, 't', 'zklock holds the write lock');
$read->start_acquire;
wait_until('Curator waits to read', sub { nodes($zk, '/rw') == 2 });
$their_write->start_acquire;
wait_until('Curator waits to write', sub { nodes($zk, '/rw') == 3 });
is($downgraded->acquire, 't', '... zklock acquires the read lock, too');
ok(!$read->is_done, "... Curator's reader still waits");
$write->release;
is($read->result, 't', '... until the write lock is released');
$read->release;
wait_until('Curator has released the read lock', sub { nodes($zk, '/rw') == 2 });
ok(!$their_write->is_done, "... Curator's writer still waits");
$downgraded->release;
is($their_write->result, 't', "... until zklock's read lock is released");

$downgraded = theirs($their_write->{session}, 'read', '/rw');
is($downgraded->acquire,
	't', 'Curator acquires the read lock in addition to its write lock');
$shared->start_acquire;
wait_until('zklock waits to read', sub { nodes($zk, '/rw') == 3 });
$write->start_acquire;
wait_until('zklock waits to write', sub { nodes($zk, '/rw') == 4 });
ok(!$shared->is_done, "... zklock's reader still waits");
$their_write->release;
is($shared->result, 't', "... until Curator's write lock is released");
$shared->release;
wait_until('zklock has released the read lock', sub { nodes($zk, '/rw') == 2 });
ok(!$write->is_done, "... zklock's writer still waits");
$downgraded->release;
is($write->result, 't', "... until Curator's read lock is released");
$write->release;
wait_until_gone($zk, '/rw');

no_deadlock($zk, '/crossed', $sessions[0], $curator, 'mutex');

done_testing();
