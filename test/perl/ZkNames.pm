# Names in the system's resolver, for this program and those that it starts.
#
#	BEGIN { ZkNames::enter() }    # before anything is opened or started
#	ZkNames::set('zk-0' => '127.0.1.1', 'zk' => ['127.0.1.1', '127.0.1.2']);
#	ZkNames::hang();              # names that are not set: no answer
#	ZkNames::answer();            # names that are not set: unknown
#
# The files of the resolver are replaced, in a mount namespace. This program is also in a
# network of ZkNet, which has no name server but the one that does not answer.

package ZkNames;

use strict;
use warnings;

use File::Temp;
use IO::Handle;
use IO::Socket::INET;
use Sys::Hostname;
use ZkNet;

use constant SILENT => '127.0.0.53';

# How long the resolver waits for an answer, in seconds: once, for each of two families
use constant PATIENCE => 60;

# ZooKeeper's servers ask for the name of this machine.
my $always = "127.0.0.1 localhost ${\ hostname()}\n";

my $dir;
my $silent;

sub enter
{
	ZkNet::enter('--mount');

	$dir = File::Temp->newdir(TMPDIR => 1);
	_replace('hosts', $always);
	_replace('nsswitch.conf', "passwd: files\ngroup: files\nhosts: files dns\n");
	_replace('resolv.conf',
		"nameserver ${\ SILENT}\noptions timeout:${\ PATIENCE} attempts:1\n");
	return;
}

# These names have these addresses, and no others are known.
sub set
{
	my (%names) = @_;
	my $text = $always;

	for my $name (sort keys %names)
	{
		$text .= "$_ $name\n" for map { ref ? @$_ : $_ } $names{$name};
	}

	# One write: a reader sees the old file or the new one.
	open(my $fh, '+<', "$dir/hosts") or die "hosts: $!\n";
	syswrite($fh, $text . "\n" x (4096 - length($text))) or die "hosts: $!\n";
	return;
}

sub hang
{
	$silent ||= IO::Socket::INET->new(
		LocalAddr => SILENT,
		LocalPort => 53,
		Proto => 'udp') or die "cannot listen: $@";
	return;
}

# A question that was asked before waits nevertheless.
sub answer
{
	undef $silent;
	return;
}

sub _replace
{
	my ($file, $text) = @_;

	open(my $fh, '>', "$dir/$file") or die "$file: $!\n";
	print $fh $text;
	close($fh);
	chmod(0644, "$dir/$file");
	system('mount', '--bind', "$dir/$file", "/etc/$file") == 0
	  or die "/etc/$file cannot be replaced\n";
	return;
}

1;
