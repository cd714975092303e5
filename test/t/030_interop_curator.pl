# Locks in one line with Curator's InterProcessMutex and
# InterProcessReadWriteLock.
#
# Not in gate mode: all of ours are in line themselves.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../interop";

use Interop;
use PostgreSQL::Test::Utils;
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
count_together($node, 250, @all);
wait_until_gone($zk, '/mutex');

# Every child of the path counts for Curator, and none but contenders for us.

my $below = ours($sessions[0], 'exclusive', '/above/0');
my $actor = $curator->actor;
is($below->acquire, 't', 'a lock below another path');
is($sessions[1]->query(q(SELECT zk_lock_acquire('/above', '20s'), zk_lock_release_all())),
	't|1', '... does not keep us from that');
$actor->start('acquire mutex /above 500');
is($actor->result, 'f', '... but keeps Curator from it');
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
count_together($node, 250, @all);
wait_until_gone($zk, '/rw');

# Who holds the lock to write can go on to read, with nobody else writing in
# between. With us that is so even if somebody waits to write.

my $downgraded = ours($write->{session}, 'shared', '/rw');

is($write->acquire, 't', 'we write');
$read->start_acquire;
wait_until('they are in line to read', sub { nodes($zk, '/rw') == 2 });
$their_write->start_acquire;
wait_until('they are in line to write', sub { nodes($zk, '/rw') == 3 });
is($downgraded->acquire, 't', '... and downgrade');
ok(!$read->is_done, '... which lets nobody in yet');
$write->release;
is($read->result, 't', '... then they read with us');
$read->release;
wait_until('they do not read', sub { nodes($zk, '/rw') == 2 });
ok(!$their_write->is_done, '... but do not write');
$downgraded->release;
is($their_write->result, 't', '... until we have read');

$downgraded = theirs($their_write->{session}, 'read', '/rw');
is($downgraded->acquire, 't', 'they downgrade');
$shared->start_acquire;
wait_until('we are in line to read', sub { nodes($zk, '/rw') == 3 });
$write->start_acquire;
wait_until('we are in line to write', sub { nodes($zk, '/rw') == 4 });
ok(!$shared->is_done, '... which lets nobody in yet');
$their_write->release;
is($shared->result, 't', '... then we read with them');
$shared->release;
wait_until('we do not read', sub { nodes($zk, '/rw') == 2 });
ok(!$write->is_done, '... but do not write');
$downgraded->release;
is($write->result, 't', '... until they have read');
$write->release;
wait_until_gone($zk, '/rw');

done_testing();
