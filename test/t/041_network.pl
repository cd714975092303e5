# The network between clients and ZooKeeper, or between ZooKeeper's servers, is
# cut: packets are lost in one direction or in both.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use ZkNet;
BEGIN { ZkNet::enter() }

use PostgreSQL::Test::Utils;
use Test::More;
use ZkEnsemble;
use ZkLine;
use ZkTest;

# The test itself reaches ZooKeeper at its usual address. Each of the other
# addresses can be cut.
my %cuts = (
	'towards ZooKeeper' => [ '127.0.0.2', 'to' ],
	'from ZooKeeper' => [ '127.0.0.3', 'from' ],
	'in both directions' => [ '127.0.0.4', 'to', 'from' ]);
my $zk = ZkEnsemble->new(
	tick_time => 200,
	config => { clientPortAddress => '0.0.0.0' })->start;
my $node = new_node('main', $zk->hosts);

# Forms a queue at each of the addresses.
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

# Cut off for less than the session timeout, until the client notices. That
# takes two thirds of the timeout. A new connection takes one more second, or
# three if TCP has to repeat its first packet.

sub is_connected
{
	my ($session) = @_;

	return $session->query('SELECT state FROM zk_session()') eq 'connected';
}

my %lines = form_lines('/short', '12s');
my %cut = %cuts;

# A commit requires a connection, even in a transaction that only reads the
# state of the session.
$_->holder->query('BEGIN') for values %lines;
ZkNet::cut(@$_) for values %cut;
wait_until(
	'all clients have noticed the cut',
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

	wait_until('holder and writer are connected again',
		sub { is_connected($line->writer) && is_connected($line->holder) });
	$line->kept_ok("cut $way for a while");
	$line->holder->query('COMMIT');
	$line->finish_ok;
	$line->close;
}

# Cut off for longer than the session timeout, until another session has all
# locks.

%lines = form_lines('/long', '4s');
my $rival = ZkTest->new($node);
my @paths = map { ("/long/$_->[0]/line", "/long/$_->[0]/stock") } values %cuts;

ZkNet::cut(@$_) for values %cuts;
is($rival->query("SELECT zk_lock_acquire_all('{@{[ join ',', @paths ]}}')"),
	't', 'locks of the expired sessions go to another session');
$lines{$_}->refused_ok("cut $_ for longer than the timeout") for sort keys %lines;
ZkNet::heal(@$_) for values %cuts;
$rival->query('SELECT zk_lock_release_all()');
for my $way (sort keys %lines)
{
	my $line = $lines{$way};
	my @waiters = $line->waiters;

	like($line->holder->query('SELECT 1'),
		qr/^ERROR:  40001:/, "cut $way and back: former holder gets the error");
	while (@waiters)
	{
		wait_until('the next waiter has the lock',
			sub { grep { $_->is_done } @waiters });
		my ($owner, @others) = grep { $_->is_done } @waiters;
		is($owner->result, 't', '... a waiter has the lock');
		is(@others, 0, '... and no other session');
		$owner->query('SELECT zk_lock_release_all()');
		@waiters = grep { $_ != $owner } @waiters;
	}
	$line->form;
	$line->finish_ok;
	$line->close;
}

# ZooKeeper's servers are cut off from each other. They look for each other less and less
# often meanwhile, so that a busy machine needs long to elect a leader; a session lasts longer.

my ($its_node, %settings) = with_settings(
	$node,
	'zklock.session_timeout' => '60s',
	'zklock.hosts' => $zk->hosts);
my $line = ZkLine->new($zk, '/servers', [$its_node], %settings);
for my $way (qw(to from))
{
	$line->form;
	ZkNet::cut(ZkEnsemble::PEERS, $way);
	wait_until('no server serves', sub { !$zk->leader && !$zk->followers });
	ZkNet::heal(ZkEnsemble::PEERS, $way);
	$zk->wait_for_all;
	$line->kept_ok("servers are cut off for a while ($way their leader)");
	$line->finish_ok;
}

done_testing();
