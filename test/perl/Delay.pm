# A relay to a port of this machine that delays all bytes, in each direction.
#
#	my $delay = Delay->new($dir, $port, 1000);	# microseconds
#	# clients connect to $delay->hosts
#
# $dir has the source, delay.c, and gets the program. The relay ends with this one.

package Delay;

use strict;
use warnings;

use Child;
use Wait;

my $relays = 0;

sub new
{
	my ($class, $dir, $port, $us) = @_;
	my $program = "$dir/delay";

	Child->run("$dir/cc.log", $Wait::timeout, 'cc', '-O2', '-o', $program, "$program.c")
	  if !-x $program;
	my $child = Child->start("$program-${\ ++$relays}.log", $program, $port, $us);

	wait_until('the delay listens', sub { $child->check; $child->output =~ /\n/ });
	return bless { child => $child, port => $child->output =~ s/\n.*//sr }, $class;
}

sub port
{
	my ($self) = @_;

	return $self->{port};
}

# The connect string for clients of ZooKeeper
sub hosts
{
	my ($self) = @_;

	return "127.0.0.1:$self->{port}";
}

# How many bytes have passed so far, both ways
sub bytes
{
	my ($self) = @_;
	my $child = $self->{child};
	my $before = () = $child->output =~ /\n/g;
	my @lines;

	$child->say('count');
	wait_until('the delay answers',
		sub { (@lines = grep { /\n/ } split(/^/, $child->output)) > $before });
	my ($to, $from) = split(/ /, $lines[-1]);
	return $to + $from;
}

1;
