# Another program that acquires locks in ZooKeeper, written with one of the
# common client libraries: Curator, kazoo or go-zookeeper.
#
#	my $peer = Peer->curator($zk, $node);
#	my $actor = $peer->actor;
#	$actor->start('acquire mutex /a/b 500');
#	$actor->is_done, $actor->result;
#
# A peer is one process with one ZooKeeper session; its actors are threads. An
# actor receives orders, one per line:
#
#	acquire KIND PATH [MILLISECONDS]	answer: t, or f if the time passed
#	release KIND PATH					answer: t
#	contenders KIND PATH				answer: the data of their nodes, by rank
#	contend KIND PATH ROUNDS WORK		answer: t
#
# and, with Curator:
#
#	agree KIND PATH						answer: t; its locks are revocable now
#	revoke KIND PATH					answer: t; the first contender was asked
#	revocations KIND PATH				answer: the number of requests to the actor
#	count PATH							answer: the count as its listeners know it
#	set-count PATH NUMBER				answer: t
#
# Without a time, an acquire waits forever. "contend" repeats ROUNDS times:
# acquire, SELECT WORK(), SELECT WORK(with its result), and release.
# The kinds of locks depend on the peer. An answer can also be the text of an
# error.
#
# On the wire, a number and the actor's name come before the order and the number
# again before the answer.

package Peer;

use strict;
use warnings;

use Child;
use File::Basename;
use File::Spec;
use File::Temp;
use Once;
use Wait;

my $here = File::Spec->rel2abs(dirname(__FILE__));
my $main_pid = $$;
my @running;

sub curator
{
	my ($class, $zk, $node) = @_;

	# The manifest of the jar names all jars that it needs, except a logger.
	my $class_path =
	  join(':', map { "/usr/share/java/$_.jar" } qw(curator-recipes slf4j-simple));
	my @options =
	  qw(-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData);
	my $classes = made_once(
		'curator_peer',
		sub {
			my ($dir) = @_;

			Child->run("$dir.log", $Wait::timeout,
				'javac', map({ "-J$_" } @options),
				'-d', $dir, '-cp', $class_path, "$here/CuratorPeer.java");
		});

	return $class->_start(
		$zk, $node, _new_dir(), 'java', @options,
		'-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
		'-cp', "$classes:$class_path", 'CuratorPeer');
}

# The python3 that Debian's packages belong to
sub kazoo
{
	my ($class, $zk, $node) = @_;

	return $class->_start($zk, $node, _new_dir(), '/usr/bin/python3',
		"$here/kazoo_peer.py");
}

sub go
{
	my ($class, $zk, $node) = @_;
	my $program = made_once(
		'go_peer',
		sub {
			my ($path) = @_;

			local $ENV{GOPATH} = '/usr/share/gocode';
			local $ENV{GO111MODULE} = 'off';
			local $ENV{GOCACHE} = "$path.cache";
			Child->run("$path.log", $Wait::timeout,
				'go', 'build', '-o', $path, "$here/go_peer.go");
		});

	return $class->_start($zk, $node, _new_dir(), $program);
}

sub _new_dir
{
	return File::Temp->newdir('peer-XXXXXX', TMPDIR => 1);
}

sub _start
{
	my ($class, $zk, $node, $dir, @command) = @_;
	my $child = Child->start("$dir/log", @command, $zk->hosts,
		$node->connstr('postgres'));
	my $self = bless { dir => $dir, child => $child, actors => 0, orders => 0 },
	  $class;

	push(@running, $self);
	return $self;
}

# Starts a new actor.
sub actor
{
	my ($self) = @_;

	return bless { peer => $self, name => 'actor' . ++$self->{actors} },
	  'Peer::Actor';
}

# Show its output if the test fails.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;

		for my $child (map { $_->{child} } @running)
		{
			$child->stop('TERM');
			print STDERR $child->output =~ s/^/# $child->{name}: /gmr
			  if $status != 0 || !Test::More->builder->is_passing;
		}
		$? = $status;
	}
}

package Peer::Actor;

use Wait;

# Sends an order without a wait for the answer.
sub start
{
	my ($self, $order) = @_;

	$self->{order} = ++$self->{peer}{orders};
	$self->{peer}{child}->say("$self->{order} $self->{name} $order");
	return;
}

sub is_done
{
	my ($self) = @_;

	return defined $self->_answer;
}

# Waits for the answer.
sub result
{
	my ($self) = @_;

	wait_until("$self->{name} answers", sub { $self->is_done });
	return $self->_answer;
}

sub query
{
	my ($self, $order) = @_;

	$self->start($order);
	return $self->result;
}

sub _answer
{
	my ($self) = @_;
	my $child = $self->{peer}{child};

	$child->check;
	return $child->output =~ /^$self->{order} (.*)\n/m ? $1 : undef;
}

1;
