# A contestant that is a program of its own: raw, also as it must be lest those who
# give up break it and with one session for all, and those written with Curator, kazoo
# and go-zookeeper. It reads orders, a line each, and answers with a line.
#
#	run KIND CLIENTS SECONDS PATH PATHS		turns a second, microseconds of an acquire
#	first N PATH							microseconds
#	open CLIENTS							"open"
#	queue CLIENTS PATH						"done"
#	make PATH N								"made"
#
# In a run so many clients take a lock and give it back, over and over: the one at
# PATH, or if there are more PATHS any of PATH/0, PATH/1, ... A client is a session
# of its own, and connected before the run begins. Kinds are mutex, read-mostly (one
# in twenty writes) and semaphore (of 4). "first" is the first lock of a client that
# has yet to connect, the mean of N. To open is to connect. Those who queue do so in
# one session, and take one turn each. What is made are the nodes, to stay.

package Program;

use strict;
use warnings;

use Child;
use Wait;

my $java = '/usr/share/java';
my $started = 0;

# What each can do, and how it is started in directory $dir, where its source is.
my %program = (
	raw => {
		kinds => [qw(mutex)],
		command => \&_compile_raw,
	},

	# Alone it is the same.
	'raw safe' => {
		kinds => [qw(crowd)],
		command => \&_compile_raw,
		arguments => ['safe'],
	},
	'raw shared' => {
		kinds => [qw(lanes)],
		command => \&_compile_raw,
		arguments => ['shared'],
	},
	Curator => {
		kinds => [qw(mutex read-mostly semaphore)],

		# The jar names in its manifest all that it needs, but for something to log
		# with.
		command => sub {
			(
				'java', '-Xmx512m', '-Xss256k', '-XX:-UsePerfData',
				'-Dorg.slf4j.simpleLogger.defaultLogLevel=error',
				'-cp', "$java/curator-recipes.jar:$java/slf4j-simple.jar",
				"$_[0]/CuratorBench.java");
		},
	},

	# Not any python3, but the one that Debian's packages are for. Its readers, in
	# Debian's 2.8, also wait for writers behind them: all wait for ever.
	kazoo => {
		kinds => [qw(mutex semaphore)],
		command => sub { ('/usr/bin/python3', "$_[0]/kazoo_bench.py") },
	},
	'go-zookeeper' => {
		kinds => [qw(mutex)],
		command => \&_build_go,
	});

sub new
{
	my ($class, $name, $dir, $hosts) = @_;
	my $self = bless {
		name => $name,
		answers => 0,
		child => Child->start(
			"$dir/$name-" . ++$started . '.log',
			$program{$name}{command}->($dir),
			$hosts, @{ $program{$name}{arguments} // [] }),
	}, $class;

	return $self;
}

sub name
{
	my ($self) = @_;

	return $self->{name};
}

sub knows
{
	my ($self, $kind) = @_;

	return grep { $_ eq $kind } @{ $program{ $self->{name} }{kinds} };
}

# Gives an order without waiting for the answer.
sub start
{
	my ($self, @words) = @_;

	$self->{child}->say("@words");
	$self->{answers}++;
	return;
}

sub result
{
	my ($self) = @_;
	my $answer;

	wait_until(
		"$self->{name} answers",
		sub {
			$self->{child}->check;
			return 1
			  if $answer =
			  (grep { /\n/ } split(/^/, $self->{child}->output))
			  [ $self->{answers} - 1 ];
		});
	chomp $answer;
	die "$self->{name}: $answer\n" if $answer =~ /error/i;
	return $answer;
}

sub ask
{
	my ($self, @words) = @_;

	$self->start(@words);
	return $self->result;
}

# Turns a second, and microseconds of an acquire
sub run
{
	my ($self, @words) = @_;

	return split(/ /, $self->ask('run', @words));
}

sub first
{
	my ($self, @words) = @_;

	return $self->ask('first', @words);
}

sub open
{
	my ($self, $clients) = @_;

	$self->ask('open', $clients);
	return;
}

# All its processes
sub pids
{
	my ($self) = @_;
	my $pid = $self->{child}{pid};

	return ($pid, map { split(/ /) } slurp("/proc/$pid/task/$pid/children"));
}

sub stop
{
	my ($self) = @_;

	$self->{child}->finish($Wait::timeout);
	return;
}

# Compiles a program of one file, unless that was done before; returns where it is.
sub compile
{
	my ($dir, $name, @libraries) = @_;

	Child->run("$dir/cc.log", $Wait::timeout, 'cc', '-O2', '-DTHREADED', '-o',
		"$dir/$name", "$dir/$name.c", @libraries)
	  if !-x "$dir/$name";
	return "$dir/$name";
}

sub _compile_raw
{
	my ($dir) = @_;

	return compile($dir, 'raw', '-lzookeeper_mt', '-lpthread');
}

sub _build_go
{
	my ($dir) = @_;

	local $ENV{GOPATH} = '/usr/share/gocode';
	local $ENV{GO111MODULE} = 'off';
	local $ENV{GOCACHE} = "$dir/go-cache";
	Child->run("$dir/go.log", $Wait::timeout,
		'go', 'build', '-o', "$dir/go_bench", "$dir/go_bench.go")
	  if !-x "$dir/go_bench";
	return "$dir/go_bench";
}

# What is in a file; nothing if it has gone
sub slurp
{
	my ($file) = @_;

	CORE::open(my $fh, '<', $file) or return '';
	local $/;
	return <$fh> // '';
}

1;
