# zklock and Curator's InterProcessSemaphoreV2 and InterProcessSemaphoreMutex
# share leases.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: 50 rounds for each contender, not 125.
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

for my $their_kind ('semaphore-of-1', 'semaphore-mutex')
{
	my $path = "/$their_kind";
	my @all =
	  parties($path, \@sessions, ['semaphore-of-1'], $curator, [$their_kind]);
	my ($ours, $theirs) = @all;

	get_turns($zk, $path, 1, @all);
	give_up($zk, $path, $ours, $theirs);
	give_up($zk, $path, $theirs, $ours);
	count_together($node, sample_of(125, 50), @all);
	wait_until_gone($zk, $path);
}

my @all = parties('/three', \@sessions, ['semaphore-of-3'],
	$curator, ['semaphore-of-3']);

get_turns($zk, '/three', 3, @all);
crowd_together($node, sample_of(125, 50), 3, @all);
wait_until_gone($zk, '/three');

done_testing();
