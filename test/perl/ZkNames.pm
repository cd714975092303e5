# Names in the system's resolver, for this program and those that it starts.
#
#	BEGIN { ZkNames::enter() }    # before anything is opened or started
#	ZkNames::set('zk-0' => '127.0.1.1', 'zk' => ['127.0.1.1', '127.0.1.2']);
#	ZkNames::hang();              # names that are not set: no answer
#	ZkNames::answer();            # names that are not set: unknown
#
# The files of the resolver are replaced, in a mount namespace. This program is also in a
# network of ZkNet, whose name server knows no name.

package ZkNames;

use strict;
use warnings;

use File::Temp;
use IO::Socket::INET;
use POSIX ();
use Sys::Hostname;
use ZkNet;

use constant SERVER => '127.0.0.53';

# How long the resolver waits for an answer, in seconds
use constant PATIENCE => 30;

# ZooKeeper's servers ask for the name of this machine.
my $always = "127.0.0.1 localhost ${\ hostname()}\n";

my $main_pid = $$;
my $dir;
my $server;    # pid of the name server

sub enter
{
	ZkNet::enter('--mount');

	$dir = File::Temp->newdir(TMPDIR => 1);
	_replace('hosts', $always);
	_replace('nsswitch.conf', "passwd: files\ngroup: files\nhosts: files dns\n");
	_replace('resolv.conf',
		"nameserver ${\ SERVER}\noptions timeout:${\ PATIENCE} attempts:1\n");
	_start_server();
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
	kill('STOP', $server);
	return;
}

# The name server has all questions that were asked meanwhile.
sub answer
{
	kill('CONT', $server);
	return;
}

# A process that answers each question: there is no such name.
sub _start_server
{
	my $socket = IO::Socket::INET->new(
		LocalAddr => SERVER,
		LocalPort => 53,
		Proto => 'udp') or die "cannot listen: $@";

	$server = fork() // die "fork: $!\n";
	return if $server;
	$SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
	while (defined(my $from = recv($socket, my $question, 512, 0)))
	{
		my ($id, $name) = unpack('n x10 (a*)', $question);
		my ($asked) = $name =~ /^((?:[^\0]*)\0.{4})/s or next;

		send($socket, pack('n6', $id, 0x8183, 1, 0, 0, 0) . $asked, 0, $from);
	}
	POSIX::_exit(0);
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

END
{
	if ($server && $$ == $main_pid)
	{
		my $status = $?;

		kill('KILL', $server);
		waitpid($server, 0);
		$? = $status;
	}
}

1;
