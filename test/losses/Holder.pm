# A client that holds a lock: it notices when answers arrive, and when its connection ends.
#
#	my $holder = Holder->new($server);
#	my $rows = $holder->query('SELECT 1');
#	my $n = $holder->post('COMMIT');	# the number of the query, counted from 1
#	my $answer = $holder->wait_for($n, $deadline);
#
# An answer has rows (each with its values joined by |); tag (of the command), or error
# (SQLSTATE) and message; and at, the time when it was complete.

package Holder;

use strict;
use warnings;

use parent 'PgWire';

use Time::HiRes qw(time);
use Wait;

# The server is a PgServer.
sub new
{
	my ($class, $server) = @_;
	my $self = $class->SUPER::new($server, user => 'postgres');

	@$self{qw(posted got next ended)} = (0, [], {}, 0);
	return $self;
}

sub socket
{
	my ($self) = @_;

	return $self->{socket};
}

# When the server has closed the connection, or 0
sub ended
{
	my ($self) = @_;

	return $self->{ended};
}

# Sends one statement, and returns its number.
sub post
{
	my ($self, $sql) = @_;

	$self->send(PgWire::simple($sql));
	return ++$self->{posted};
}

# Waits for an answer. Returns undef if there is none until the deadline. If the connection
# has ended before, the answer is what was read of it.
sub wait_for
{
	my ($self, $n, $deadline) = @_;

	while (@{ $self->{got} } < $n)
	{
		my $seconds = $deadline - time();

		return $self->{next} if $self->{ended};
		return if $seconds <= 0;
		vec(my $ready = '', fileno($self->{socket}), 1) = 1;
		$self->take if select($ready, undef, undef, $seconds) > 0;
	}
	return $self->{got}[ $n - 1 ];
}

# Executes a statement, and returns its rows, one in each line. It dies if the statement fails.
sub query
{
	my ($self, $sql) = @_;
	my $answer = $self->wait_for($self->post($sql), time() + $Wait::timeout)
	  // die "no answer to $sql\n";

	die "$sql: ", $answer->{message} // 'the connection has ended', "\n" if !$answer->{tag};
	return join("\n", @{ $answer->{rows} // [] });
}

# Reads what has arrived.
sub take
{
	my ($self) = @_;

	if (!sysread($self->{socket}, $self->{in}, 65536, length($self->{in})))
	{
		$self->{ended} ||= $self->{next}{at} = time();
	}
	while (length($self->{in}) >= 5)
	{
		my ($type, $length) = unpack('a N', $self->{in});

		last if length($self->{in}) < 1 + $length;
		$self->_read_message($type, substr($self->_take(1 + $length), 5));
	}
	return;
}

sub _read_message
{
	my ($self, $type, $body) = @_;
	my $answer = $self->{next};

	push @{ $answer->{rows} }, PgWire::_values($body) if $type eq 'D';
	$answer->{tag} = unpack('Z*', $body) if $type eq 'C';
	@$answer{qw(error message)} = PgWire::_error($body) =~ /^\S+ (\S+) (.*)/s if $type eq 'E';
	if ($type eq 'Z')
	{
		push @{ $self->{got} }, { %$answer, at => time() };
		$self->{next} = {};
	}
	return;
}

1;
