# A temporary PostgreSQL server.
#
# It has its own directory, and listens only on a Unix socket there: users who
# may enter the directory are trusted, and others cannot connect.

package PgServer;

use strict;
use warnings;

use Child;
use Wait;

# Part of the socket's name, if %conf has no other; no TCP port is taken.
use constant PORT => 5432;

# Makes a server in $dir, which must exist and be private. %conf are settings
# for its postgresql.conf.
sub new
{
	my ($class, $bindir, $dir, %conf) = @_;

	Child->run(
		"$dir/initdb.log", $Wait::timeout,
		"$bindir/initdb", '-D', "$dir/data", '-U', 'postgres',
		'-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync');

	%conf = (
		fsync => 'off',
		listen_addresses => '',
		port => PORT,
		unix_socket_directories => $dir,
		%conf,
		$class->test_settings(%conf));
	open(my $fh, '>>', "$dir/data/postgresql.conf") or die "$dir: $!\n";
	print $fh "$_ = '$conf{$_}'\n" for sort keys %conf;
	close($fh) or die "$dir: $!\n";

	return bless { bindir => $bindir, dir => $dir, port => $conf{port} },
	  $class;
}

# Makes the directory as well, starts the server and creates the extension in it.
sub with_zklock
{
	my ($class, $bindir, $dir, $hosts, %conf) = @_;

	mkdir($dir) or die "$dir: $!\n";
	my $self = $class->new($bindir, $dir, 'zklock.hosts' => $hosts, %conf);
	$self->start;
	$self->psql('-c', 'CREATE EXTENSION zklock');
	return $self;
}

sub start
{
	my ($self) = @_;

	$self->{postmaster} = Child->start("$self->{dir}/server.log",
		"$self->{bindir}/postgres", '-D', "$self->{dir}/data");
	wait_until('PostgreSQL is ready',
		sub { $self->{postmaster}->check; $self->_is_ready });
	return;
}

# Makes and starts a standby of this server, with its settings, in $dir.
sub standby
{
	my ($self, $dir) = @_;
	my $standby = bless { bindir => $self->{bindir}, dir => $dir, port => $self->{port} },
	  ref $self;

	mkdir($dir) or die "$dir: $!\n";
	Child->run("$dir/pg_basebackup.log", $Wait::timeout,
		"$self->{bindir}/pg_basebackup", '-D', "$dir/data", '-d', $self->connstr('postgres'),
		'-R', '-c', 'fast', '--no-sync');
	open(my $fh, '>>', "$dir/data/postgresql.conf") or die "$dir: $!\n";
	print $fh "unix_socket_directories = '$dir'\n";
	close($fh) or die "$dir: $!\n";
	$standby->start;
	return $standby;
}

sub stop
{
	my ($self) = @_;

	# SIGQUIT is the immediate shutdown: the data is not needed any more.
	$self->{postmaster}->stop('QUIT') if $self->{postmaster};
	return;
}

# Stops the server with this signal, SIGINT or SIGQUIT, and starts it again.
sub restart
{
	my ($self, $signal) = @_;

	$self->{postmaster}->stop($signal);
	$self->start;
	return;
}

sub accepts_connections
{
	my ($self) = @_;

	return system("$self->{bindir}/pg_isready", '-q', '-d', conninfo($self->{dir}, $self->{port})) == 0;
}

# The following are those of PostgreSQL::Test::Cluster.
sub host
{
	my ($self) = @_;

	return $self->{dir};
}

sub port
{
	my ($self) = @_;

	return $self->{port};
}

sub connstr
{
	my ($self, $database) = @_;

	return "host=$self->{dir} port=$self->{port} user=postgres dbname=$database";
}

# Returns the connection string for the server in $dir.
sub conninfo
{
	my ($dir, $port) = @_;

	$port //= PORT;
	return "host=$dir port=$port user=postgres dbname=postgres";
}

# Returns the socket of the server in $dir.
sub socket_path
{
	my ($dir, $port) = @_;

	return "$dir/.s.PGSQL." . ($port // PORT);
}

# Runs psql with the given arguments and returns what it printed, unaligned and
# without headings.
sub psql
{
	my ($self, @args) = @_;

	return $self->psql_in('postgres', @args);
}

# The same in this database.
sub psql_in
{
	my ($self, $database, @args) = @_;

	open(my $fh, '-|', "$self->{bindir}/psql", '-XqAt', '-v',
		'ON_ERROR_STOP=1', $self->connstr($database), @args)
	  or die "psql: $!\n";
	my $out = do { local $/; <$fh> }
	  // '';
	close($fh) or die "psql failed: @args\n";
	chomp $out;
	return $out;
}

# Changes settings of the server, and waits until new sessions have them.
sub change
{
	my ($self, %settings) = @_;

	$self->psql(map { ('-c', "ALTER SYSTEM SET $_ = '$settings{$_}'") } sort keys %settings);
	$self->psql('-c', 'SELECT pg_reload_conf()');
	for my $name (sort keys %settings)
	{
		wait_until("$name is set", sub { $self->psql('-c', "SHOW $name") eq $settings{$name} });
	}
	return;
}

# Returns the number of lines of the server's log that match.
sub count_logged
{
	my ($self, $pattern) = @_;
	my $n = 0;

	open(my $fh, '<', "$self->{dir}/server.log") or die "$self->{dir}/server.log: $!\n";
	while (my $line = <$fh>)
	{
		$n++ if $line =~ $pattern;
	}
	return $n;
}

# Returns settings that %conf lacks. ZooKeeper gets time for its answers, because the
# machine may be busy. Every test can run in each mode: with ZKLOCK_SESSION=server the
# backends of a server share one session; with ZKLOCK_SESSION=gate they also hand locks
# over in shared memory. Tests of a particular mode set it in %conf.
sub test_settings
{
	my ($class, %conf) = @_;
	my $mode = $conf{'zklock.session_mode'} // $ENV{ZKLOCK_SESSION} || 'backend';
	my $preload = $conf{shared_preload_libraries} // '';
	my %settings = (
		'zklock.try_timeout' => $conf{'zklock.try_timeout'} // '10s',
		'zklock.answer_positions' => $conf{'zklock.answer_positions'} // 'off');

	return %settings if $mode eq 'backend';
	$settings{'zklock.session_mode'} = 'server';
	$settings{shared_preload_libraries} =
	  join(',', grep { length } $preload, $preload =~ /\bzklock\b/ ? () : 'zklock');
	$settings{'zklock.handover_time'} = 0
	  if $mode eq 'server' && !exists $conf{'zklock.session_mode'};
	return %settings;
}

# The last line of postmaster.pid is the server's state.
sub _is_ready
{
	my ($self) = @_;

	open(my $fh, '<', "$self->{dir}/data/postmaster.pid") or return 0;
	return grep { /^ready\s*$/ } <$fh>;
}

1;
