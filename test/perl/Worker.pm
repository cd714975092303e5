# The worker process, which has the ZooKeeper session of a server with
# zklock.session_mode set to server.

package Worker;

use strict;
use warnings;

use Exporter qw(import);
use Wait;

our @EXPORT = qw(worker_of wait_for_other_worker wait_until_idle);

# Returns its pid, once the process exists.
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

# Waits until another worker has replaced this one.
sub wait_for_other_worker
{
	my ($node, $pid) = @_;

	return wait_until('there is another worker',
		sub { my $now = worker_of($node); $now != $pid && $now });
}

# Waits until the server's backends hold and request no lock, and the worker
# has finished all requests: no claim is left, and no node at these paths.
sub wait_until_idle
{
	my ($node, $zk, @paths) = @_;

	wait_until(
		'no claim is left',
		sub {
			$node->safe_psql('postgres',
				'SELECT listed, unlisted FROM zk_server_status') eq '0|0';
		});
	for my $path (@paths)
	{
		wait_until("no node is left at $path", sub { !$zk->children($path) });
	}
	return;
}

1;
