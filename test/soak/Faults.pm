# Faults of ZooKeeper, the network and the backends, one at a time: each fault
# is made, lasts for some seconds, and is undone.
#
#	my $next = Faults::plan($seed);
#	my $fault = $next->();		# { name, gap, seconds, pick }
#	$faults->make($load, $fault->{name}, $fault->{pick});
#	$faults->undo;
#
# A plan depends only on its seed. The victims depend on the current state.

package Faults;

use strict;
use warnings;

use Client;
use Digest::MD5 qw(md5);
use Time::HiRes qw(sleep);
use Wait;

# A session's timeout, and ZooKeeper's tickTime, in seconds. ZooKeeper may take one and a half
# ticks longer than the timeout to end a session, and a leader or follower that is silent for
# SYNC_LIMIT ticks is given up.
use constant {
	TIMEOUT => 3,
	TICK => 1,
	SYNC_LIMIT => 3,
};

# Are A and B a pair, each with tables of its own that replicate into the other's?
use constant PAIR => ($ENV{REPLICAS} // '') eq 'pair';

# The servers with tables that clients write to, and those that subscribe to them
use constant OWNERS => PAIR ? qw(A B) : 'A';
use constant SUBSCRIBERS => PAIR ? OWNERS : 'D';

# Ranges of a fault's duration in seconds: shorter than a session's timeout,
# longer, or either; for the second of two pauses of a process, in which its session may end
# before a follower has told the leader of what it has heard between them; and for a planned end
# of a session, long enough to see its effects
my ($short, $long, $any, $second, $observed) =
  ([ 0.3, 2 ], [ 4.6, 5.4 ], [ 0.3, 5 ], [ TICK / 2, TIMEOUT / 2 ], [ 5, 5 ]);

# The first pause of a process that is suspended twice, as part of a session's timeout, and the
# seconds between both pauses
use constant {
	FIRST => [ 0.8, 1.05 ],
	BETWEEN => [ 0.025, 0.1 ],
};

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
	'thinker frozen for long' => [ $long, _freeze_thinker => 'thinker' ],
	'thinker frozen twice' => [ $second, '_freeze_twice' ],
	'waiter frozen' => [ $short, _signal => 'waiter', 'STOP' ],
	'waiter frozen for long' => [ $long, _signal => 'waiter', 'STOP' ],
	'waiter cancelled' => [ $short, _signal => 'waiter', 'INT' ],
	'waiter terminated' => [ $short, _signal => 'waiter', 'TERM' ]);

# If backends share their server's session, its worker fails as well. A holder
# learns too late of the loss of its lock only if both are suspended.
my %of_workers = (
	'holder and worker frozen for long' =>
	  [ $long, _signal => [qw(holder worker)], 'STOP' ],
	'thinker and worker frozen for long' =>
	  [ $long, _freeze_thinker => 'thinker', 'worker' ],
	'worker frozen' => [ $short, _signal => 'worker', 'STOP' ],
	'worker frozen for long' => [ $long, _signal => 'worker', 'STOP' ],
	'worker killed' => [ $short, _signal => 'worker', 'KILL' ]);

# An administrator ends the server's session. No lock may be lost by that.
my %planned = (
	'settings changed' => [ $observed, '_change_settings' ],
	'worker terminated' => [ $observed, _signal => 'worker', 'TERM' ]);

# What carries data to subscribers, asks publishers for their positions, and answers
my %of_subscriptions = (
	'sender frozen' => [ $any, _signal_replica => [OWNERS], 'sender', 'STOP' ],
	'sender terminated' => [ $short, _signal_replica => [OWNERS], 'sender', 'TERM' ],
	'apply frozen' => [ $any, _signal_replica => [SUBSCRIBERS], 'apply', 'STOP' ],
	'apply terminated' => [ $short, _signal_replica => [SUBSCRIBERS], 'apply', 'TERM' ],
	'asker frozen' => [ $any, _signal_replica => [SUBSCRIBERS], 'asker', 'STOP' ],
	'asker terminated' => [ $short, _signal_replica => [SUBSCRIBERS], 'asker', 'TERM' ],
	'answerer frozen' => [ $any, _signal_replica => [OWNERS], 'answerer', 'STOP' ],
	'answerer terminated' => [ $short, _signal_replica => [OWNERS], 'answerer', 'TERM' ],
	'subscription disabled' => [
		$any,
		_call => [SUBSCRIBERS],
		'ALTER SUBSCRIPTION books DISABLE', 'ALTER SUBSCRIPTION books ENABLE'
	],
	'subscriber restarted' => [ $short, _restart => [SUBSCRIBERS] ]);

# What carries it to a standby
my %of_standbys = (
	'replay frozen' => [ $any, _signal_replica => ['C'], 'startup', 'STOP' ],
	'receiver terminated' => [ $short, _signal_replica => ['C'], 'receiver', 'TERM' ],
	'replay paused' =>
	  [ $any, _call => ['C'], 'SELECT pg_wal_replay_pause()', 'SELECT pg_wal_replay_resume()' ],
	'standby restarted' => [ $short, _restart => ['C'] ]);

%faults = (%faults, %of_workers, %planned) if $ENV{ZKLOCK_SESSION};
%faults = (%faults, %of_subscriptions) if $ENV{REPLICAS};
%faults = (%faults, %of_standbys) if $ENV{REPLICAS} && !PAIR;

# Conditions that find processes in pg_stat_activity: a backend works under a
# lock, is idle while its client thinks, or waits
my $call = "query = '${\ Client::CALL}'";
my %known = (
	holder => "$call AND wait_event = 'PgSleep'",
	thinker => "query = '${\ Client::THINK}' AND state = 'idle in transaction'",
	waiter => "$call AND wait_event_type = 'Extension'",
	worker => "backend_type = 'zklock worker'",
	startup => "backend_type = 'startup'",
	receiver => "backend_type = 'walreceiver'",
	sender => "backend_type = 'walsender'",
	apply => "backend_type LIKE 'logical replication%worker'",
	asker => "backend_type = 'zklock publishers'",
	answerer => "application_name = 'zklock'");

# The fault that locks alone do not survive
sub deadly
{
	return $ENV{ZKLOCK_SESSION}
	  ? 'thinker and worker frozen for long'
	  : 'thinker frozen for long';
}

sub is_planned
{
	my ($name) = @_;

	return exists $planned{$name};
}

# An endless plan: all faults in random order, then all in another order, and
# so on. The fault that locks alone do not survive comes first, and more often, and so does the
# one after which an answer proves least. If there is an $only fault, it has no other.
sub plan
{
	my ($seed, $only) = @_;
	my $numbers = 0;
	my $random = sub { unpack('N', md5("$seed " . $numbers++)) / 2**32 };
	my @often = (deadly(), 'thinker frozen twice');
	my @names = @often;

	die "no fault is called $only\n" if defined $only && !$faults{$only};
	return sub {
		@names = (sort(keys %faults), @often, @often) if !@names;
		my $name = $only // splice(@names, $random->() * @names, 1);
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
# clients of server B and the network that can fail), servers (PgServers A and B by name), all
# (these, and the servers with copies, if there are any)
sub new
{
	my ($class, %arg) = @_;

	return bless { %arg, undo => [], changes => 0 }, $class;
}

# Makes a fault while $load works. $pick (from 0 to 1) selects one of several possible victims.
# While ZooKeeper or the network fails, a client thinks, and it commits before the fault is undone.
sub make
{
	my ($self, $load, $name, $pick) = @_;
	my (undef, $method, @args) = @{ $faults{$name} };

	$self->{load} = $load;
	my $thinker = $method =~ /^_(kill|freeze|network|lose)$/ && $self->_think($pick);

	$self->$method($pick, @args);
	$self->_commit_at_end($thinker) if $thinker;
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
	my (undef, $server) = $self->_choose_server($pick);
	my $timeout = 1000 * TIMEOUT + ++$self->{changes};

	$server->psql('-c', "ALTER SYSTEM SET zklock.session_timeout = $timeout");
	$server->psql('-c', 'SELECT pg_reload_conf()');
	return;
}

# Backends, one or several of a server

sub _signal
{
	my ($self, $pick, $state, $signal) = @_;
	my (undef, $server) = $self->_choose_server($pick);

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

# Replication: a process of one of these servers, what is called on one, and a server that is killed

sub _signal_replica
{
	my ($self, $pick, $names, $state, $signal) = @_;

	$self->_signal_one($self->{all}{ _choose($pick, @$names) }, $state, $signal);
	return;
}

sub _call
{
	my ($self, $pick, $names, $make, $undo) = @_;
	my $server = $self->{all}{ _choose($pick, @$names) };

	push @{ $self->{undo} }, sub { $server->psql('-c', $undo) };
	$server->psql('-c', $make);
	return;
}

sub _restart
{
	my ($self, $pick, $names) = @_;

	$self->{all}{ _choose($pick, @$names) }->restart('QUIT');
	return;
}

# Lets a client think, and returns its server's name and its own, after it has its locks.
sub _think
{
	my ($self, $pick) = @_;
	my $load = $self->{load};
	my ($name, $server) = $self->_choose_server($pick);
	my $client = _choose(_other($pick, 1), grep { /^$name/ } $load->clients);

	$load->think($client);
	wait_until(
		"$client thinks",
		sub {
			$load->tend;
			return $server->psql('-c',
				"SELECT pid FROM pg_stat_activity
				 WHERE application_name = '$client' AND $known{thinker}") ne '';
		});
	return { server => $name, client => $client };
}

# It commits as the first thing when the fault is undone.
sub _commit_at_end
{
	my ($self, $thinker) = @_;

	push @{ $self->{undo} }, sub { $self->{load}->commit($thinker->{client}) };
	return;
}

# Suspends a client's backend while the client thinks, and other processes of its server.
sub _freeze_thinker
{
	my ($self, $pick, @states) = @_;
	my $thinker = $self->_think($pick);

	$self->_catch($self->{servers}{ $thinker->{server} }, $_) for @states;
	$self->_commit_at_end($thinker);
	return;
}

# While a client thinks, suspends the process with its session for about the session's timeout,
# lets it run for a moment, and suspends it again. Between both, the session is heard, and has a
# write answered.
sub _freeze_twice
{
	my ($self, $pick) = @_;
	my $thinker = $self->_think($pick);
	my $proxied = $thinker->{server} eq 'B';
	my $own = !$ENV{ZKLOCK_SESSION};

	# A process that finds nothing to read after such a time takes its connection for lost. So
	# answers are held, as far as there are proxies, until it is suspended.
	if ($proxied)
	{
		$self->_network($pick, [ 'hold', 's2c' ]);
		sleep(TIMEOUT / 3);
	}
	my $pid = $self->_catch($self->{servers}{ $thinker->{server} }, $own ? 'thinker' : 'worker');

	$_->reset for $proxied ? @{ $self->{proxies} } : ();

	# A worker has requests of other backends.
	$self->{load}->lock($thinker->{client}) if $own;
	sleep(TIMEOUT * _between(FIRST, _other($pick, 2)));
	kill('CONT', $pid);
	sleep(_between(BETWEEN, _other($pick, 3)));
	kill('STOP', $pid);
	$self->_commit_at_end($thinker);
	return;
}

sub _between
{
	my ($range, $part) = @_;

	return $range->[0] + ($range->[1] - $range->[0]) * $part;
}

# Another number from 0 to 1 that depends on $pick
sub _other
{
	my ($pick, $n) = @_;

	return unpack('N', md5("$pick $n")) / 2**32;
}

# Suspends a backend in the given state, and returns its pid. The state can
# have changed when the signal arrives, so it is checked again. The process may then have a lock in
# shared memory for which the check would wait without end, so it goes on after some seconds.
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
			my $suspended = kill('STOP', $pid);
			local $SIG{ALRM} = sub { kill('CONT', $pid); $suspended = 0 };
			alarm(3);
			my $is_same = $find->("pid = $pid");
			alarm(0);
			return $pid if $is_same && $suspended;
			kill('CONT', $pid);
			return;
		});
}

# Returns the name of a server, and the server.
sub _choose_server
{
	my ($self, $pick) = @_;
	my $name = _choose($pick, sort keys %{ $self->{servers} });

	return ($name, $self->{servers}{$name});
}

sub _choose
{
	my ($pick, @all) = @_;

	return $all[ $pick * @all ];
}

1;
