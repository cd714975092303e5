# Connections lost for less than the session timeout, with one server or several
# in zklock.hosts, some of them dead: all holds, waiters and places in line are
# kept.
#
# The C client has its own ways to go through the list: see zkhosts.h.

use strict;
use warnings;

use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkLine;
use ZkProxy;
use ZkServer;
use ZkTest;

# The client gives a server that does not answer two thirds of this.
use constant TIMEOUT => 8;

my $zk = ZkServer->new->start;
my @proxies = map { ZkProxy->new($zk->hosts) } (1 .. 4);
my %patience = (
	'zklock.session_timeout' => TIMEOUT . 's',
	'zklock.connect_timeout' => '1min');
my $node = new_node('main', $zk->hosts);

# Cuts all connections and waits until so many have been made again, through
# these proxies only.
sub reconnect
{
	my ($number, @through) = @_;

	$_->refuse for @proxies;
	$_->cut for @proxies;
	$_->mark for @proxies;
	$_->accept for @through;
	wait_until(
		"$number sessions are connected again",
		sub {
			# On a busy machine one may lose its connection again meanwhile.
			my %connected =
			  map { $_->{session} => 1 }
			  grep { $_->{dir} eq 's2c' && $_->{op} eq 'connect' }
			  map { $_->trace } @through;

			die "a session has expired\n" if $connected{'0x0'};
			return keys %connected == $number;
		},
		3 * TIMEOUT);
	return;
}

# From each server to each other and back, when only the one is there.

for my $size (1 .. @proxies)
{
	my @members = @proxies[ 0 .. $size - 1 ];
	my @tour = map {
		my $from = $members[$_];
		((map { ($from, $_) } @members[ $_ .. $#members ]), $from)
	} (0 .. $#members);

	my ($its_node, %settings) = with_settings($node, %patience,
		'zklock.hosts' => join(',', map { $_->hosts } @members));
	my $line = ZkLine->new($zk, "/servers/$size", [$its_node], %settings);
	$line->form;
	reconnect(server_mode() ? 1 : 4, $_) for @tour;
	$line->kept_ok("$size servers");
	$line->finish_ok;
	$line->close;
	$its_node->stop if $its_node != $node;
}

# Some that never answer, or are not there at all. The connection may be lost
# again as soon as it is back.

my $silent = IO::Socket::INET->new(
	LocalAddr => '127.0.0.1',
	Listen => 128,
	Proto => 'tcp') or die "cannot listen: $@";
my @dead = map { '127.0.0.1:' . ZkServer::free_port() } (1 .. 3);
my ($live, $other) = map { $_->hosts } @proxies;
my $mute = '127.0.0.1:' . $silent->sockport;
my @lists = (
	[ $live, $dead[0] ],
	[ $dead[0], $live ],
	[ $live, $mute ],
	[ $mute, $live ],
	[ $mute, $live, $dead[0] ],
	[ $live, $mute, $dead[0], $dead[1] ],
	[ $mute, @dead, $live ],
	[ $live, $other, $mute, $dead[0] ],
	[ $mute, $dead[0], $other, $live ]);
my @holders = map {
	ZkTest->new(
		with_settings($node, %patience, 'zklock.hosts' => join(',', @$_)))
} @lists;

$_->accept for @proxies;
$holders[$_]->start("SELECT zk_lock_acquire('/list/$_')") for 0 .. $#lists;
$_->result for @holders;
my @owners = map { $zk->owners("/list/$_") } 0 .. $#lists;
for (1 .. 2)
{
	# A client that idles is silent for a third of the timeout. With two thirds
	# for a server that does not answer, nothing would be left for a busy machine.
	$_->query(
		q(SELECT zk_lock_acquire(path) AND zk_lock_release(path)
		  FROM (SELECT '/heard/' || pg_backend_pid()) AS own (path)))
	  for @holders;
	reconnect(scalar(@lists), @proxies);
}
for (0 .. $#lists)
{
	my $list = join(', ',
		map { $_ eq $mute ? 'silent' : /^($live|$other)$/ ? 'live' : 'dead' }
		  @{ $lists[$_] });

	is_deeply($zk->owners("/list/$_"), $owners[$_],
		"the lock is kept with servers $list");
}

done_testing();
