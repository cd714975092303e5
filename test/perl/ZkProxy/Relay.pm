# The working half of ZkProxy: relays frames between clients and the server,
# and obeys commands from the test.
#
# Each connection has two lanes, one for each direction. A received frame
# becomes an item at the end of its lane's queue; the first item moves on as
# soon as nothing holds it. Only pings may overtake, because ZooKeeper does not
# care about their order. They do not overtake the handshake, which a client
# reads first. A beat does not overtake anything, and otherwise passes like a ping: it is
# not counted, and nothing counts on it.

package ZkProxy::Relay;

use strict;
use warnings;

use IO::Socket::INET;
use JSON::PP;
use List::Util qw(min sum0);
use Time::HiRes qw(time);
use ZkProxy::Lane;
use ZkWire;

# Seconds between the pings sent to keep sessions alive during a hold. A client
# gives up a silent server after two thirds of its session's timeout.
use constant PING_INTERVAL => 0.2;

# Silence is measured in steps of this length. If the machine stops for longer,
# that counts as one step, not as silence.
use constant TICK => 0.01;

my $json = JSON::PP->new->utf8->allow_nonref;

# The commands; see ZkProxy for their meaning.
my %command = (
	mark => sub { $_[0]{trace} = [] },
	trace => sub { $_[0]{trace} },
	hold => sub {
		my ($self, $dir, $pings) = @_;
		$self->{held}{$dir} = { pings => $pings };
	},
	release => sub { delete $_[0]{held}{ $_[1] } },
	refuse => sub { $_[0]{refusing} = $_[1] },
	cut => sub { $_[0]{conns} = {} },
	rule => sub {
		my ($self, $rule) = @_;
		$self->{rules}{ ++$self->{last_rule} } = { nth => 1, %$rule };
		return $self->{last_rule};
	},
	accepted => sub { $_[0]{accepted} },
	fired => sub { $_[0]{fired}{ $_[1] } },
	reset => sub { @{ $_[0] }{qw(rules held refusing)} = ({}, {}, 0) },
	progress => sub {
		my ($self) = @_;
		return [ $self->{frames}, sum0(map { $_->awaited } $self->_lanes) ];
	},
	count => sub {
		$_[0]{count} = {
			settle => $_[1],
			flights => 0,
			quiet => 0,    # seconds of silence so far
			sent => 0,     # has a client sent something since the last flight?
			open => 0,     # the replies of a flight are being delivered
		};
	},
	count_end => sub { (delete $_[0]{count})->{flights} },
);

sub new
{
	my ($class, $listener, $control, $target) = @_;

	return bless {
		listener => $listener,
		control => $control,
		commands => '',    # bytes received on the control socket
		target => $target,
		conns => {},       # by number
		last_conn => 0,
		trace => [],
		accepted => 0,     # connections so far, including refused ones
		frames => 0,       # frames received so far, except pings and beats
		rules => {},       # by id
		fired => {},
		last_rule => 0,
		held => {},        # directions that are held
		refusing => 0,
		count => undef,    # state of counting flights
		now => time(),
		next_ping => 0,
	}, $class;
}

# Works until the test closes the control socket.
sub run
{
	my ($self) = @_;

	$SIG{PIPE} = 'IGNORE';
	while (1)
	{
		my ($readable, $writable) = ('', '');
		my $timeout = $self->_pump_all;

		vec($readable, fileno($_), 1) = 1
		  for $self->{control}, $self->{listener};
		for my $lane ($self->_lanes)
		{
			vec($readable, fileno($lane->{from}), 1) = 1 if !$lane->{ended};
			vec($writable, fileno($lane->{to}), 1) = 1 if length $lane->{out};
		}

		next if select($readable, $writable, undef, $timeout) <= 0;
		for my $lane ($self->_lanes)
		{
			$self->_read($lane)
			  if !$lane->{ended} && vec($readable, fileno($lane->{from}), 1);
		}
		$self->_accept if vec($readable, fileno($self->{listener}), 1);
		if (vec($readable, fileno($self->{control}), 1))
		{
			$self->_obey or return;
		}
	}
}

sub _lanes
{
	my ($self) = @_;

	return map { @$_ } values %{ $self->{conns} };
}

# Input

sub _accept
{
	my ($self) = @_;
	my $client = $self->{listener}->accept or return;
	my $server;

	$self->{accepted}++;
	$server = IO::Socket::INET->new(PeerAddr => $self->{target})
	  if !$self->{refusing};

	# If there is no server, the client's socket is closed.
	return if !$server;
	my $id = ++$self->{last_conn};
	$self->{conns}{$id} = [ ZkProxy::Lane->pair($id, $client, $server) ];
	return;
}

sub _read
{
	my ($self, $lane) = @_;

	$self->_arrived($lane, @$_) for $lane->read;
	push @{ $lane->{queue} }, { cut => 1, due => 0 } if $lane->{ended};
	return;
}

# A frame has been received: records it, applies the rules, and puts it into
# its lane.
sub _arrived
{
	my ($self, $lane, $payload, $frame) = @_;
	my $item = { payload => $payload, due => 0, op => $frame->{op} };

	push @{ $self->{trace} }, $frame;
	for my $rule ($self->_firing($frame))
	{
		my $action = $rule->{action};

		$self->{held}{ $lane->{dir} } = { pings => $rule->{pings} }
		  if $action eq 'hold';
		$item->{due} = time() + $rule->{ms} / 1000 if $action eq 'delay';
		$item->{cut} = 1 if $action eq 'drop' || $action eq 'cut';
		delete $item->{payload} if $action eq 'drop';
		$self->{refusing} = 1 if $rule->{refuse};
	}

	if ($frame->{op} =~ /^(ping|beat)$/)
	{
		my $held = $self->{held}{ $lane->{dir} };
		my $first = $lane->{queue}[0];

		if (!$item->{due} && !$item->{cut} && (!$held || $held->{pings})
			&& (!$first || ($frame->{op} eq 'ping' && ($first->{op} // '') ne 'connect')))
		{
			$lane->put($payload);
			return;
		}
	}
	else
	{
		$self->{frames}++;
		if (my $count = $self->{count})
		{
			$count->{quiet} = 0;
			$count->{sent} = 1 if $lane->{dir} eq 'c2s';
		}
	}
	push @{ $lane->{queue} }, $item;
	return;
}

# Removes and returns the rules that match this frame.
sub _firing
{
	my ($self, $frame) = @_;
	my @firing;

	for my $id (sort { $a <=> $b } keys %{ $self->{rules} })
	{
		my $rule = $self->{rules}{$id};

		next if defined $rule->{dir} && $rule->{dir} ne $frame->{dir};
		next if ($rule->{op} // $frame->{op}) ne $frame->{op};
		next if !defined $rule->{op} && $frame->{op} =~ /^(ping|beat)$/;
		next
		  if defined $rule->{path} && ($frame->{path} // '') !~ $rule->{path};
		next if --$rule->{nth} > 0;
		$self->{fired}{$id} = 1;
		push @firing, delete $self->{rules}{$id};
	}
	return @firing;
}

# Output

# Moves all items that may move. Returns the seconds until there is more to do,
# or undef if that depends on other processes.
sub _pump_all
{
	my ($self) = @_;
	my $now = time();
	my $passed = $now - $self->{now};
	my $count = $self->{count};
	my @due;

	$self->{now} = $now;
	if (grep { $_->{pings} } values %{ $self->{held} })
	{
		if ($now >= $self->{next_ping})
		{
			$self->_send_pings;
			$self->{next_ping} = $now + PING_INTERVAL;
		}
		push @due, $self->{next_ping};
	}
	if ($count)
	{
		$count->{quiet} += min($passed, TICK);
		if ($count->{quiet} >= $count->{settle}
			&& grep { $_->{dir} eq 's2c' && @{ $_->{queue} } } $self->_lanes)
		{
			$count->{flights} += $count->{sent};
			$count->{sent} = 0;
			$count->{open} = 1;
		}
		push @due, $now + TICK;
	}

	push @due, grep { defined } map { $self->_pump($_) } $self->_lanes;
	$count->{open} = 0 if $count;
	return @due ? min(@due) - $now : undef;
}

# Moves the items of one lane. Returns the time when there is more to do, if
# any.
sub _pump
{
	my ($self, $lane) = @_;
	my $queue = $lane->{queue};
	my ($cut, $due);

	while (@$queue && $self->_is_open($lane))
	{
		my $item = $queue->[0];

		$due = $item->{due};
		last if $due > $self->{now};
		$due = undef;
		$lane->put(delete $item->{payload}) if defined $item->{payload};
		last if $cut = $item->{cut};
		shift @$queue;
	}
	$lane->flush if length $lane->{out};
	delete $self->{conns}{ $lane->{conn} } if $cut && !length $lane->{out};
	return $due;
}

sub _is_open
{
	my ($self, $lane) = @_;
	my $count = $self->{count};

	return 0 if $self->{held}{ $lane->{dir} };
	return !$count || $count->{open} || $lane->{dir} eq 'c2s';
}

sub _send_pings
{
	my ($self) = @_;

	for my $conn (values %{ $self->{conns} })
	{
		my ($c2s, $s2c) = @$conn;

		$c2s->put(pack('l> l>', XID_PING, $op_code{ping})) if $s2c->{greeted};
	}
	return;
}

# Commands

# Obeys a command of the test. Returns false after the test has ended.
sub _obey
{
	my ($self) = @_;

	sysread($self->{control}, $self->{commands}, 65536,
		length($self->{commands})) or return 0;
	while (defined(my $payload = take_frame(\$self->{commands})))
	{
		my ($verb, @args) = @{ $json->decode($payload) };
		my $answer = $command{$verb}->($self, @args);

		syswrite($self->{control}, frame($json->encode($answer)));
	}
	return 1;
}

1;
