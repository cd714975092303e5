# Curator's Revoker revokes locks of zklock, and zk_lock_revoke() revokes locks
# of Curator.

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
my $node = new_node('main', $zk->hosts);
my $curator = Peer->curator($zk, $node);
my $session = ZkTest->new($node, 'zklock.revocable' => 'on');

# Each kind of Curator's locks, and the mode of zklock in the same queue
my %kinds = (mutex => 'exclusive', read => 'shared', write => 'write');

for my $kind (sort keys %kinds)
{
	my ($revoker, $holder) = ($curator->actor, $curator->actor);
	my $path = "/revoke/$kind";
	my $ours = ours($session, $kinds{$kind}, $path);

	# Curator revokes a lock that zklock holds.
	is($ours->acquire, 't', "zklock holds the $kinds{$kind} lock");
	my ($name) = nodes($zk, $path);
	my $data = $zk->get("$path/$name")->{data};
	$session->start('SELECT pg_sleep(1000)');
	$session->wait_for_event('PgSleep');
	is($revoker->query("revoke $kind $path"), 't', '... Curator revokes it');
	like($session->result, qr/^ERROR:  57014: .*"$path" was revoked$/m,
		'... running statement is canceled');
	wait_until('the node describes its holder again',
		sub { $zk->get("$path/$name")->{data} eq $data });
	my $rival = theirs($holder, 'write', $path);
	$rival = theirs($holder, 'mutex', $path) if $kind eq 'mutex';
	$rival->start_acquire;
	wait_until('Curator waits', sub { nodes($zk, $path) == 2 });
	ok(!$rival->is_done, '... zklock still holds the lock');
	$ours->release;
	is($rival->result, 't', '... until it releases it');
	$rival->release;
	wait_until_gone($zk, $path);

	# zklock revokes a lock that Curator holds, with and without a revocation
	# listener.
	for my $listens (1, 0)
	{
		my $actor = $curator->actor;
		my $theirs = theirs($actor, $kind, $path);

		is($actor->query("agree $kind $path"), 't', "Curator listens for revocations of $kind")
		  if $listens;
		is($theirs->acquire, 't', "Curator holds $kind");
		is($session->query("SELECT zk_lock_revoke('$path')"), 1, '... zklock revokes it');
		wait_until('the listener is called',
			sub { $actor->query("revocations $kind $path") eq '1' })
		  if $listens;
		is($actor->query("revocations $kind $path"),
			$listens, '... a listener is called' . ($listens ? '' : ' only if there is one'));
		is( $session->query(
				"SELECT state, host IS NULL, data FROM zk_lock_queue('$path')"),
			'holder|t|__REVOKE__',
			'... the node contains the request');
		$theirs->release;
		wait_until_gone($zk, $path);
	}
}

done_testing();
