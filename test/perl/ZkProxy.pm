# A proxy between ZooKeeper clients and a server that parses the protocol: it
# records the frames, counts round trips, and loses, delays or holds any frame
# on request.
#
#	my $proxy = ZkProxy->new($zk->hosts);	# clients connect to $proxy->hosts
#	$proxy->rule(dir => 's2c', op => 'create', action => 'drop');
#
# A direction is 'c2s' (from clients to the server) or 's2c' (from the server
# to clients). An op is named as in ZkWire, or 'connect' for the handshake, or
# 'event'; a reply has the op and the path of its request. 'beat' is what zklock's client
# sends by itself (see ZkWire): like a ping, it is not seen unless a test asks for it.
#
# This is the test's side. ZkProxy::Relay does the work in a process of its
# own, which runs as long as the socket to it is open.

package ZkProxy;

use strict;
use warnings;

use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Socket qw(AF_UNIX SOCK_STREAM PF_UNSPEC);
use Time::HiRes qw(time);
use Wait;
use ZkProxy::Relay;
use ZkWire;

# After this time without a frame, all clients are assumed to wait.
use constant SETTLE => 0.1;

my $json = JSON::PP->new->utf8->allow_nonref;

# The properties of a rule
my %rule_value = (
	dir => qr/^(c2s|s2c)$/,
	op => qr/^(${\ join('|', 'connect', 'event', 'beat', keys %op_code)})$/,
	path => qr/./,
	nth => qr/^[1-9]\d*$/,
	action => qr/^(drop|cut|delay|hold)$/,
	ms => qr/^\d+$/,
	pings => qr/^1$/,
	refuse => qr/^1$/,
);

# Starts a proxy to the server at "host:port".
sub new
{
	my ($class, $target) = @_;

	my $listener = IO::Socket::INET->new(
		LocalAddr => '127.0.0.1',
		Listen => 128,
		Proto => 'tcp') or die "cannot listen: $@\n";
	socketpair(my $control, my $relay_control, AF_UNIX, SOCK_STREAM, PF_UNSPEC)
	  or die "socketpair: $!\n";
	my $pid = fork() // die "fork: $!\n";

	if ($pid == 0)
	{
		# _exit(), because the END blocks belong to the parent.
		$SIG{$_} = 'DEFAULT' for qw(INT TERM HUP CHLD __DIE__);
		close($control);
		eval { ZkProxy::Relay->new($listener, $relay_control, $target)->run; 1 }
		  or print STDERR "# the proxy failed: $@";
		POSIX::_exit(0);
	}
	return bless {
		port => $listener->sockport,
		control => $control,
		pid => $pid,
		owner => $$
	}, $class;
}

# The connect string of the proxy
sub hosts
{
	my ($self) = @_;

	return "127.0.0.1:$self->{port}";
}

# Ends the proxy; all connections are cut.
sub stop
{
	my ($self) = @_;

	# Proxies that were started later have inherited the test's side of the
	# socket, so it does not suffice to close it.
	shutdown($self->{control}, 2);
	close($self->{control});
	1 while waitpid($self->{pid}, 0) < 0 && $!{EINTR};
	$self->{pid} = 0;
	return;
}

sub DESTROY
{
	my ($self) = @_;

	local ($?, $@, $!);
	$self->stop if $self->{pid} && $self->{owner} == $$;
	return;
}

# Forgets all frames so far: the trace begins here.
sub mark
{
	my ($self) = @_;

	$self->_ask('mark');
	return;
}

# Returns the frames since the mark, in the order in which they reached the
# proxy, each as a hash with conn (1, 2, ...), dir, at (a time), xid, op, path, err and
# event; and session in the server's half of a handshake. Pings and beats are left out.
sub trace
{
	my ($self) = @_;

	return grep { $_->{op} !~ /^(ping|beat)$/ } $self->all_frames;
}

# The same with pings and beats
sub all_frames
{
	my ($self) = @_;

	return @{ $self->_ask('trace') };
}

# Returns the beats that clients have sent since the mark.
sub beats
{
	my ($self) = @_;

	return grep { "$_->{dir} $_->{op}" eq 'c2s beat' } $self->all_frames;
}

# Returns the clients' requests among them: all, or those whose path matches.
sub requests
{
	my ($self, $path) = @_;

	return
	  grep { $_->{dir} eq 'c2s' && (!$path || ($_->{path} // '') =~ $path) } $self->trace;
}

# Waits for a frame since the mark that has all the given properties, for
# instance (dir => 's2c', op => 'event'). It is a beat only if op says so.
sub wait_frame
{
	my ($self, %wanted) = @_;

	return wait_until(
		"a frame with @{[%wanted]}",
		sub {
			for my $frame ($self->all_frames)
			{
				next if $frame->{op} eq 'beat' && !$wanted{op};
				return $frame
				  if !grep { ($frame->{$_} // '') ne $wanted{$_} } keys %wanted;
			}
			return;
		});
}

# Acts on one frame: the nth (by default the first) from now on with the given
# dir, op and path (a regular expression). Pings count only if op is 'ping', and beats
# only if it is 'beat'. The action is
#
#	drop	lose the frame and cut the connection
#	cut		let the frame pass, then cut the connection
#	delay	keep it, and all that follows on its way, for so many ms
#	hold	keep it and all frames of its direction until release; pings => 1 as
#			for hold below
#
# With refuse => 1 new connections are refused from that frame on. Returns the
# rule's id.
sub rule
{
	my ($self, %rule) = @_;

	for my $key (keys %rule)
	{
		die "bad rule: $key => $rule{$key}\n"
		  if $rule{$key} !~ ($rule_value{$key} // qr/(?!)/);
		$rule{$key} = "$rule{$key}";
	}
	die "bad rule: no action\n" if !$rule{action};
	die "bad rule: no ms\n" if $rule{action} eq 'delay' && !$rule{ms};
	return $self->_ask('rule', \%rule);
}

# Has the rule acted?
sub fired
{
	my ($self, $id) = @_;

	return $self->_ask('fired', $id);
}

# Forgets all rules and undoes hold and refuse.
sub reset
{
	my ($self) = @_;

	$self->_ask('reset');
	return;
}

# Holds all frames of a direction, or of both, until release. With pings => 1
# sessions stay alive meanwhile: pings pass, and the proxy sends some of its
# own, because a client that waits for a reply sends none. Beats pass as long as no other
# frame is held: a client takes replies in the order of its requests.
sub hold
{
	my ($self, $dir, %opt) = @_;

	$self->_ask('hold', $_, $opt{pings} ? 1 : 0)
	  for $dir // qw(c2s s2c);
	return;
}

sub release
{
	my ($self, $dir) = @_;

	$self->_ask('release', $_) for $dir // qw(c2s s2c);
	return;
}

# Refuses new connections from now on.
sub refuse
{
	my ($self) = @_;

	$self->_ask('refuse', 1);
	return;
}

sub accept
{
	my ($self) = @_;

	$self->_ask('refuse', 0);
	return;
}

# Returns the number of connections that clients have made so far, including
# refused ones.
sub accepted
{
	my ($self) = @_;

	return $self->_ask('accepted');
}

# Cuts all connections; frames that were held or on their way are lost.
sub cut
{
	my ($self) = @_;

	$self->_ask('cut');
	return;
}

# Waits until no frame passes and the server owes no reply, except for pings and beats.
sub wait_idle
{
	my ($self) = @_;
	my ($before, $since) = (-1, 0);

	wait_until(
		'the connections are idle',
		sub {
			my ($frames, $awaited) = @{ $self->_ask('progress') };

			($before, $since) = ($frames, time()) if $frames != $before;
			return !$awaited && time() - $since >= SETTLE;
		});
	return;
}

# Waits until the server owes no reply.
sub wait_answered
{
	my ($self) = @_;

	wait_until('all requests are answered', sub { !$self->_ask('progress')->[1] });
	return;
}

# Runs $code and returns the number of flights, that is, of consecutive round
# trips, that it has waited for.
#
# The proxy collects the server's frames until the clients have been silent for
# a while, and only then delivers all of them. Each delivery after which the
# clients sent something before is a flight: no request can depend on a reply
# that has not been delivered. So the count is never too low. It is too high if
# a client pauses for longer than the settle time (in seconds) without waiting
# for a reply, or if $code continues for that long after the last flight. Beats are no
# flights.
sub flights
{
	my ($self, $code, $settle) = @_;

	$self->wait_idle;
	$self->_ask('count', $settle // SETTLE);
	my $done = eval { $code->(); 1 };
	my $error = $@;
	my $flights = $self->_ask('count_end');
	die $error if !$done;
	return $flights;
}

# Sends a command to the relay and returns its answer.
sub _ask
{
	my ($self, @command) = @_;
	my $deadline = time() + $Wait::timeout;
	my $answer = '';

	local $SIG{PIPE} = 'IGNORE';
	syswrite($self->{control}, frame($json->encode(\@command)))
	  or die "the proxy is gone\n";
	while (1)
	{
		my $payload = take_frame(\$answer);

		return $json->decode($payload) if defined $payload;
		read_more($self->{control}, \$answer, $deadline)
		  or die "the proxy is gone\n";
	}
}

1;
