# zklock and kazoo's Lock, ReadLock and WriteLock, which are configured with
# the names of Curator's nodes, wait in the same queue.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: 70 and 100 rounds for each contender, not 175
# and 250.
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
my $kazoo = Peer->kazoo($zk, $node);
my @sessions = map { ZkTest->new($node) } 0 .. 3;

# Lock, and a variant whose own nodes have such names

for my $their_kind ('lock', 'dashed-lock')
{
	my $path = "/$their_kind";
	my @all =
	  parties($path, \@sessions, ['exclusive'], $kazoo, [$their_kind]);
	my ($ours, $theirs) = @all;

	get_turns($zk, $path, 1, @all);
	give_up($zk, $path, $ours, $theirs);
	give_up($zk, $path, $theirs, $ours);
	see_each_other($zk, $path, $ours, $theirs);
	count_together($node, sample_of(175, 70), @all);
	wait_until_gone($zk, $path);
}

# ReadLock and WriteLock. Before kazoo 2.9.0, a waiting ReadLock also waits for
# writers that come after it, so no writer may come while it waits.

my @all = parties('/rw', \@sessions, [ 'shared', 'write' ],
	$kazoo, [ 'read', 'write' ]);
my ($shared, $read, $write, $their_write) = @all;

get_turns($zk, '/rw', 1, @all[ 0, 1, 2, 4, 3 ]);
get_turns($zk, '/rw', 1, @all[ 3, 2, 0, 1, 4, 5 ]);
give_up($zk, '/rw', $shared, $their_write);
give_up($zk, '/rw', $read, $write);
give_up($zk, '/rw', $write, $read);
give_up($zk, '/rw', $their_write, $shared);
see_each_other($zk, '/rw', $write, $their_write);
count_together($node, sample_of(250, 100), grep { $_->{name} ne 'their read' } @all);
wait_until_gone($zk, '/rw');

no_deadlock($zk, '/crossed', $sessions[0], $kazoo, 'lock');

done_testing();
