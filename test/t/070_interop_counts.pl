# Counts shared with Curator's SharedCount, and the semaphores of both that use
# them.
#
# Not in gate mode: each waiter must have its own node in ZooKeeper.

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
my $admin = ZkTest->new($node);
my $their_admin = $curator->actor;
my @sessions = map { ZkTest->new($node) } 0 .. 2;

# Sets a count with zklock or with Curator; both see it.
sub set_count
{
	my ($path, $whose, $n) = @_;

	if ($whose eq 'our')
	{
		$admin->query("SELECT zk_shared_count_set('/counts$path', $n)");
	}
	else
	{
		$their_admin->query("set-count /counts$path $n");
	}
	is($admin->query("SELECT zk_shared_count_get('/counts$path')"),
		$n, "$whose client has set the count to $n");
	wait_until('Curator sees the count, too',
		sub { $their_admin->query("count /counts$path") eq $n });
	return;
}

# Each side creates a count
for my $whose ('our', 'their')
{
	my $path = "/$whose";

	set_count($path, $whose, 2);

	my @all = parties($path, \@sessions, ['semaphore-counted'],
		$curator, ['semaphore-counted']);

	get_turns($zk, $path, 2, @all);
	crowd_together($node, 40, 2, @all);
	$node->safe_psql('postgres', 'DELETE FROM crowds');
	wait_until_gone($zk, $path);
}

# Each side raises and lowers the count while each side waits
set_count('/changes', 'their', 1);
my ($ours, $theirs, $other) = parties('/changes', \@sessions, ['semaphore-counted'],
	$curator, ['semaphore-counted']);
for my $whose ('our', 'their')
{
	for my $pair ([ $ours, $theirs ], [ $theirs, $ours ])
	{
		my ($holder, $waiter) = @$pair;

		is($holder->acquire, 't', "$holder->{name} has a lease");
		wait_until('the mutex is released', sub { nodes($zk, '/changes') == 1 });
		$waiter->start_acquire;
		wait_until("$waiter->{name} is in the queue",
			sub { nodes($zk, '/changes') == 3 });
		ok(!$waiter->is_done, '... and waits');
		set_count('/changes', $whose, 2);
		is($waiter->result, 't', '... until the count is raised');
		wait_until('the mutex is released', sub { nodes($zk, '/changes') == 2 });

		# After one of the two releases its lease, one lease of one is still
		# held.
		set_count('/changes', $whose, 1);
		$holder->release;
		$other->start_acquire;
		wait_until('one more waiter is in the queue',
			sub { nodes($zk, '/changes') == 3 });
		ok(!$other->is_done, '... another waits after the count is lowered');
		$waiter->release;
		is($other->result, 't', '... until the last lease is released');
		$other->release;
		wait_until_gone($zk, '/changes');
	}
}

done_testing();
