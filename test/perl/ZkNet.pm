# A network namespace of the test, in which packets can be lost.
#
#	BEGIN { ZkNet::enter() }    # before anything is opened or started
#	ZkNet::cut('127.0.0.2', qw(to from));
#	ZkNet::heal('127.0.0.2', qw(to from));
#
# This network consists of this machine, at all addresses that begin with 127.
# A server that listens at all of them can be cut off from some of its clients.

package ZkNet;

use strict;
use warnings;

use FindBin;
use IO::Handle;
use IPC::Run;
use POSIX ();
use Socket;
use Test::More;

# As the same user, because PostgreSQL does not run as root. Root may step down later, and
# leaves a process behind that can still change the rules.
my @unshare =
  $> == 0
  ? qw(unshare --net)
  : qw(unshare --user --map-current-user --keep-caps --net);
my $helper;

# Called with the reason if there can be no such network
our $give_up = sub { plan(skip_all => $_[0]) };

my $rules = q(
	add table ip net
	add set ip net to { type ipv4_addr; }
	add set ip net from { type ipv4_addr; }
	add chain ip net input { type filter hook input priority 0; }
	add rule ip net input ip daddr @to drop
	add rule ip net input ip saddr @from drop
);

# Runs this program anew in such a network; more options of unshare may follow. If none
# can be created, as in many containers, it calls $give_up, which skips all tests.
sub enter
{
	my @command = (@unshare, @_);

	local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin";

	if (!$ENV{ZKNET})
	{
		local $ENV{ZKNET} = 1;
		_try(@command, 'true');
		exec(@command, $^X, map({ "-I$_" } @INC), "$FindBin::RealBin/$FindBin::RealScript")
		  or die "unshare: $!\n";
	}
	_try(qw(ip link set lo up));
	_try('nft', $rules);
	_leave_helper() if $> == 0;
	return;
}

# Drops all packets to, or from, an address.
sub cut
{
	my ($address, @directions) = @_;

	_nft("add element ip net $_ { $address }") for @directions;
	return;
}

# Stops dropping them.
sub heal
{
	my ($address, @directions) = @_;

	_nft("delete element ip net $_ { $address }") for @directions;
	return;
}

sub _nft
{
	my ($command) = @_;

	local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin";
	my $ok;

	if ($helper)
	{
		print $helper "$command\n";
		$ok = (<$helper> // '') eq "ok\n";
	}
	else
	{
		$ok = system('nft', $command) == 0;
	}
	die "nft $command failed\n" if !$ok;
	return;
}

# Starts a process that has the rights to change the rules. It ends with this one.
sub _leave_helper
{
	socketpair($helper, my $helped, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!\n";
	$_->autoflush(1) for $helper, $helped;

	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0)
	{
		close($helper);
		undef $helper;
		local @SIG{qw(INT TERM HUP)} = ('IGNORE') x 3;
		while (my $command = <$helped>)
		{
			chomp($command);
			print $helped eval { _nft($command); 1 } ? "ok\n" : "failed\n";
		}
		POSIX::_exit(0);
	}
	close($helped);
	return;
}

sub _try
{
	my (@command) = @_;
	my $output = '';

	return if eval { IPC::Run::run(\@command, '>&', \$output) };
	$output = "$@$output" =~ s/\n.*//sr;
	$give_up->("no network namespace: $output");
	return;
}

1;
