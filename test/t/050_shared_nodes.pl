# Several backends of a server share one node, and the next node when its
# hand-over time is over: zk_locks shows which one.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts, 'zklock.session_mode' => 'server');
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
is(scalar $zk->children('/one'), 1, 'three backends share one node');
$rival->start($lock);
wait_for_queue($zk, '/one', $holder, $first, $second, $rival);

wait_until('the hand-over time is over', sub { time() > $late });
$holder->query($release);
is($rival->result,
	't', 'backend with its own session gets the lock after the hand-over time');
wait_for_queue($zk, '/one', $rival, $first, $second);
pass('... and the waiters of the server share another node');
is( $node->safe_psql(
		'postgres', sprintf($nodes, $first->pid, $second->pid)),
	1,
	'... which zk_locks shows for both');
$rival->query($release);
is($first->result, 't', '... first waiter is granted the lock');
$first->query($release);
is($second->result, 't', '... and then the second');
$second->query($release);
wait_for_queue($zk, '/one');

# A process that has another use for the worker's signal keeps it.
my $library = build_module('signal_handler');
my $signalled = ZkTest->new($node);
$signalled->query("LOAD '$library'");
is($signalled->query($lock), 't', 'process with a handler for SIGUSR2 holds a lock');
kill('USR2', $signalled->pid);
wait_until('the handler has ended the process',
	sub { $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE pid = ${\ $signalled->pid}") == 0 });
wait_for_queue($zk, '/one');
pass('... and obeys that signal');

done_testing();
