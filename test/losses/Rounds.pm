# A holder of a lock commits after another client has got it: the process with its
# ZooKeeper session was suspended, and the session ended shortly after it had been heard.
#
#	my $rounds = Rounds->new($bindir, $dir, $ensemble);
#	my $lane = $rounds->lane(mode => 'server', timeout => 4, member => 'follower');
#	my @results = $rounds->play([ $lane, map { { stops => 2 } } 1 .. 10 ], ...);
#	$rounds->stop;
#
# $dir must be private, and its path short enough for a socket. A lane has its own
# PostgreSQL server if its mode is 'server'. Lanes play at the same time, each its own
# rounds one after the other.
#
# In a round, a transaction takes a lock and writes a row. The process with the session (the
# worker, or the backend) is suspended as soon as the member of the ensemble has heard it, and
# while it has something to read, so that it does not take its connection for lost. It runs
# again shortly before the leader ends the session. That time is known: it is a multiple of
# tickTime on the machine's clock, and the leader shows it. If there are two stops, the process
# runs for RUN ms, and is suspended again until another client has the lock, then the holder
# commits. Otherwise it goes on, and the commit is sent at about the time when the session ends.
#
# A result has the lane's properties, stops, and
#
#	outcome		committed or refused
#	message		that of the error
#	wrong		committed although the other client had the lock before
#	answered	a write was answered between the stops
#	telling		the session had not ended before the process ran again, and the other client
#				had the lock before the commit, or before it was refused. With a follower,
#				also: the session has not survived because of what was heard between the stops

package Rounds;

use strict;
use warnings;

use Holder;
use IO::Handle;
use JSON::PP;
use List::Util qw(max);
use PgServer;
use POSIX ();
use Time::HiRes qw(clock_gettime sleep time CLOCK_MONOTONIC);
use Wait;
use ZkClient;
use ZkProxy;
use ZkWire;

use constant {
	RUN => [ 25, 100 ],      # ms between two stops
	MARGIN => [ 2, 20 ],     # ms from there to the end of the session
	COMMIT => [ -5, 45 ],    # ms from the session's end to the commit, with one stop
	PING => 100,             # ms from a multiple of half a tick to the leader's pings
	PATIENCE => 0.25,        # s in which a commit ends unless it has to wait
	SESSION_EXPIRED => -112, # ZooKeeper's error
};

my $json = JSON::PP->new->utf8;
my $months = 'JanFebMarAprMayJunJulAugSepOctNovDec';

sub new
{
	my ($class, $bindir, $dir, $ensemble) = @_;

	return bless {
		bindir => $bindir,
		dir => $dir,
		ensemble => $ensemble,
		tick => ($ensemble->servers)[0]->tick_time,
		leader => $ensemble->leader,
		servers => [],
		lanes => 0,
		children => {},    # processes of lanes, by their pids
	}, $class;
}

# Returns a lane with a mode ('server' or 'backend'), a session's timeout in s, and the
# member to which the session is connected ('leader' or 'follower').
sub lane
{
	my ($self, %lane) = @_;
	my $ensemble = $self->{ensemble};
	my $server =
	  $lane{member} eq 'leader' ? $self->{leader} : ($ensemble->followers)[ $self->{lanes} % 2 ];
	my $lane = {
		%lane,
		number => ++$self->{lanes},
		proxy => ZkProxy->new($server->hosts),
		rounds => 0,    # played so far
	};

	if ($lane{mode} eq 'server')
	{
		$lane->{pg} = $self->_server($lane, 'zklock.session_mode' => 'server',
			shared_preload_libraries => 'zklock');
	}
	else
	{
		$lane->{pg} = $self->{shared} //= $self->_server($lane, 'zklock.session_mode' => 'backend');
	}
	return $lane;
}

sub _server
{
	my ($self, $lane, %conf) = @_;
	my $pg = PgServer->with_zklock(
		$self->{bindir}, "$self->{dir}/$lane->{number}",
		$lane->{proxy}->hosts,
		track_commit_timestamp => 'on',
		shared_buffers => '16MB',
		'zklock.session_timeout' => "$lane->{timeout}s",
		%conf);

	push @{ $self->{servers} }, $pg;
	$pg->psql('-c', 'CREATE TABLE kept (round text)');
	return $pg;
}

# Plays the rounds of the lanes, each [ $lane, { stops => 1 or 2 }, ... ].
sub play
{
	my ($self, @lanes) = @_;
	my @results;

	$self->_shift_pings;
	my @pipes = map { $self->_start(@$_) } @lanes;

	for my $pipe (@pipes)
	{
		while (my $line = <$pipe>)
		{
			push @results, $json->decode($line);
		}
		my $pid = delete $self->{children}{$pipe};
		waitpid($pid, 0) == $pid && $? == 0 or die "a lane failed\n";
	}
	my $leader = $self->{ensemble}->leader;
	die "another member leads the ensemble\n" if !$leader || $leader != $self->{leader};
	return @results;
}

sub stop
{
	my ($self) = @_;

	kill('TERM', values %{ $self->{children} });
	$_->stop for @{ $self->{servers} };
	return;
}

# Half a tick after its last pings, the leader sends the next. It learns from the answers whom
# the followers have heard, so it must not send them just before it ends sessions. If it is
# suspended meanwhile, it sends them as soon as it is resumed. As they are never early, they come
# later and later: so this is good for some rounds only.
sub _shift_pings
{
	my ($self) = @_;
	my $half = $self->{tick} / 2000;

	$self->{leader}->pause;
	_sleep_until((int(_now() / $half) + 2) * $half + PING / 1000);
	$self->{leader}->resume;
	return;
}

# Starts a process that plays the rounds of a lane, and returns the end of a pipe from which
# its results can be read.
sub _start
{
	my ($self, $lane, @rounds) = @_;

	pipe(my $results, my $output) or die "pipe: $!\n";
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0)
	{
		# _exit(), because the END blocks belong to the parent.
		$SIG{$_} = sub { POSIX::_exit(1) }
		  for qw(INT TERM HUP PIPE);
		close($results);
		srand($lane->{number} + time());
		my $ok = eval {
			for my $i (0 .. $#rounds)
			{
				my $name = "$lane->{number}-" . ($lane->{rounds} + $i);
				my $result = $self->_round($lane, $name, $rounds[$i]);

				print $output $json->encode($result), "\n";
				$output->flush;
			}
			1;
		} or print STDERR "# round failed: $@";
		POSIX::_exit($ok ? 0 : 1);
	}
	close($output);
	$lane->{rounds} += @rounds;
	$self->{children}{$results} = $pid;
	return $results;
}

sub _between
{
	my ($range) = @_;

	return ($range->[0] + rand($range->[1] - $range->[0])) / 1000;
}

# The machine's clock, which ZooKeeper uses
sub _now
{
	return clock_gettime(CLOCK_MONOTONIC);
}

# What the date is ahead of it. Times of frames, of answers and of commits are dates.
sub _offset
{
	return time() - _now();
}

# Waits until this time of the machine's clock. These waits are the fault that is played, not
# waits for something.
sub _sleep_until
{
	my ($at) = @_;

	sleep(max(0, $at - _now()));
	return;
}

sub _round
{
	my ($self, $lane, $name, $round) = @_;
	my %result = (%$round, map { $_ => $lane->{$_} } qw(mode timeout member));
	my $play = $self->_begin($lane, $name);

	eval {
		$self->_suspend_when_heard($play);
		$self->_resume_in_time($play);
		$round->{stops} == 2 ? $self->_commit_after_pause($play) : $self->_commit_at_end($play);
		%result = (%result, $self->_judge($play));
		1;
	} or do
	{
		my $error = $@;

		kill('CONT', $play->{pid});
		die $error if $error !~ /^the end of the session /;
		%result = (%result, outcome => 'missed', message => $error,
			map { $_ => 0 } qw(answered wrong telling));
	};
	$play->{holder}->close;
	$play->{rival}{client}->socket->close;
	return \%result;
}

# A transaction takes the lock and writes, and another client waits.
sub _begin
{
	my ($self, $lane, $name) = @_;
	my ($pg, $mode) = @$lane{qw(pg mode)};
	my $observer = $lane->{observer} //= Holder->new($pg);
	my $holder = Holder->new($pg);
	my $path = "/losses/$name";

	if ($mode eq 'backend')
	{
		$holder->query("SET zklock.hosts = '${\ $lane->{proxy}->hosts}'");
		$holder->query("SET zklock.session_timeout = '$lane->{timeout}s'");
	}
	$holder->query('BEGIN');
	$holder->query("SELECT zk_lock_guard('$path', '1min')");
	$holder->query("INSERT INTO kept VALUES ('$name')");
	return {
		%$lane,
		name => $name,
		path => $path,
		observer => $observer,
		holder => $holder,
		session => $holder->query('SELECT session_id FROM zk_session()'),
		pid => $mode eq 'backend'
		? $holder->pid
		: $observer->query(
			q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'zklock worker')),
		rival => Rival->new($self->{leader}->hosts, $path),
	};
}

# Suspends the process after it was heard, and before it has read the answer; and finds out when
# the session ends.
sub _suspend_when_heard
{
	my ($self, $play) = @_;
	my $proxy = $play->{proxy};

	$proxy->mark;
	$proxy->hold('s2c');
	my $heard = wait_until('the session is heard',
		sub { (grep { $_->{dir} eq 'c2s' } $proxy->all_frames)[0] });
	kill('STOP', $play->{pid});
	$proxy->release('s2c');

	# Half a tick later the leader has heard it, too.
	_sleep_until($heard->{at} - _offset() + $self->{tick} / 2000 + 0.4);
	$play->{end} = $self->_end_of($play->{session})
	  // die "the end of the session was too early\n";
	return;
}

# Lets the process run shortly before that.
sub _resume_in_time
{
	my ($self, $play) = @_;

	# In a session of its own, the next statement has the session confirmed.
	$play->{holder}->post("SELECT zk_lock_guard('$play->{path}-more', '1min')")
	  if $play->{mode} eq 'backend';

	$play->{last} = $play->{end} - _between(MARGIN);
	$play->{resumed} = $play->{last} - _between(RUN);
	_sleep_until($play->{resumed} - 0.3);
	die "the end of the session has moved\n"
	  if ($self->_end_of($play->{session}) // 0) != $play->{end};
	$play->{proxy}->mark;
	_sleep_until($play->{resumed});
	kill('CONT', $play->{pid});
	return;
}

sub _commit_after_pause
{
	my ($self, $play) = @_;
	my ($holder, $rival) = @$play{qw(holder rival)};

	_sleep_until($play->{last});
	kill('STOP', $play->{pid});
	$rival->wait(time() + $Wait::timeout);
	my $commit = $holder->post('COMMIT');
	$holder->wait_for($commit, time() + PATIENCE) if $play->{mode} eq 'server';
	kill('CONT', $play->{pid});
	$play->{answer} = $holder->wait_for($commit, time() + $Wait::timeout);
	return;
}

sub _commit_at_end
{
	my ($self, $play) = @_;
	my ($holder, $rival) = @$play{qw(holder rival)};

	$rival->wait($play->{end} + _offset() + _between(COMMIT));
	my $commit = $holder->post('COMMIT');
	$rival->wait(time() + $Wait::timeout);
	$play->{answer} = $holder->wait_for($commit, time() + $Wait::timeout);
	return;
}

# Returns the properties of the result.
sub _judge
{
	my ($self, $play) = @_;
	my $answer = $play->{answer} // die "COMMIT does not end\n";
	my $has = $play->{rival}{has} || die "the other client does not get the lock\n";
	my ($resumed, $last) = map { $play->{$_} + _offset() } qw(resumed last);
	my $at = $play->{observer}->query(
		"SELECT coalesce(extract(epoch FROM pg_xact_commit_timestamp(xmin))::text, 'unknown')"
		  . " FROM kept WHERE round = '$play->{name}'");
	die "round $play->{name}: committed, but when?\n" if $at eq 'unknown';

	my $committed = $at ne '';
	my $wrong = $committed && $at > $has;
	my $survived = $play->{member} eq 'follower' && $has > $resumed + $play->{timeout} / 3;
	my $answered = grep {
		$_->{dir} eq 's2c' && $_->{op} =~ /^(create|setData|delete|beat)/
		  && $_->{err} != SESSION_EXPIRED && $_->{at} < $last
	} $play->{proxy}->all_frames;

	return (
		outcome => $committed ? 'committed' : 'refused',
		message => $answer->{message} // $answer->{tag} // 'the connection has ended',
		wrong => $wrong ? 1 : 0,
		late => $committed ? $at - $has : undef,
		answered => $answered ? 1 : 0,
		telling => !$survived && $has > $resumed && $has < $answer->{at}
		  && ($wrong || !$committed) ? 1 : 0);
}

# Returns the time at which the leader will end the session, in s of the machine's clock; or
# undef if it does not know it. It shows the sets of sessions with the date, in whole seconds, at
# which each of them ends, and ends sets at multiples of tickTime.
sub _end_of
{
	my ($self, $session) = @_;
	my $dump = $self->{leader}->four_letter('dump');
	my $date;

	for my $line (split(/\n/, $dump))
	{
		$date = $1 if $line =~ /expire at (.*):$/;
		next if $line !~ /^\t\Q$session\E$/ || !$date;
		my ($month, $day, $hour, $minute, $second, $year) =
		  $date =~ /^\w+ (\w+) +(\d+) (\d+):(\d+):(\d+) \S+ (\d+)$/
		  or die "date $date\n";
		my $about =
		  POSIX::mktime($second, $minute, $hour, $day, index($months, $month) / 3, $year - 1900)
		  + 0.5 - _offset();
		my $tick = $self->{tick} / 1000;

		return sprintf('%.0f', $about / $tick) * $tick;
	}
	return;
}

# The other client: it waits behind the holder, and notes when it has the lock.
package Rival;

use strict;
use warnings;

use Time::HiRes qw(time);
use ZkClient;
use ZkWire;

sub new
{
	my ($class, $hosts, $path) = @_;
	my $client = ZkClient->new($hosts, 60_000);
	my ($first, @others) = $client->children($path);

	die "$path: not one node\n" if !$first || @others;
	$client->create("$path/_c_rival-lock-", '', ZkClient::EPHEMERAL | ZkClient::SEQUENCE);
	$client->exists("$path/$first", 1) or die "$path: the lock is lost already\n";
	return bless { client => $client, in => '', has => 0 }, $class;
}

# Waits until it has the lock, at most until this time. Returns whether it has.
sub wait
{
	my ($self, $until) = @_;

	while (!$self->{has})
	{
		my $seconds = $until - time();

		return 0 if $seconds <= 0;
		vec(my $ready = '', fileno($self->{client}->socket), 1) = 1;
		$self->take if select($ready, undef, undef, $seconds) > 0;
	}
	return 1;
}

# Reads what has arrived.
sub take
{
	my ($self) = @_;
	my $at = time();
	my $message = $self->{client}->recv;

	$self->{has} = $at
	  if $message->{xid} == XID_EVENT && decode_event($message->{results})->{event} eq 'deleted';
	return;
}

1;
