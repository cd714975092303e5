# The clients. Each is a psql that calls trade() in a loop on its server,
# whatever errors it gets; when its connection is lost it connects again.

package Load;

use strict;
use warnings;

use Child;

use constant {
	CALL => 'SELECT trade();',
	CALLS => 500,    # in a row before a client disconnects and reconnects
};

# Starts $clients clients with each of the connection strings, whose names begin the
# clients' own. $dir gets their log, which also has the result of each call that
# committed; %settings are for the clients' sessions.
sub start
{
	my ($class, $bindir, $dir, $connections, $clients, %settings) = @_;
	my $options = join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
	my $self = bless { command => {}, child => {}, log => "$dir/clients.log" },
	  $class;

	unlink($self->{log});
	open(my $fh, '>', "$dir/calls.sql") or die "calls.sql: $!\n";
	print $fh (CALL . "\n") x CALLS;
	close($fh) or die "calls.sql: $!\n";
	for my $name (keys %$connections)
	{
		$self->{command}{"$name$_"} = [
			"$bindir/psql",
			'-XqAt',
			'-v',
			'VERBOSITY=sqlstate',
			'-f',
			"$dir/calls.sql",
			"$connections->{$name} application_name=$name$_ options='$options'"
		  ]
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

	open(my $fh, '<', $self->{log}) or die "$self->{log}: $!\n";
	chomp(my @results = grep { /^\d+ \d+$/ } <$fh>);
	return @results;
}

# Returns the number of errors so far by SQLSTATE; 'no connection' is counted,
# too.
sub errors
{
	my ($self) = @_;
	my %count;

	open(my $fh, '<', $self->{log}) or die "$self->{log}: $!\n";
	while (<$fh>)
	{
		$count{$1}++ if /^psql:.* (?:ERROR|FATAL):  (\w{5})$/;
		$count{'no connection'}++ if /^psql: error: connection to server/;
	}
	return \%count;
}

1;
