# zklock and go-zookeeper's Lock wait in the same queue, and then all clients
# together. go-zookeeper's Lock has no timeout and no way to list waiters.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: 100 and 50 rounds for each contender, not
# 250 and 125.
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
my $go = Peer->go($zk, $node);
my @sessions = map { ZkTest->new($node) } 0 .. 3;

my @all = parties('/lock', \@sessions, ['exclusive'], $go, ['lock']);
my ($ours, $theirs) = @all;

get_turns($zk, '/lock', 1, @all);
give_up($zk, '/lock', $theirs, $ours);
count_together($node, sample_of(250, 100), @all);
wait_until_gone($zk, '/lock');

# go-zookeeper counts every child of the path, and requires a number in its
# name.

my $below = ours($sessions[0], 'exclusive', '/above/x');
my $actor = $go->actor;
is($below->acquire, 't', 'zklock holds a lock below another path');
$actor->start('acquire lock /above');
isnt($actor->result, 't', '... which blocks go-zookeeper on that path');
$below->release;
wait_until_gone($zk, '/above/x');

my $curator = Peer->curator($zk, $node);
my $kazoo = Peer->kazoo($zk, $node);

@all = map {
	ours($sessions[$_], 'exclusive', '/all'),
	  theirs($go->actor, 'lock', '/all'),
	  theirs($curator->actor, 'mutex', '/all'),
	  theirs($kazoo->actor, 'dashed-lock', '/all')
} 0, 1;

get_turns($zk, '/all', 1, @all);
count_together($node, sample_of(125, 50), @all);
wait_until_gone($zk, '/all');

done_testing();
