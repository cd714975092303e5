# The process that has the ZooKeeper session of a server with zklock.session set
# to server, and what it has to do.

package Worker;

use strict;
use warnings;

use Exporter qw(import);
use Wait;

our @EXPORT = qw(worker_of wait_for_other_worker wait_for_calm);

# Its pid, once there is one.
sub worker_of
{
	my ($node) = @_;

	return wait_until(
		'there is a worker',
		sub {
			$node->safe_psql('postgres',
				q(SELECT pid FROM pg_stat_activity
				  WHERE backend_type = 'zklock worker'));
		});
}

# Waits until there is one that has taken the place of that one.
sub wait_for_other_worker
{
	my ($node, $pid) = @_;

	return wait_until('there is another worker',
		sub { my $now = worker_of($node); $now != $pid && $now });
}

# Waits until nobody of the server has or wants a lock, and the worker has nothing
# for anybody: no claim is left, nor a node at these paths.
sub wait_for_calm
{
	my ($node, $zk, @paths) = @_;

	wait_until(
		'no claim is left',
		sub {
			$node->safe_psql('postgres',
				'SELECT listed, unlisted FROM zk_lock_stats') eq '0|0';
		});
	for my $path (@paths)
	{
		wait_until("no node is left at $path", sub { !$zk->children($path) });
	}
	return;
}

1;
