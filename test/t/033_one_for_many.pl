# Many backends of a server behind one node, and the next node when its time is
# over: zk_locks says which it is.
#
# Runs once: of those who hand locks over.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts, 'zklock.session' => 'server');
my ($holder, $first, $second) = map { ZkTest->new($node) } (1 .. 3);
my $rival = ZkTest->new($node, OWN_SESSION);
my $lock = q(SELECT zk_lock_acquire('/one'));
my $release = q(SELECT zk_lock_release('/one'));
my $nodes = q(SELECT count(DISTINCT node) FROM zk_locks WHERE pid IN (%d, %d));

$holder->query($lock);
my $late = time() + 0.1;
$first->start($lock);
wait_for_queue($zk, '/one', $holder, $first);
$second->start($lock);
wait_for_queue($zk, '/one', $holder, $first, $second);
is(scalar $zk->children('/one'), 1, 'three are behind one node');
$rival->start($lock);
wait_for_queue($zk, '/one', $holder, $first, $second, $rival);

wait_until('its time is over', sub { time() > $late });
$holder->query($release);
is($rival->result, 't', 'then it is the turn of somebody else');
wait_for_queue($zk, '/one', $rival, $first, $second);
pass('... and they are behind another node');
is( $node->safe_psql(
		'postgres', sprintf($nodes, $first->pid, $second->pid)),
	1,
	'... which both of them name');
$rival->query($release);
is($first->result, 't', '... until it has the lock');
$first->query($release);
is($second->result, 't', '... and the next one');
$second->query($release);
wait_for_queue($zk, '/one');

done_testing();
