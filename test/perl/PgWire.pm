# A client that speaks PostgreSQL's protocol itself: it can send statements ahead, and use
# what psql has no command for.
#
#	my $client = PgWire->new($node);
#	my @answers = $client->query('SELECT 1');
#	$client->send(PgWire::simple('SELECT 1'), PgWire::extended('SELECT 2'));
#	@answers = $client->answers(2);
#
# An answer is that to a message after which the server is ready again: a string of
# "severity sqlstate message" for each error, of the tags of commands, and of the values of
# rows. Notices are left out.

package PgWire;

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use PgServer;
use Time::HiRes qw(time);
use Wait;

# Connects as the user of the test, over TCP if $options{tcp}. The other options are for the
# server.
sub new
{
	my ($class, $node, %options) = @_;
	my $socket =
	  delete $options{tcp}
	  ? IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $node->port)
	  : IO::Socket::UNIX->new(Peer => PgServer::socket_path($node->host, $node->port));
	die "cannot connect: $!\n" if !$socket;
	my $self = bless { socket => $socket, in => '', node => $node }, $class;
	my $startup = pack('N(Z*)*x', 196608, user => scalar getpwuid($<), database => 'postgres', %options);

	$socket->autoflush(1);
	syswrite($socket, pack('N', 4 + length $startup) . $startup);
	my ($greeting) = $self->answers(1);

	die "cannot log in: $greeting\n" if $greeting ne '';
	return $self;
}

sub pid
{
	my ($self) = @_;

	return $self->{pid};
}

sub _message
{
	my ($type, $body) = @_;

	return $type . pack('N', 4 + length $body) . $body;
}

# Messages that end with one after which the server is ready again
sub simple
{
	my ($sql) = @_;

	return _message('Q', pack('Z*', $sql));
}

sub extended
{
	my ($sql) = @_;

	return parsed($sql) . executed(0) . sync();
}

# Its parts: `rows` is the number of rows to return, 0 for all.
sub executed
{
	my ($rows) = @_;

	return _message('E', pack('Z*N', '', $rows));
}

sub parsed
{
	my ($sql) = @_;

	return _message('P', pack('Z*Z*n', '', $sql, 0)) . _message('B', pack('Z*Z*nnn', '', '', 0, 0, 0));
}

sub sync
{
	return _message('S', '');
}

# Makes the server send what it has to say, without an end of the transaction.
sub flush
{
	return _message('H', '');
}

# The fast-path call of a function with these arguments
sub call
{
	my ($oid, @arguments) = @_;

	return _message('F', pack('Nn', $oid, 0)
		. pack('n', scalar @arguments)
		. join('', map { pack('N/a*', $_) } @arguments)
		. pack('n', 0));
}

# The data of a COPY and its end
sub copied
{
	my ($data) = @_;

	return _message('d', $data) . _message('c', '');
}

# Sends messages at once. A server that has closed the connection is no error here.
sub send
{
	my ($self, @messages) = @_;

	local $SIG{PIPE} = 'IGNORE';
	syswrite($self->{socket}, join('', @messages));
	return;
}

# Reads so many bytes. Returns false if the server has closed the connection.
sub _fill
{
	my ($self, $length) = @_;
	my $deadline = time() + $Wait::timeout;

	while (length $self->{in} < $length)
	{
		die "the server does not answer\n"
		  if !IO::Select->new($self->{socket})->can_read($deadline - time());
		return 0 if !sysread($self->{socket}, $self->{in}, 65536, length $self->{in});
	}
	return 1;
}

sub _take
{
	my ($self, $length) = @_;

	return substr($self->{in}, 0, $length, '');
}

# Returns the next $n answers, or fewer if the connection is closed before: then the last
# one ends with "closed".
sub answers
{
	my ($self, $n) = @_;
	my @answers;

	while (@answers < $n)
	{
		my @parts;

		while (1)
		{
			if (!$self->_fill(5))
			{
				return @answers, join("\n", @parts, 'closed');
			}
			my ($type, $length) = unpack('aN', $self->_take(5));

			return @answers, join("\n", @parts, 'closed') if !$self->_fill($length - 4);
			my $body = $self->_take($length - 4);

			@$self{qw(pid key)} = unpack('N2', $body) if $type eq 'K';
			push @parts, _values($body) if $type eq 'D';
			push @parts, unpack('Z*', $body) if $type eq 'C';
			push @parts, _error($body) if $type eq 'E';
			last if $type eq 'Z' || $type eq 'G';
		}
		push @answers, join("\n", @parts);
	}
	return @answers;
}

sub _values
{
	my ($body) = @_;
	my $n = unpack('n', substr($body, 0, 2, ''));
	my @values;

	while ($n-- > 0)
	{
		my $length = unpack('l>', substr($body, 0, 4, ''));

		push @values, $length < 0 ? '' : substr($body, 0, $length, '');
	}
	return join('|', @values);
}

sub _error
{
	my ($body) = @_;
	my %field = map { substr($_, 0, 1) => substr($_, 1) } grep { $_ ne '' } split(/\0/, $body);

	return "$field{V} $field{C} $field{M}";
}

sub query
{
	my ($self, $sql) = @_;

	$self->send(simple($sql));
	return ($self->answers(1))[0];
}

# Is the connection closed, or is there something to read?
sub is_readable
{
	my ($self) = @_;

	return length $self->{in} > 0 || IO::Select->new($self->{socket})->can_read(0);
}

# Asks the server to cancel the statement that runs. A server that is gone is no error here.
sub cancel
{
	my ($self) = @_;
	my $socket = IO::Socket::UNIX->new(
		Peer => PgServer::socket_path($self->{node}->host, $self->{node}->port)) or return;

	syswrite($socket, pack('N4', 16, 80877102, @$self{qw(pid key)}));

	# The server closes the connection after it has sent the signal.
	IO::Select->new($socket)->can_read($Wait::timeout);
	return;
}

sub close
{
	my ($self) = @_;

	$self->{socket}->close;
	return;
}

1;
