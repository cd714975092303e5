# Faults of ZooKeeper, the network and the backends, one at a time: each fault
# is made, lasts for some seconds, and is undone.
#
#	my $next = Faults::plan($seed);
#	my $fault = $next->();		# { name, gap, seconds, pick }
#	$faults->make($fault->{name}, $fault->{pick});
#	$faults->undo;
#
# A plan depends only on its seed. The victims depend on the current state.

package Faults;

use strict;
use warnings;

use Digest::MD5 qw(md5);
use Load;
use Wait;

# Ranges of a fault's duration in seconds: shorter than a session's timeout,
# longer, or either; and for a planned end of a session, long enough to see its
# effects
my ($short, $long, $any, $observed) = ([ 0.3, 2 ], [ 4, 5 ], [ 0.3, 5 ], [ 5, 5 ]);

# The duration of each fault, the method that makes it, and its arguments
my %faults = (
	'leader killed' => [ $short, _kill => 'leader' ],
	'leader frozen' => [ $any, _freeze => 'leader' ],
	'follower killed' => [ $short, _kill => 'follower' ],
	'follower frozen' => [ $any, _freeze => 'follower' ],
	'quorum lost' => [ $any, _kill => 'quorum' ],
	'quorum frozen' => [ $any, _freeze => 'quorum' ],

	'connections cut' => [ $short, _network => ['cut'] ],
	'cut off' => [ $any, _network => ['refuse'], ['cut'] ],
	'requests held' => [ $any, _network => [ 'hold', 'c2s' ] ],
	'replies held' => [ $any, _network => [ 'hold', 's2c' ] ],
	'requests lost' => [ $short, _lose => 'c2s' ],
	'replies lost' => [ $short, _lose => 's2c' ],

	'holder frozen' => [ $short, _signal => 'holder', 'STOP' ],
	'holder frozen for long' => [ $long, _signal => 'holder', 'STOP' ],
	'holder cancelled' => [ $short, _signal => 'holder', 'INT' ],
	'holder terminated' => [ $short, _signal => 'holder', 'TERM' ],
	'holder killed' => [ $short, _signal => 'holder', 'KILL' ],
	'waiter frozen' => [ $short, _signal => 'waiter', 'STOP' ],
	'waiter frozen for long' => [ $long, _signal => 'waiter', 'STOP' ],
	'waiter cancelled' => [ $short, _signal => 'waiter', 'INT' ],
	'waiter terminated' => [ $short, _signal => 'waiter', 'TERM' ]);

# If backends share their server's session, its worker fails as well. A holder
# learns too late of the loss of its lock only if both are suspended.
my %of_workers = (
	'holder and worker frozen for long' =>
	  [ $long, _signal => [qw(holder worker)], 'STOP' ],
	'worker frozen' => [ $short, _signal => 'worker', 'STOP' ],
	'worker frozen for long' => [ $long, _signal => 'worker', 'STOP' ],
	'worker killed' => [ $short, _signal => 'worker', 'KILL' ]);

# An administrator ends the server's session. No lock may be lost by that.
my %planned = (
	'settings changed' => [ $observed, '_change_settings' ],
	'worker terminated' => [ $observed, _signal => 'worker', 'TERM' ]);

%faults = (%faults, %of_workers, %planned) if $ENV{ZKLOCK_SESSION};

# Conditions that find processes in pg_stat_activity: a backend works under a
# lock, or waits
my $call = "query = '${\ Load::CALL}'";
my %known = (
	holder => "$call AND wait_event = 'PgSleep'",
	waiter => "$call AND wait_event_type = 'Extension'",
	worker => "backend_type = 'zklock worker'");

# The fault that locks alone do not survive
sub deadly
{
	return $ENV{ZKLOCK_SESSION}
	  ? 'holder and worker frozen for long'
	  : 'holder frozen for long';
}

sub is_planned
{
	my ($name) = @_;

	return exists $planned{$name};
}

# An endless plan: all faults in random order, then all in another order, and
# so on. The fault that locks alone do not survive comes first, and more often.
sub plan
{
	my ($seed) = @_;
	my $numbers = 0;
	my $random = sub { unpack('N', md5("$seed " . $numbers++)) / 2**32 };
	my @deadly = deadly();
	my @names = @deadly;

	return sub {
		@names = (sort(keys %faults), @deadly, @deadly) if !@names;
		my ($name) = splice(@names, $random->() * @names, 1);
		my ($least, $most) = @{ $faults{$name}[0] };

		return {
			name => $name,
			# Effects of a fault can appear as late as the timeout of a
			# session.
			gap => (is_planned($name) ? 5 : 0.5) + 2 * $random->(),
			seconds => $least + ($most - $least) * $random->(),
			pick => $random->()
		};
	};
}

# %arg: ensemble (a ZkEnsemble), proxies (a list of ZkProxy between some
# clients and the network that can fail), servers (a list of PgServer)
sub new
{
	my ($class, %arg) = @_;

	return bless { %arg, undo => [], changes => 0 }, $class;
}

# $pick (from 0 to 1) selects one of several possible victims.
sub make
{
	my ($self, $name, $pick) = @_;
	my (undef, $method, @args) = @{ $faults{$name} };

	$self->$method($pick, @args);
	return;
}

sub undo
{
	my ($self) = @_;

	while (my $undo = pop @{ $self->{undo} })
	{
		$undo->();
	}
	return;
}

# Servers of the ensemble

sub _kill
{
	my ($self, $pick, $role) = @_;
	my @members = $self->_members($pick, $role);

	push @{ $self->{undo} },
	  sub { $_->launch for @members; $self->{ensemble}->wait_for_all };
	$_->kill9 for @members;
	return;
}

sub _freeze
{
	my ($self, $pick, $role) = @_;
	my @members = $self->_members($pick, $role);

	push @{ $self->{undo} },
	  sub { $_->resume for @members; $self->{ensemble}->wait_for_all };
	$_->pause for @members;
	return;
}

# 'quorum' means so many servers that the others have no majority.
sub _members
{
	my ($self, $pick, $role) = @_;
	my $ensemble = $self->{ensemble};
	my @members = $ensemble->servers;
	my $one = _choose($pick, @members);

	return grep { $_ != $one } @members if $role eq 'quorum';
	return wait_until(
		"there is a $role",
		sub {
			return $role eq 'leader'
			  ? $ensemble->leader
			  : _choose($pick, $ensemble->followers);
		});
}

# The network of the clients behind the proxies

sub _network
{
	my ($self, undef, @commands) = @_;

	push @{ $self->{undo} }, sub { $_->reset for @{ $self->{proxies} } };
	for my $proxy (@{ $self->{proxies} })
	{
		# Earlier frames are of no interest.
		$proxy->mark;
		for (@commands)
		{
			my ($command, @args) = @$_;

			$proxy->$command(@args);
		}
	}
	return;
}

sub _lose
{
	my ($self, $pick, $dir) = @_;

	$self->_network(
		$pick,
		map {
			[
				'rule',
				dir => $dir,
				nth => 1 + int($_ * 20 * $pick),
				action => 'drop'
			]
		} 1 .. 5);
	return;
}

# A server gets another setting of its session with ZooKeeper.

sub _change_settings
{
	my ($self, $pick) = @_;
	my $server = _choose($pick, @{ $self->{servers} });
	my $timeout = 3000 + ++$self->{changes};

	$server->psql('-c', "ALTER SYSTEM SET zklock.session_timeout = $timeout");
	$server->psql('-c', 'SELECT pg_reload_conf()');
	return;
}

# Backends, one or several of a server

sub _signal
{
	my ($self, $pick, $state, $signal) = @_;
	my $server = _choose($pick, @{ $self->{servers} });

	$self->_signal_one($server, $_, $signal) for ref $state ? @$state : $state;
	return;
}

sub _signal_one
{
	my ($self, $server, $state, $signal) = @_;
	my $pid = $self->_catch($server, $state);

	kill($signal, $pid);
	kill('CONT', $pid) if $signal ne 'STOP';

	# A server restarts after it has lost a backend.
	push @{ $self->{undo} }, sub {
		wait_until('the server is back',
			sub { !kill(0, $pid) && $server->accepts_connections });
	  }
	  if $signal eq 'KILL';
	return;
}

# Suspends a backend in the given state, and returns its pid. The state can
# have changed when the signal arrives, so it is checked again.
sub _catch
{
	my ($self, $server, $state) = @_;
	my $find = sub {
		my ($also) = @_;

		return $server->psql(
			'-c', "SELECT pid FROM pg_stat_activity
			WHERE $known{$state} AND $also LIMIT 1");
	};

	return wait_until(
		"there is a $state",
		sub {
			my $pid = $find->('true') or return;

			push @{ $self->{undo} }, sub { kill('CONT', $pid) };
			kill('STOP', $pid);
			return $pid if $find->("pid = $pid");
			kill('CONT', $pid);
			return;
		});
}

sub _choose
{
	my ($pick, @all) = @_;

	return $all[ $pick * @all ];
}

1;
