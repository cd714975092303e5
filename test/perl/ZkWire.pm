# ZooKeeper's wire protocol, as far as the tests need it: frames, and the
# headers of requests and replies. ZkClient and ZkProxy use it.
#
# A frame is a four-byte length and a payload. The first payload in each
# direction is the handshake (connect request and response). After that a
# request is xid, op code and arguments, a reply is xid, zxid, error code and
# results.
#
# A request that zklock's client makes by itself, to keep its session proven, is a "beat":
# a setData with a version that no node has, and nothing else uses.

package ZkWire;

use strict;
use warnings;

use Exporter qw(import);
use Time::HiRes qw(time);

our @EXPORT = qw(frame take_frame take_buffer read_more
  %op_code decode_request decode_reply decode_event
  XID_EVENT XID_PING BEAT);

# These xids are the same for all frames of a kind.
use constant {
	XID_EVENT => -1,
	XID_PING => -2,
};

# The version in a beat
use constant BEAT => -2**31 + 1;

our %op_code = (
	create => 1,
	delete => 2,
	exists => 3,
	getData => 4,
	setData => 5,
	getACL => 6,
	setACL => 7,
	getChildren => 8,
	sync => 9,
	ping => 11,
	getChildren2 => 12,
	check => 13,
	multi => 14,
	create2 => 15,
	reconfig => 16,
	checkWatches => 17,
	removeWatches => 18,
	createContainer => 19,
	createTTL => 21,
	auth => 100,
	setWatches => 101,
	setWatches2 => 105,
	addWatch => 106,
	closeSession => -11,
);
my %op_name = reverse %op_code;

# Other requests begin with a path.
my %has_no_path = map { $_ => 1 }
  qw(ping multi reconfig auth setWatches setWatches2 closeSession);

my %event_name = (
	-1 => 'none',
	1 => 'created',
	2 => 'deleted',
	3 => 'changed',
	4 => 'children',
);

# Makes a frame from a payload.
sub frame
{
	my ($payload) = @_;

	return pack('N/a*', $payload);
}

# Removes the first complete frame from a buffer and returns its payload, or
# undef if it is not complete.
sub take_frame
{
	my ($buffer) = @_;

	return if length($$buffer) < 4;
	my $length = unpack('N', $$buffer);
	return if length($$buffer) < 4 + $length;
	return substr(substr($$buffer, 0, 4 + $length, ''), 4);
}

# Removes a byte array (or string) from the results of a reply; undef is null.
sub take_buffer
{
	my ($bytes) = @_;
	my $length = unpack('l>', substr($$bytes, 0, 4, ''));

	return $length < 0 ? undef : substr($$bytes, 0, $length, '');
}

# Appends bytes from a socket to a buffer, and returns false after the other
# side has closed it. Dies if no bytes arrive until the deadline.
sub read_more
{
	my ($socket, $buffer, $deadline) = @_;
	my ($ready, $found, $read) = ('');

	# A signal, such as SIGCHLD, does not end the wait.
	vec($ready, fileno($socket), 1) = 1;
	do
	{
		my $seconds = $deadline - time();

		$found =
		  $seconds > 0 ? select(my $which = $ready, undef, undef, $seconds) : 0;
	} while ($found < 0 && $!{EINTR});
	die "no answer within the timeout\n" if $found <= 0;
	do
	{
		$read = sysread($socket, $$buffer, 65536, length($$buffer));
	} while (!defined $read && $!{EINTR});
	return $read;
}

sub decode_request
{
	my ($payload) = @_;
	my ($xid, $code, $rest) = unpack('l> l> a*', $payload);
	my $op = $op_name{$code} // $code;
	my $path = $has_no_path{$op} ? undef : take_buffer(\$rest);

	if ($op eq 'setData')
	{
		take_buffer(\$rest);
		$op = 'beat' if unpack('l>', $rest) == BEAT;
	}
	return { xid => $xid, op => $op, path => $path };
}

sub decode_reply
{
	my ($payload) = @_;
	my %reply;

	@reply{qw(xid zxid err results)} = unpack('l> q> l> a*', $payload);
	return \%reply;
}

# The contents of an event, that is, of a reply whose xid is XID_EVENT.
sub decode_event
{
	my ($results) = @_;
	my ($type, $state, $path) = unpack('l> l> N/a*', $results);

	return { event => $event_name{$type} // $type, path => $path };
}

1;
