# A server that leads, Curator's LeaderSelector and kazoo's Election, which is configured with the
# names of Curator's nodes, stand in one queue.
#
# Runs once: the worker's session is the same in all modes.

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
my $node = new_node(
	'main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'backend',
	'zklock.leaders' => '/leaders/curator,/leaders/kazoo');
my $session = ZkTest->new($node);

sub wait_for_state
{
	my ($path, $state) = @_;

	return wait_until("the server $state at $path",
		sub { $session->query("SELECT state FROM zk_leaders WHERE path = '$path'") eq $state });
}

for my $case ([ 'selector', '/leaders/curator', Peer->curator($zk, $node) ],
	[ 'election', '/leaders/kazoo', Peer->kazoo($zk, $node) ])
{
	my ($kind, $path, $peer) = @$case;
	my $actor = $peer->actor;

	# They wait for the server.
	wait_for_state($path, 'leads');
	$actor->start("acquire $kind $path 500");
	is($actor->result, 'f', "$kind: while the server leads, nobody else does");
	wait_until('who has given up is not in the queue', sub { nodes($zk, $path) == 1 });
	$actor->start("acquire $kind $path");
	wait_until('somebody waits behind the server', sub { nodes($zk, $path) == 2 });
	is($session->query("BEGIN; SELECT zk_leader_guard('$path') > 0; COMMIT"), 't',
		'... whose transactions are committed');
	is($session->query("BEGIN; SELECT zk_leader_guard('$path') > 0"), 't', '... until it resigns');
	ok(!$actor->is_done, '... when the other one still waits');
	is(ZkTest->new($node)->query("SELECT zk_leader_resign('$path')"), 't', 'it does');
	is($actor->result, 't', '... and the other one leads');
	like($session->query('COMMIT'), qr/^ERROR:  40001: lock on "\Q$path\E" was lost/,
		'... while the server commits nothing');
	$session->query('ROLLBACK');

	# The server waits for them.
	wait_for_state($path, 'waits');
	is($session->query("SELECT zk_leads('$path')"), 'f', 'the server does not lead');
	like($session->query("SELECT zk_leader_guard('$path')"), qr/^ERROR:  55000: this server does not lead/,
		'... and guards nothing');
	$actor->start("release $kind $path");
	is($actor->result, 't', 'the other one ends');
	wait_for_state($path, 'leads');
	is($session->query("BEGIN; SELECT zk_leader_guard('$path') > 0; COMMIT"), 't', '... and the server leads');
}

done_testing();
