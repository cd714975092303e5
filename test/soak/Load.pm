# The clients. Each is a psql that calls trade() again and again on its server,
# whatever error it gets; when its connection is lost it comes back with a new
# one.

package Load;

use strict;
use warnings;

use Child;
use PgServer;

use constant {
	CALL => 'SELECT trade();',
	CALLS => 500,    # in a row before a client disconnects and comes back
};

# Starts so many clients on each server. $dir has the servers in directories of
# their own, named as they are; %settings are for the clients' sessions.
sub start
{
	my ($class, $bindir, $dir, $servers, $clients, %settings) = @_;
	my $options = join(' ', map { "-c $_=$settings{$_}" } sort keys %settings);
	my $self = bless { command => {}, child => {}, log => "$dir/clients.log" },
	  $class;

	unlink($self->{log});
	open(my $fh, '>', "$dir/calls.sql") or die "calls.sql: $!\n";
	print $fh (CALL . "\n") x CALLS;
	close($fh) or die "calls.sql: $!\n";
	for my $server (@$servers)
	{
		$self->{command}{"$server$_"} = [
			"$bindir/psql",
			'-Xq',
			'-v',
			'VERBOSITY=sqlstate',
			'-o',
			'/dev/null',
			'-f',
			"$dir/calls.sql",
			PgServer::conninfo("$dir/$server")
			  . " application_name=$server$_ options='$options'"
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

# Brings back those who have gone. To be called often.
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

# Cancels what the clients are at, and ends them.
sub stop
{
	my ($self) = @_;

	$_->stop('INT') for values %{ $self->{child} };
	return;
}

# How often each SQLSTATE was the answer so far; 'no connection' is one, too.
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
