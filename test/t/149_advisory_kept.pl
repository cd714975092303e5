# Without a setting, zklock.keep_time is -1: a server keeps advisory locks in ZooKeeper for a
# second, and no others. What other servers, Curator and kazoo see of that. What is set counts
# for all locks.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../interop";

use Interop;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my %settings = ('zklock.session_mode' => 'server', 'zklock.session_timeout' => '60s');
my $keeper = new_node('keeper', $zk->hosts, %settings);
my $other = new_node('other', $zk->hosts, %settings);

$_->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory') for $keeper, $other;
my ($session, $remote) =
  map { ZkTest->new($_, 'zklock.advisory_locks' => 'cluster') } $keeper, $other;

sub path
{
	my ($key) = @_;

	return "/pg_advisory/postgres/$key";
}

sub advisory
{
	my ($key) = @_;

	return "SELECT pg_advisory_lock($key), pg_advisory_unlock($key)";
}

sub plain
{
	my ($path) = @_;

	return "SELECT zk_lock_acquire('$path'), zk_lock_release('$path')";
}

# Uses a lock several times. Returns the nodes that it had after each use: the same one if the
# server keeps it.
sub nodes_of
{
	my ($path, $sql) = @_;
	my @nodes;

	for (1 .. 6)
	{
		$session->query($sql);
		push @nodes, join(' ', $zk->children($path));
	}
	return @nodes;
}

# Does the server keep it within a few uses? A slow machine may need more than a second for one.
sub is_kept
{
	my ($path, $sql) = @_;

	return wait_until("$path is kept",
		sub { my @nodes = nodes_of($path, $sql); $nodes[-1] ne '' && $nodes[-1] eq $nodes[-2] });
}

# The nodes of a released lock are deleted soon, so that the same one is not there after two uses.
sub is_not_kept
{
	my ($path, $sql) = @_;
	my @nodes = nodes_of($path, $sql);

	return !grep { $nodes[$_] ne '' && $nodes[$_] eq $nodes[ $_ - 1 ] } 1 .. $#nodes;
}

is($session->query('SHOW zklock.keep_time'), '-1', 'nothing is set');
ok(is_kept(path(1), advisory(1)), '... and an advisory lock is kept');
is( $session->query("SELECT kept FROM zk_lock_queue('${\ path(1)}')"),
	't', '... which the server says');
ok(is_not_kept('/plain', plain('/plain')), '... another lock is not');
wait_until('an advisory lock that is not used is given up', sub { !$zk->children(path(1)) });

is_kept(path(1), advisory(1));
is($remote->query('SELECT pg_advisory_lock(1)'), '', 'another server gets a kept lock');
is($session->query('SELECT pg_try_advisory_lock(1)'), 'f', '... and then has it');
$remote->query('SELECT pg_advisory_unlock_all()');

# A try waits for a moment until the other server gives the lock up, and a busy machine may
# take longer for that.
my $tries = 10;
my $key = 100;
my $answer;

do
{
	is_kept(path(++$key), advisory($key));
	$answer = $remote->query("SELECT pg_try_advisory_lock($key)");
} until ($answer eq 't' || --$tries == 0);
is($answer, 't', '... also if it does not want to wait');
$remote->query('SELECT pg_advisory_unlock_all()');

# Others, which usually do not take these paths
for ([ Curator => Peer->curator($proxy, $keeper), 'mutex' ],
	[ kazoo => Peer->kazoo($proxy, $keeper), 'lock' ])
{
	my ($name, $peer, $kind) = @$_;
	my $actor = $peer->actor;
	my $rival = theirs($actor, $kind, path(++$key));

	is_kept(path($key), advisory($key));
	is($rival->acquire, 't', "$name gets a kept advisory lock");
	is($session->query("SELECT pg_try_advisory_lock($key)"), 'f', '... and then has it');
	$rival->release;

	# One that does not want to wait may be refused while the lock is kept (076_interop_kept).
	$rival = theirs($actor, $kind, path(++$key));
	is_kept(path($key), advisory($key));
	wait_until('the lock is given up', sub { !$zk->children(path($key)) });
	is($rival->acquire(0), 't', '... also if it does not want to wait, as soon as it is given up');
	$rival->release;
}

change_setting($keeper, 'zklock.keep_time', '0', $session);
$key++;
ok(is_not_kept(path($key), advisory($key)), 'with 0, an advisory lock is not kept');
change_setting($keeper, 'zklock.keep_time', '1min', $session);
ok(is_kept('/plain', plain('/plain')), 'with a time, each lock is');

done_testing();
