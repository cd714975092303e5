# A contestant that is a separate program: raw, also in a safe version and with
# one session for all clients, and programs written with Curator, kazoo and
# go-zookeeper. It reads orders, one per line, and answers each with a line.
#
#	run KIND CLIENTS SECONDS PATH PATHS		turns a second, microseconds of an acquire
#	first N PATH							microseconds
#	open CLIENTS							"open"
#	queue CLIENTS PATH						"done"
#	make PATH N								"made"
#
# In a run, clients acquire and release a lock in a loop: the one at PATH or,
# if PATHS is more than 1, any of PATH/0, PATH/1, ... Each client has a session
# of its own, and is connected before the run begins. Kinds are mutex,
# read-mostly (one in twenty writes), readers (none writes) and semaphore (of 4); and
# free-tries; and tries, and polls every 20 ms, of a lock that another client holds.
# "first" measures the first lock of a client that is not connected yet, as the
# mean of N. "open" connects. The clients of "queue" share one session, and take one turn each.
# "make" creates persistent nodes.

package Program;

use strict;
use warnings;

use Child;
use Wait;

my $java = '/usr/share/java';
my $started = 0;

# The kinds of each program, and how it is started in directory $dir, which has
# its source.
my %program = (
	raw => {
		kinds => [qw(mutex)],
		command => \&_compile_raw,
	},

	# One client alone is the same as raw.
	'raw safe' => {
		kinds => [qw(crowd)],
		command => \&_compile_raw,
		arguments => ['safe'],
	},
	'raw shared' => {
		kinds => [qw(lanes)],
		command => \&_compile_raw,
		arguments => [1],
	},
	Curator => {
		kinds => [qw(mutex read-mostly readers semaphore free-tries tries polls)],

		# The manifest of the jar names all jars that it needs, except a
		# logger.
		command => sub {
			(
				'java', '-Xmx512m', '-Xss256k', '-XX:-UsePerfData',
				'-Dorg.slf4j.simpleLogger.defaultLogLevel=error',
				'-cp', "$java/curator-recipes.jar:$java/slf4j-simple.jar",
				"$_[0]/CuratorBench.java");
		},
	},

	# The python3 that Debian's packages belong to. The read lock in Debian's
	# 2.8 also waits for writers behind it: all would wait forever.
	kazoo => {
		kinds => [qw(mutex semaphore free-tries tries polls)],
		command => sub { ('/usr/bin/python3', "$_[0]/kazoo_bench.py") },
	},
	'go-zookeeper' => {
		kinds => [qw(mutex)],
		command => \&_build_go,
	});

# @arguments replace those of %program.
sub new
{
	my ($class, $name, $dir, $hosts, @arguments) = @_;
	my $self = bless {
		name => $name,
		answers => 0,
		child => Child->start(
			"$dir/$name-" . ++$started . '.log',
			$program{$name}{command}->($dir),
			$hosts, @arguments ? @arguments : @{ $program{$name}{arguments} // [] }),
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

# Sends an order without a wait for the answer.
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

sub _compile_raw
{
	my ($dir) = @_;

	Child->run("$dir/cc.log", $Wait::timeout, 'cc', '-O2', '-DTHREADED', '-o', "$dir/raw", "$dir/raw.c",
		'-lzookeeper_mt', '-lpthread')
	  if !-x "$dir/raw";
	return "$dir/raw";
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

# Returns the contents of a file; nothing if it does not exist any more.
sub slurp
{
	my ($file) = @_;

	CORE::open(my $fh, '<', $file) or return '';
	local $/;
	return <$fh> // '';
}

1;
