# Locks that Curator's Revoker asks for, and that zk_lock_revoke() asks Curator for.

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

# Each kind of lock of theirs, and ours in the same queue
my %kinds = (mutex => 'exclusive', read => 'shared', write => 'write');

for my $kind (sort keys %kinds)
{
	my ($asker, $holder) = ($curator->actor, $curator->actor);
	my $path = "/revoke/$kind";
	my $ours = ours($session, $kinds{$kind}, $path);

	# They ask, we hold.
	is($ours->acquire, 't', "we hold $kinds{$kind}");
	my ($name) = nodes($zk, $path);
	my $said = $zk->get("$path/$name")->{data};
	$session->start('SELECT pg_sleep(1000)');
	$node->poll_query_until('postgres',
		"SELECT wait_event = 'PgSleep' FROM pg_stat_activity
		 WHERE pid = ${\ $session->pid}");
	is($asker->query("revoke $kind $path"), 't', '... they ask for it');
	like($session->result, qr/^ERROR:  57014: .*"$path" was asked back$/m,
		'... we are cancelled');
	wait_until('the node says again whose it is',
		sub { $zk->get("$path/$name")->{data} eq $said });
	my $rival = theirs($holder, 'write', $path);
	$rival = theirs($holder, 'mutex', $path) if $kind eq 'mutex';
	$rival->start_acquire;
	wait_until('they are in line', sub { nodes($zk, $path) == 2 });
	ok(!$rival->is_done, '... and hold it on');
	$ours->release;
	is($rival->result, 't', '... until we release it');
	$rival->release;
	wait_until_gone($zk, $path);

	# We ask, they hold: one who has agreed, and one who has not.
	for my $agrees (1, 0)
	{
		my $actor = $curator->actor;
		my $theirs = theirs($actor, $kind, $path);

		is($actor->query("agree $kind $path"), 't', "they agree on $kind") if $agrees;
		is($theirs->acquire, 't', "they hold $kind");
		is($session->query("SELECT zk_lock_revoke('$path')"), 1, '... we ask for it');
		wait_until('they are told',
			sub { $actor->query("revocations $kind $path") eq '1' })
		  if $agrees;
		is($actor->query("revocations $kind $path"),
			$agrees, '... and they are told' . ($agrees ? '' : ', but do not give it back'));
		is( $session->query(
				"SELECT state, host IS NULL, data FROM zk_lock_queue('$path')"),
			'holder|t|__REVOKE__',
			'... which their node says from then on');
		$theirs->release;
		wait_until_gone($zk, $path);
	}
}

done_testing();
