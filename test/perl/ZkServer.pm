# A temporary ZooKeeper server, on a free port of this machine and with its
# data in a temporary directory. While it is stopped, it can move to another
# address. It is stopped at the end of the program that started it.

package ZkServer;

use strict;
use warnings;

use Child;
use File::Temp;
use IO::Socket::INET;
use POSIX qw(SIGTERM WUNTRACED);
use Time::HiRes qw(time);
use Wait;
use ZkClient;
use ZkWire;

# The manifest of Debian's jar names all jars that it needs, except a logger.
our $class_path = $ENV{ZOOKEEPER_CLASSPATH}
  || join(':', map { "/usr/share/java/$_.jar" } qw(zookeeper slf4j-simple));

# The type of a transaction
use constant CLOSE_SESSION => -11;

my $main_pid = $$;
my %running;    # by address and port
my @given;      # sockets that keep the ports that free_port() has returned

# Makes signals run the END block below.
$SIG{$_} ||= sub { exit(1) }
  for qw(INT TERM HUP);

# Options: tick_time (ms; the timeout of sessions is a multiple of it, and at
# least twice as long), container_check (ms between checks for empty
# containers; by default none is removed during a test), config (more lines for
# zoo.cfg, in a hash), java (options for the JVM, instead of those that save
# processor time), id (the number of a member of an ensemble), address
# (127.0.0.1) and port.
sub new
{
	my ($class, %opt) = @_;
	my $self = bless {
		dir => File::Temp->newdir('zookeeper-XXXXXX', TMPDIR => 1),
		address => $opt{address} // '127.0.0.1',
		port => $opt{port} // free_port(),
		tick_time => $opt{tick_time} // 500,
		container_check => $opt{container_check} // 3_600_000,
		config => $opt{config} // {},
		java_options => $opt{java} // [ _java_options() ],
	}, $class;

	if ($opt{id})
	{
		mkdir("$self->{dir}/data") or die "$self->{dir}: $!\n";
		$self->_write('data/myid', $opt{id});
	}
	return $self;
}

# Makes an archive of ZooKeeper's classes, with which the JVM starts faster. The
# environment variable ZKLOCK_CLASS_ARCHIVE names it for later servers.
sub archive_classes
{
	my ($class, $file) = @_;
	my $self = $class->new(java => ["-XX:ArchiveClassesAtExit=$file.new"])->start;

	# These load the classes that requests need.
	$self->create('/a');
	$self->children('/');
	$self->delete('/a');
	$self->stop;

	# The JVM may have been too slow, or it may be too old to make one.
	rename("$file.new", $file) if $self->{java}{status} == (128 + SIGTERM) << 8;
	return;
}

sub _java_options
{
	my $file = $ENV{ZKLOCK_CLASS_ARCHIVE} // '';

	# The thread that reads requests also decodes them: each request costs fewer
	# switches between threads.
	return (
		-e $file ? "-XX:SharedArchiveFile=$file" : (),
		'-Dzookeeper.nio.numWorkerThreads=0');
}

# In ms
sub tick_time
{
	my ($self) = @_;

	return $self->{tick_time};
}

sub port
{
	my ($self) = @_;

	return $self->{port};
}

# The connect string
sub hosts
{
	my ($self) = @_;

	return "$self->{address}:$self->{port}";
}

sub address
{
	my ($self) = @_;

	return $self->{address};
}

# Its address from the next start on
sub move
{
	my ($self, $address) = @_;

	$self->{address} = $address;
	return $self;
}

# The contents of zoo.cfg
sub config
{
	my ($self) = @_;

	return (
		tickTime => $self->{tick_time},
		minSessionTimeout => 2 * $self->{tick_time},
		maxSessionTimeout => 3_600_000,
		dataDir => "$self->{dir}/data",
		clientPort => $self->{port},
		clientPortAddress => $self->{address},
		maxClientCnxns => 0,
		'admin.enableServer' => 'false',
		'4lw.commands.whitelist' => '*',
		%{ $self->{config} });
}

# Starts it, with existing data if there is any, and waits until it serves.
sub start
{
	my ($self) = @_;

	return $self->launch->wait_until_serving;
}

# Starts it without waiting: a member of an ensemble does not serve alone. @options are
# for the JVM, this time only.
sub launch
{
	my ($self, @options) = @_;
	my %config = $self->config;

	$self->_write('zoo.cfg', map { "$_=$config{$_}\n" } sort keys %config);

	$self->{begin_of_log} = -s "$self->{dir}/log" // 0;

	# Options for a small process that starts quickly. The data need not
	# survive the machine, so nothing is forced to disk.
	$self->{java} = Child->start(
		"$self->{dir}/log",
		'java',
		'-Xmx128m',
		'-XX:+UseSerialGC',
		'-XX:TieredStopAtLevel=1',
		'-XX:CompileThresholdScaling=4',
		'-XX:-UsePerfData',
		@{ $self->{java_options} },
		@options,
		'-Dorg.slf4j.simpleLogger.defaultLogLevel=error',
		'-Dorg.slf4j.simpleLogger.showDateTime=true',
		# The server logs early requests, such as those below, as errors.
		'-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.ServerCnxn=off',
		'-Dzookeeper.forceSync=no',
		'-Dzookeeper.preAllocSize=64',
		"-Dznode.container.checkIntervalMs=$self->{container_check}",
		'-cp',
		$class_path,
		'org.apache.zookeeper.server.quorum.QuorumPeerMain',
		"$self->{dir}/zoo.cfg");
	$running{ $self->hosts } = $self;
	return $self;
}

sub wait_until_serving
{
	my ($self) = @_;

	# A server that is about to serve may accept a request and never answer it:
	# the request is repeated, with pauses that grow on slow machines.
	my $begin = time();
	wait_until(
		'ZooKeeper serves',
		sub {
			die "ZooKeeper did not start\n", $self->{java}->output
			  if !$self->{java}->is_running;

			my $patience = 0.1 + (time() - $begin) / 10;
			return $self->mode($patience);
		});
	return $self;
}

sub stop
{
	my ($self) = @_;

	$self->resume;
	$self->_end('TERM');
	return;
}

# A crash
sub kill9
{
	my ($self) = @_;

	$self->_end('KILL');
	return;
}

sub restart
{
	my ($self) = @_;

	$self->stop;
	return $self->start;
}

# Suspends the server; its connections stay open.
sub pause
{
	my ($self) = @_;
	my $pid = $self->{java}{pid};

	# Not all threads stop at once.
	kill('STOP', $pid);
	1 while waitpid($pid, WUNTRACED) < 0 && $!{EINTR};
	$self->{paused} = 1;
	return;
}

sub resume
{
	my ($self) = @_;

	kill('CONT', $self->{java}{pid}) if $self->{java}{pid};
	$self->{paused} = 0;
	return;
}

# Is it neither stopped nor suspended?
sub is_up
{
	my ($self) = @_;

	return $running{ $self->hosts } && !$self->{paused};
}

# Returns its mode: 'standalone', 'leader' or 'follower', or '' if it does not
# serve.
sub mode
{
	my ($self, $seconds) = @_;

	return $self->four_letter('srvr', $seconds) =~ /^Mode: (\w+)/m ? $1 : '';
}

# Returns its answer to 'ruok', 'wchc' and the like; '' if there is none in
# time.
sub four_letter
{
	my ($self, $word, $seconds) = @_;
	my $deadline = time() + ($seconds // 10);
	my $answer = '';
	my $socket = IO::Socket::INET->new(PeerAddr => $self->hosts) or return '';

	$socket->syswrite($word);
	eval { 1 while read_more($socket, \$answer, $deadline); 1 } or return '';
	return $answer;
}

# Returns what it has logged since it was last started.
sub logged
{
	my ($self) = @_;

	return substr($self->{java}->output, $self->{begin_of_log});
}

# Returns the numbers of the last transactions in its snapshots, in ascending order.
sub snapshots
{
	my ($self) = @_;

	no warnings 'portable';
	my @zxids = sort { $a <=> $b }
	  map { /\.([0-9a-f]+)$/ ? hex($1) : () } glob("$self->{dir}/data/version-2/snapshot.*");

	return @zxids;
}

# Returns the sessions whose end is in its log of transactions, by their ids in the format
# of zk_session(): zxid, the number of the transaction; bytes, its length; and nodes, the
# number of nodes that it deletes.
sub ended_sessions
{
	my ($self) = @_;
	my %ended;

	for my $file (glob("$self->{dir}/data/version-2/log.*"))
	{
		my $read = $self->{read}{$file} //= { at => '' };
		my $at = join(' ', (Time::HiRes::stat($file))[ 7, 9 ]);

		# A file that has changed is read anew: it may have been truncated.
		$read = $self->{read}{$file} = { at => $at, ended => _read_log($file) }
		  if $read->{at} ne $at;
		%ended = (%ended, %{ $read->{ended} });
	}
	return \%ended;
}

# Reads a file of the log. It begins with 16 bytes, and a record with a checksum and a
# length. A record ends with a B, unless it is still being written. Behind the last one are
# zeros, many megabytes of them, which are not read.
sub _read_log
{
	my ($file) = @_;
	my %ended;

	open(my $fh, '<:raw', $file) or die "$file: $!\n";
	seek($fh, 16, 0);
	while (read($fh, my $head, 12) == 12)
	{
		my $bytes = unpack('x8 N', $head);

		last if !$bytes || read($fh, my $record, $bytes + 1) != $bytes + 1;
		last if substr($record, -1) ne 'B';
		my ($id, $cxid, $zxid, $time, $type, $nodes) =
		  unpack('q> l> q> q> l> N', $record . "\0" x 4);

		$ended{ sprintf('0x%x', $id) } =
		  { zxid => $zxid, bytes => $bytes, nodes => $nodes }
		  if $type == CLOSE_SESSION;
	}
	return \%ended;
}

# Returns the live sessions, in the format of zk_session().
sub sessions
{
	my ($self) = @_;

	return $self->four_letter('dump') =~ /^\t(0x\w+)$/mg;
}

# These read or change the tree from outside; see ZkClient for their results.
for my $verb (qw(children get exists create delete))
{
	no strict 'refs';
	*$verb = sub {
		my ($self, @args) = @_;
		my $client = ZkClient->new($self->hosts);
		my @result =
		  wantarray ? $client->$verb(@args) : scalar $client->$verb(@args);

		$client->close;
		return wantarray ? @result : $result[0];
	};
}

# Creates a node with its parents, as far as they are not there.
sub make_path
{
	my ($self, $path) = @_;
	my $client = ZkClient->new($self->hosts);
	my $made = '';

	for my $name (grep { length } split(/\//, $path))
	{
		$made .= "/$name";
		$client->create($made, '') if !$client->exists($made);
	}
	$client->close;
	return;
}

# Creates a node of another client in the queue of a lock, ahead of all later ones.
# Returns its path.
sub put_ahead
{
	my ($self, $path) = @_;

	$self->make_path($path);
	return $self->create("$path/_c_1-lock-", '', ZkClient::SEQUENCE);
}

# Returns the children of a node, each with its session, in the format of
# zk_session().
sub owners
{
	my ($self, $path) = @_;
	my $client = ZkClient->new($self->hosts);
	my %owners;

	for my $name ($client->children($path))
	{
		my $stat = $client->exists("$path/$name") or next;

		$owners{$name} = sprintf('0x%x', $stat->{ephemeralOwner});
	}
	$client->close;
	return \%owners;
}

sub _end
{
	my ($self, $signal) = @_;

	$self->{java}->stop($signal) if delete $running{ $self->hosts };
	$self->{paused} = 0;
	return;
}

# Creates a file in the server's directory.
sub _write
{
	my ($self, $file, @lines) = @_;

	open(my $fh, '>', "$self->{dir}/$file") or die "$file: $!\n";
	print $fh @lines;
	close($fh) or die "$file: $!\n";
	return;
}

# Returns a port without a listener, another one each time. It is outside the
# range that the kernel uses for outgoing connections, so no client gets it
# while the server is down. Concurrent tests do not get it either: each port is
# reserved until the end of its test by a UDP socket on the same port number.
sub free_port
{
	while (1)
	{
		my $port = 10_000 + int(rand(22_000));
		my $mark = IO::Socket::INET->new(
			LocalAddr => '127.0.0.1',
			LocalPort => $port,
			Proto => 'udp') or next;

		push @given, $mark;
		return $port
		  if IO::Socket::INET->new(
			LocalAddr => '127.0.0.1',
			LocalPort => $port,
			Listen => 1,
			ReuseAddr => 1);
	}
}

# Show the logs if the test fails.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;
		my $failed = $INC{'Test/More.pm'} && !Test::More->builder->is_passing;

		for my $server (values %running)
		{
			$server->kill9;
			print STDERR $server->{java}->output =~ s/^(?=.)/# ZooKeeper: /gmr
			  if $failed;
		}
		$? = $status;
	}
}

1;
