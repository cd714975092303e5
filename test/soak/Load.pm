# The clients. Each calls trade() in a loop on its server, whatever errors it gets; when its
# connection is lost it connects again. It is a psql; or a process with Client.pm, which also
# looks for the nodes of its locks before each commit, and thinks on demand.

package Load;

use strict;
use warnings;

use Child;
use Client;
use Wait;

# Starts $clients clients with each of the connection strings, whose names begin the
# clients' own. $dir gets their log, which also has the result of each call that
# committed; %settings are for the clients' sessions.
sub start
{
	my ($class, $bindir, $dir, $connections, $clients, %settings) = @_;

	return $class->_start_calling($bindir, $dir, 'clients', Client::CALL, $connections, $clients,
		%settings);
}

# Starts as many that call look() instead, on servers with a copy of the table.
sub start_reading
{
	my ($class, $bindir, $dir, $connections, $clients, %settings) = @_;

	return $class->_start_calling($bindir, $dir, 'readers', Client::READ, $connections, $clients,
		%settings);
}

sub _start_calling
{
	my ($class, $bindir, $dir, $log, $call, $connections, $clients, %settings) = @_;
	my $options = _options(%settings);
	my $file = "$dir/$log.sql";

	open(my $fh, '>', $file) or die "$file: $!\n";
	print $fh ("$call\n") x Client::CALLS;
	close($fh) or die "$file: $!\n";
	return $class->_start(
		"$dir/$log.log", $clients, $connections,
		sub {
			my ($name, $connection) = @_;

			return (
				"$bindir/psql",
				'-XqAt',
				'-v',
				'VERBOSITY=sqlstate',
				'-f',
				$file,
				"$connection application_name=$name options='$options'");
		});
}

# Starts clients that look in ZooKeeper, whose connect string is $hosts. $sockets are the
# directories of the servers' sockets by their names. %settings has at least one.
sub start_looking
{
	my ($class, $dir, $sockets, $clients, $hosts, %settings) = @_;

	return $class->_start("$dir/clients.log", $clients, $sockets,
		sub { (\&Client::run, @_, $hosts, _options(%settings)) });
}

sub _options
{
	my (%settings) = @_;

	return join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
}

# $command returns the command of a client, from its name and from what $servers has for its
# server.
sub _start
{
	my ($class, $log, $clients, $servers, $command) = @_;
	my $self = bless { command => {}, child => {}, log => $log }, $class;

	unlink($self->{log});
	for my $server (keys %$servers)
	{
		$self->{command}{"$server$_"} = [ $command->("$server$_", $servers->{$server}) ]
		  for 1 .. $clients;
	}
	$self->tend;
	return $self;
}

sub clients
{
	my ($self) = @_;

	return sort keys %{ $self->{command} };
}

# Restarts clients that have ended. Must be called often.
sub tend
{
	my ($self) = @_;

	for my $name ($self->clients)
	{
		my $child = $self->{child}{$name};

		$self->{child}{$name} =
		  Child->start($self->{log}, @{ $self->{command}{$name} })
		  if !$child || !$child->is_running;
	}
	return;
}

# The next transaction of a client that looks will wait, with its locks, until it is told to
# commit. Its backend is then idle, and its last statement is Client::THINK.
sub think
{
	my ($self, $name) = @_;

	$self->{child}{$name}->say('think');
	return;
}

# It takes one more lock, of its own.
sub lock
{
	my ($self, $name) = @_;

	$self->{child}{$name}->say('lock');
	return;
}

# It looks for its nodes, and commits. Returns after it has sent that.
sub commit
{
	my ($self, $name) = @_;
	my $seen = -s $self->{log};

	$self->{child}{$name}->say('commit');
	wait_until("$name commits", sub { grep { $_ eq "$name commits" } $self->_lines($seen) });
	return;
}

# Returns the lines of the log from a byte of it on.
sub _lines
{
	my ($self, $from) = @_;

	open(my $fh, '<', $self->{log}) or die "$self->{log}: $!\n";
	seek($fh, $from // 0, 0) or die "$self->{log}: $!\n";
	chomp(my @lines = <$fh>);
	return @lines;
}

# Cancels the statements of the clients, and ends the clients.
sub stop
{
	my ($self) = @_;

	$_->stop('INT') for values %{ $self->{child} };
	return;
}

# Returns the results of the calls that committed, as far as the clients know.
sub results
{
	my ($self) = @_;

	return grep { /^\d+ \d+$/ } $self->_lines;
}

# Returns what was read in transactions that committed, as hashes with client, path, token, number
# and amount.
sub reads
{
	my ($self) = @_;
	my @reads;

	for (map { /^read (.*)/ } $self->_lines)
	{
		my %read;

		@read{qw(client path token number amount)} = split(/ /);
		push @reads, \%read;
	}
	return @reads;
}

# Returns the number of errors so far by SQLSTATE; 'no connection' is counted,
# too.
sub errors
{
	my ($self) = @_;
	my %count;

	for ($self->_lines)
	{
		$count{$1}++ if /^(?:psql:.*|\w+) (?:ERROR|FATAL):  (\w{5})$/;
		$count{'no connection'}++ if /^psql: error: connection to server|^\w+ no connection$/;
	}
	return \%count;
}

# Returns what was seen before commits: how often by what it was, and each node that was gone,
# as a hash with client, at, path, node, token and number.
sub looks
{
	my ($self) = @_;
	my (%count, @gone);

	for ($self->_lines)
	{
		$count{$1}++ if /^\w+ look: (\w+)/;
		next if !/^(\w+) gone: (.*)/;
		my %look = (client => $1);

		@look{qw(at path node token number)} = split(/ /, $2);
		push @gone, \%look;
	}
	return (\%count, @gone);
}

1;
