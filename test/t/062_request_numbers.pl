# Requests are numbered with 32 bits. After an overflow, each reply still
# reaches its own attempt. The library is built with such large steps that 16
# requests cause the overflow.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Module;
use Test::More;
use Worker;
use ZkClient;
use ZkServer;
use ZkTest;

use constant WAITERS => 20;    # more than 16

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts, 'zklock.session_mode' => 'server');
build_zklock($node, ['-DZKLOCK_REQUESTER_STEP=0x10000000'], 'session/session.c' => sub { 1 });

my @waiters = map { ZkTest->new($node) } 1 .. WAITERS;
my $holder = ZkTest->new($node);
$holder->query(
	"SELECT zk_lock_acquire('/requests/held/' || i) FROM generate_series(1, 16) AS i");

# Each waiter waits behind the node of another client.
my @ahead;
$zk->create("/requests/$_", '') for 0 .. $#waiters;
for my $i (0 .. $#waiters)
{
	push @ahead, $zk->create("/requests/$i/_c_1-lock-", '', ZkClient::SEQUENCE);
	$waiters[$i]->start("SELECT zk_lock_acquire('/requests/$i')");
}
wait_until("$_ waits", sub { $zk->children("/requests/$_") == 2 }) for 0 .. $#waiters;

# The first 16 attempts end while the others wait.
is($holder->query('SELECT zk_lock_release_all()'), 16, 'the first 16 locks are released');
wait_until("lock $_ is gone", sub { !$zk->children("/requests/held/$_") }) for 1 .. 16;
$zk->delete($_) for @ahead;
is($waiters[$_]->result, 't', "waiter $_ has its lock") for 0 .. $#waiters;
$_->query('SELECT zk_lock_release_all()') for @waiters;
wait_until_idle($node, $zk, map { "/requests/$_" } 0 .. $#waiters);

done_testing();
