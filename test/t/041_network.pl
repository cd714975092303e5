# Clients cut off from ZooKeeper, and ZooKeeper's servers from each other: what
# is sent one way is lost, or the other way, or both.

use strict;
use warnings;

use ZkNet;
BEGIN { ZkNet::enter() }

use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkLine;
use ZkTest;

# We look at ZooKeeper where it always is. For who is to be cut off from it, it
# is at an address of their own.
my %cuts = (
	'on the way there' => [ '127.0.0.2', 'to' ],
	'on the way back' => [ '127.0.0.3', 'from' ],
	'both ways' => [ '127.0.0.4', 'to', 'from' ]);
my $zk = ZkEnsemble->new(
	tick_time => 200,
	config => { clientPortAddress => '0.0.0.0' })->start;
my $node = new_node('main', $zk->hosts);

# A line for each of the cuts.
sub form_lines
{
	my ($path, $timeout) = @_;
	my %lines;

	for (keys %cuts)
	{
		my ($its_node, %settings) = with_settings(
			$node,
			'zklock.session_timeout' => $timeout,
			'zklock.connect_timeout' => '1min',
			'zklock.hosts' => $zk->hosts =~ s/127\.0\.0\.1:/$cuts{$_}[0]:/gr);

		$lines{$_} =
		  ZkLine->new($zk, "$path/$cuts{$_}[0]", [$its_node], %settings);
	}

	$_->form for values %lines;
	return %lines;
}

# Cut off for less than the session timeout: until it is noticed. That takes two
# thirds of it, and to connect anew a second, or three if the first one was too
# early, when TCP tries again.

sub is_connected
{
	my ($session) = @_;

	return $session->query('SELECT state FROM zk_session()') eq 'connected';
}

my %lines = form_lines('/short', '12s');
my %cut = %cuts;

# It takes a connection to commit, even for those who only ask for their state.
$_->holder->query('BEGIN') for values %lines;
ZkNet::cut(@$_) for values %cut;
wait_until(
	'it is noticed',
	sub {
		for (grep { !is_connected($lines{$_}->writer) } keys %cut)
		{
			ZkNet::heal(@{ delete $cut{$_} });
		}
		return !%cut;
	});
for my $way (sort keys %lines)
{
	my $line = $lines{$way};

	wait_until('they are connected again',
		sub { is_connected($line->writer) && is_connected($line->holder) });
	$line->kept_ok("cut off $way for a while");
	$line->holder->query('COMMIT');
	$line->finish_ok;
	$line->close;
}

# For longer than the session timeout: until somebody else has all the locks.

%lines = form_lines('/long', '4s');
my $rival = ZkTest->new($node);
my @paths = map { ("/long/$_->[0]/line", "/long/$_->[0]/stock") } values %cuts;

ZkNet::cut(@$_) for values %cuts;
is($rival->query("SELECT zk_lock_acquire_all('{@{[ join ',', @paths ]}}')"),
	't', 'the locks of who is cut off for long go to somebody else');
$lines{$_}->refused_ok("cut off $_ for long") for sort keys %lines;
ZkNet::heal(@$_) for values %cuts;
$rival->query('SELECT zk_lock_release_all()');
for my $way (sort keys %lines)
{
	my $line = $lines{$way};
	my @waiters = $line->waiters;

	like($line->holder->query('SELECT 1'),
		qr/^ERROR:  40001:/, "cut off $way, and back: who held a lock is told");
	while (@waiters)
	{
		wait_until('the next has the lock',
			sub { grep { $_->is_done } @waiters });
		my ($owner, @others) = grep { $_->is_done } @waiters;
		is($owner->result, 't', '... who waited has the lock');
		is(@others, 0, '... and nobody else');
		$owner->query('SELECT zk_lock_release_all()');
		@waiters = grep { $_ != $owner } @waiters;
	}
	$line->form;
	$line->finish_ok;
	$line->close;
}

# The servers are cut off from each other.

my $line = ZkLine->new($zk, '/servers', [$node]);
for my $way (qw(to from))
{
	$line->form;
	ZkNet::cut(ZkEnsemble::PEERS, $way);
	wait_until('nobody serves', sub { !$zk->leader && !$zk->followers });
	ZkNet::heal(ZkEnsemble::PEERS, $way);
	$zk->wait_for_all;
	$line->kept_ok("servers cut off $way their leader for a while");
	$line->finish_ok;
}

done_testing();
