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

use IPC::Run;
use Test::More;

# As the same user, because PostgreSQL does not run as root.
my @unshare = qw(unshare --user --map-current-user --keep-caps --net);

my $rules = q(
	add table ip net
	add set ip net to { type ipv4_addr; }
	add set ip net from { type ipv4_addr; }
	add chain ip net input { type filter hook input priority 0; }
	add rule ip net input ip daddr @to drop
	add rule ip net input ip saddr @from drop
);

# Runs this program anew in such a network; more options of unshare may follow. If none
# can be created, as in many containers, all tests are skipped.
sub enter
{
	my @command = (@unshare, @_);

	local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin";

	if (!$ENV{ZKNET})
	{
		local $ENV{ZKNET} = 1;
		_try(@command, 'true');
		exec(@command, $^X, map({ "-I$_" } @INC), $0) or die "unshare: $!\n";
	}
	_try(qw(ip link set lo up));
	_try('nft', $rules);
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
	system('nft', $command) == 0 or die "nft $command failed\n";
	return;
}

sub _try
{
	my (@command) = @_;
	my $output = '';

	return if eval { IPC::Run::run(\@command, '>&', \$output) };
	$output = "$@$output" =~ s/\n.*//sr;
	plan(skip_all => "no network namespace: $output");
}

1;
