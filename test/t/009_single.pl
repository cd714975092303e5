# A standalone backend (postgres --single) takes locks and waits for them, though
# it has no postmaster and no client.
#
# Runs once: of a backend that has no worker.

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
	'both are in line',
	sub {
		$single->check;

		# Not the first try, which has a node for a moment, too.
		return $single->output =~ /guarded = /
		  && join(' ', queue($zk, '/line')) eq
		  "${\ $holder->pid} $single->{pid}";
	});
pass('waits in line');
$holder->query(q(SELECT zk_lock_release('/line')));
wait_until('the standalone backend has the lock',
	sub { $single->check; $single->output =~ /in_line = "t"/ });
is(join(' ', queue($zk, '/line')), $single->{pid}, '... and gets its turn');
$single->finish($Wait::timeout);
is(join(' ', $single->output =~ /(?:at_once|guarded|in_line) = "(\w)"/g),
	'f t t', '... with all the right answers');
wait_for_queue($zk, '/line');
pass('its end gives the lock back');

done_testing();
