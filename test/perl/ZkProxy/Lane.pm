# One direction of a connection through ZkProxy: parses incoming frames, and
# sends frames that it is given. The relay decides what happens to a frame.

package ZkProxy::Lane;

use strict;
use warnings;

use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);
use ZkWire;

# Makes the two lanes of a connection, 'c2s' and 's2c'.
sub pair
{
	my ($class, $conn, $client, $server) = @_;
	my %common = (
		conn => $conn,
		awaited => {},    # requests without a reply so far, by xid
	);

	for my $socket ($client, $server)
	{
		$socket->blocking(0);
		$socket->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
	}
	return map {
		my ($dir, $from, $to) = @$_;

		bless {
			%common,
			dir => $dir,
			from => $from,
			to => $to,
			in => '',
			out => '',
			queue => [],     # received, but not in out yet
			greeted => 0,    # has the handshake been seen?
			ended => 0,      # has the peer closed the connection?
		}, $class;
	} [ 'c2s', $client, $server ], [ 's2c', $server, $client ];
}

# Reads what has arrived, and returns the complete frames: for each its payload
# and its entry for the trace.
sub read
{
	my ($self) = @_;
	my @frames;

	my $got = sysread($self->{from}, $self->{in}, 65536, length($self->{in}));
	$self->{ended} = 1 if defined $got ? $got == 0 : !$!{EAGAIN};
	while (defined(my $payload = take_frame(\$self->{in})))
	{
		push @frames, [ $payload, $self->_describe($payload) ];
	}
	return @frames;
}

# Appends a frame to the output.
sub put
{
	my ($self, $payload) = @_;

	$self->{out} .= frame($payload);
	return;
}

# Sends as much as the peer takes.
sub flush
{
	my ($self) = @_;
	my $sent = syswrite($self->{to}, $self->{out});

	if (defined $sent)
	{
		substr($self->{out}, 0, $sent, '');
	}
	elsif (!$!{EAGAIN})
	{
		# The peer has closed the connection. Frames that it sent before are
		# still read.
		$self->{out} = '';
	}
	return;
}

# Returns the number of requests of this connection that the server has not
# answered, except for pings and beats.
sub awaited
{
	my ($self) = @_;

	return scalar(grep { $_->[0]{op} !~ /^(ping|beat)$/ } values %{ $self->{awaited} });
}

sub _describe
{
	my ($self, $payload) = @_;
	my %frame = (conn => $self->{conn}, dir => $self->{dir}, at => time());

	if (!$self->{greeted}++)
	{
		$frame{op} = 'connect';
		$frame{session} = sprintf('0x%x', (unpack('l> l> q>', $payload))[2])
		  if $self->{dir} eq 's2c';
		return \%frame;
	}
	if ($self->{dir} eq 'c2s')
	{
		my $request = decode_request($payload);

		push @{ $self->{awaited}{ $request->{xid} } }, $request;
		return { %frame, %$request };
	}

	my $reply = decode_reply($payload);

	@frame{qw(xid err)} = @$reply{qw(xid err)};
	if ($frame{xid} == XID_EVENT)
	{
		return { %frame, op => 'event', %{ decode_event($reply->{results}) } };
	}

	# Some frames share an xid, and the proxy's own pings are not in the list.
	my $requests = $self->{awaited}{ $frame{xid} } // [];
	my $request = shift(@$requests) // { op => 'ping' };

	delete $self->{awaited}{ $frame{xid} } if !@$requests;
	return { %$request, %frame };
}

1;
