# A plain ZooKeeper client: one connection, one session, requests and replies
# as they are sent. It does not reconnect and sends no pings.
#
#	my $client = ZkClient->new($zk->hosts);
#	$client->create('/a', 'data', ZkClient::EPHEMERAL);
#	$client->send(getData => '/a');		# without waiting for the answer
#	my $reply = $client->recv;

package ZkClient;

use strict;
use warnings;

use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);
use Wait;
use ZkWire;

# Flags of create; CONTAINER goes with createContainer only.
use constant {
	EPHEMERAL => 1,
	SEQUENCE => 2,
	CONTAINER => 4,
};

use constant {
	NO_NODE => -101,
	NO_AUTH => -102,
	SESSION_TIMEOUT => 600_000,    # ms; never reached in a test
};

# How the arguments of the requests are packed
my %packed = (
	closeSession => sub { '' },
	reconfig => sub { pack('l> N/a* l> q>', -1, $_[0], -1, -1) },    # members that leave
	delete => sub { pack('N/a* l>', $_[0], -1) },
	setData => sub { pack('N/a* N/a* l>', $_[0], $_[1], $_[2] // -1) },
	map({ $_ => \&_pack_create } qw(create createContainer)),
	map({ $_ => \&_pack_read } qw(exists getData getChildren)),
	sync => sub { pack('N/a*', $_[0]) },
	setACL => sub { pack('N/a* N l> N/a* N/a* l>', $_[0], 1, $_[1], 'world', 'anyone', -1) },
);

# Connects to the server at "host:port" and opens a session, whose timeout may be given
# in ms.
sub new
{
	my ($class, $hosts, $timeout) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => $hosts)
	  or die "cannot connect to $hosts: $@\n";
	my $self = bless { socket => $socket, in => '', xid => 0 }, $class;

	$socket->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1);
	$self->_write(
		pack('l> q> l> q> N/a* C', 0, 0, $timeout // SESSION_TIMEOUT, 0, "\0" x 16, 0));
	(undef, undef, $self->{session}) = unpack('l> l> q>', $self->_read);
	return $self;
}

# What arrives, to select()
sub socket
{
	my ($self) = @_;

	return $self->{socket};
}

# The session's id, as in a Stat's ephemeralOwner.
sub session
{
	my ($self) = @_;

	return $self->{session};
}

# Sends a request, (getData => $path, $watch) and the like; returns its xid.
sub send
{
	my ($self, $op, @args) = @_;

	$self->_write(
		pack('l> l>', ++$self->{xid}, $op_code{$op}) . $packed{$op}->(@args));
	return $self->{xid};
}

# Waits for the next reply or watch event.
sub recv
{
	my ($self) = @_;

	return decode_reply($self->_read);
}

# Sends a request and returns the results in its reply, or undef if there is no
# such node.
sub call
{
	my ($self, $op, @args) = @_;
	my $xid = $self->send($op, @args);
	my $reply;

	do
	{
		$reply = $self->recv;
	} until $reply->{xid} == $xid;
	return undef if $reply->{err} == NO_NODE && $op ne 'create';
	return '' if $reply->{err} == NO_AUTH && $op eq 'exists';
	die "$op $args[0]: ZooKeeper error $reply->{err}\n" if $reply->{err};
	return $reply->{results};
}

# Returns the name that the node has got.
sub create
{
	my ($self, $path, $data, $flags) = @_;

	return unpack('N/a*', $self->call('create', $path, $data, $flags));
}

# Returns false if there was no such node.
sub delete
{
	my ($self, $path) = @_;

	return defined $self->call('delete', $path);
}

# Returns false if there was no such node.
sub set
{
	my ($self, $path, $data) = @_;

	return defined $self->call('setData', $path, $data);
}

# Returns the node's Stat, or undef. A newer server sends none if the client must not read
# the node: then it is empty.
sub exists
{
	my ($self, $path, $watch) = @_;
	my $results = $self->call('exists', $path, $watch);

	return defined $results ? ($results eq '' ? {} : unpack_stat($results)) : undef;
}

# Returns the node's Stat with its data, or undef.
sub get
{
	my ($self, $path, $watch) = @_;
	my $results = $self->call('getData', $path, $watch);

	return undef if !defined $results;
	my $data = take_buffer(\$results);
	return { data => $data, %{ unpack_stat($results) } };
}

# Returns the names of the node's children, sorted; none if there is no node.
sub children
{
	my ($self, $path, $watch) = @_;
	my $results = $self->call('getChildren', $path, $watch);
	my @names = defined $results ? sort(unpack('N/(N/a*)', $results)) : ();

	return @names;
}

# Ends the session.
sub close
{
	my ($self) = @_;

	$self->call('closeSession');
	$self->{socket}->close;
	return;
}

sub _pack_create
{
	my ($path, $data, $flags) = @_;

	# The argument in the middle is the access control list: all permissions
	# for anyone.
	return pack('N/a* N/a* N l> N/a* N/a* l>',
		$path, $data // '', 1, 31, 'world', 'anyone', $flags // 0);
}

sub _pack_read
{
	my ($path, $watch) = @_;

	return pack('N/a* C', $path, $watch ? 1 : 0);
}

# Returns a Stat that is in a reply.
sub unpack_stat
{
	my ($results) = @_;
	my %stat;

	@stat{
		qw(czxid mzxid ctime mtime version cversion aversion
		  ephemeralOwner dataLength numChildren pzxid)
	} = unpack('q>4 l>3 q> l>2 q>', $results);
	return \%stat;
}

sub _write
{
	my ($self, $payload) = @_;

	local $SIG{PIPE} = 'IGNORE';
	$self->{socket}->syswrite(frame($payload))
	  or die "the connection is closed\n";
	return;
}

sub _read
{
	my ($self) = @_;
	my $deadline = time() + $Wait::timeout;
	my $payload;

	until (defined($payload = take_frame(\$self->{in})))
	{
		read_more($self->{socket}, \$self->{in}, $deadline)
		  or die "the connection is closed\n";
	}
	return $payload;
}

1;
