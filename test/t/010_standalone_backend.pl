# A standalone backend (postgres --single) takes locks and waits for them,
# although it has no postmaster and no client.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use Child;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('single', $zk->hosts);
my $holder = ZkTest->new(new_node('other', $zk->hosts));

$node->stop;
$holder->query(q(SELECT zk_lock_acquire('/line')));

my $single = Child->start(
	$node->basedir . '/single.log',
	'postgres', '--single', '-D', $node->data_dir, 'postgres');
$single->say(q(SELECT zk_lock_acquire('/connect') AS connected));
$single->say(q(SELECT zk_lock_acquire('/line', '0') AS at_once));
$single->say(q(SELECT zk_lock_guard('/transaction') > 0 AS guarded));
$single->say(q(SELECT zk_lock_acquire('/line') AS in_line));
wait_until(
	'both backends are in the queue',
	sub {
		$single->check;

		# Ignore the first attempt, which also has a node for a moment.
		return $single->output =~ /guarded = /
		  && join(' ', queue($zk, '/line')) eq
		  "${\ $holder->pid} $single->{pid}";
	});
pass('standalone backend waits in the queue');
$holder->query(q(SELECT zk_lock_release('/line')));
wait_until('the standalone backend has the lock',
	sub { $single->check; $single->output =~ /in_line = "t"/ });
is(join(' ', queue($zk, '/line')), $single->{pid},
	'standalone backend is granted the lock after the holder');
$single->finish($Wait::timeout);
is(join(' ', $single->output =~ /(?:at_once|guarded|in_line) = "(\w)"/g),
	'f t t', 'functions return the expected results');
wait_for_queue($zk, '/line');
pass('standalone backend gives the lock back at exit');

done_testing();
