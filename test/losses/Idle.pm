# Idle sessions hold locks through a follower that is cut off from its leader: how long it
# takes from the moment at which another client has the lock until the holder's client sees that
# its connection ends.
#
#	my $idle = Idle->new($bindir, $dir, sync_limit => 5, timeouts => [ 4, 10 ], ...);
#	my @told = $idle->play('alone');	# or 'together' with the PostgreSQL servers
#	$idle->stop;
#
# $dir must be private, and its path short enough for a socket. The network must be that of
# ZkNet. modes are those of the session (both by default), and kinds those of the holders, of
# which there is one for each mode, timeout and kind:
#
#	advisory	an advisory lock, with zklock.on_loss = 'auto'
#	lock		a lock of session scope, with zklock.on_loss = 'disconnect'
#
# A result has mode, timeout (s), kind, and told: s after the other client had the lock, which
# may be negative. It is undefined if the lock was not lost, because the session has moved to
# another member in time.

package Idle;

use strict;
use warnings;

use Holder;
use List::Util qw(max);
use PgServer;
use Rounds;
use Time::HiRes qw(time);
use ZkEnsemble;
use ZkNet;

use constant {
	TICK => 2000,                 # ms
	OTHERS => '127.8.0.1',        # where PostgreSQL reaches the other members
	PATIENCE => 30,               # s after syncLimit
};

# The statements that a holder begins with
my %kinds = (
	advisory => [ q(SET zklock.advisory_locks = 'cluster'), 'SELECT pg_advisory_lock(%d)' ],
	lock => [ q(SET zklock.on_loss = 'disconnect'), q(SELECT zk_lock_acquire('/idle/%d')) ]);

sub new
{
	my ($class, $bindir, $dir, %opt) = @_;
	my $self = bless {
		modes => [qw(backend server)],
		kinds => [ sort keys %kinds ],
		%opt,
		servers => {},
		locks => 0,
	}, $class;
	my $ensemble = $self->{ensemble} = ZkEnsemble->new(
		tick_time => TICK,
		own_links => 1,
		config => { syncLimit => $opt{sync_limit}, clientPortAddress => '0.0.0.0' });

	$ensemble->start;
	$ensemble->wait_for_all;
	my ($follower, $other) = $ensemble->followers;
	my @others = ($ensemble->leader, $other);
	my $hosts = join(',', $follower->hosts, map { OTHERS . ':' . $_->port } @others);
	@$self{qw(follower leader others)} = ($follower, $others[0], \@others);
	for my $mode (@{ $self->{modes} })
	{
		for my $timeout (@{ $opt{timeouts} })
		{
			my $pg = $self->{servers}{$mode}{$timeout} = PgServer->with_zklock(
				$bindir, "$dir/$mode$timeout", $hosts,
				shared_preload_libraries => 'zklock',
				shared_buffers => '16MB',
				'zklock.connect_timeout' => '1min',
				'zklock.session_mode' => $mode,
				'zklock.session_timeout' => "${timeout}s");
			$pg->psql('-c', 'CREATE EXTENSION zklock_advisory');
		}
	}
	return $self;
}

sub stop
{
	my ($self) = @_;

	$_->stop for map { values %$_ } values %{ $self->{servers} };
	$self->{ensemble}->stop;
	return;
}

sub play
{
	my ($self, $how) = @_;
	my $ensemble = $self->{ensemble};
	my $link = ZkEnsemble::link_address(map { $ensemble->number_of($_) } @$self{qw(follower leader)});
	my @holders;

	# A client tries the members in a random order: at first it reaches only the follower.
	ZkNet::cut(OTHERS, qw(to from));
	$_->restart('INT') for map { values %$_ } values %{ $self->{servers} };
	for my $mode (@{ $self->{modes} })
	{
		for my $timeout (@{ $self->{timeouts} })
		{
			push @holders, map { $self->_holder($mode, $timeout, $_) } @{ $self->{kinds} };
		}
	}
	ZkNet::heal(OTHERS, qw(to from)) if $how eq 'alone';
	ZkNet::cut($link, qw(to from));
	$self->_watch(@holders);
	ZkNet::heal($link, qw(to from));
	ZkNet::heal(OTHERS, qw(to from)) if $how eq 'together';
	$_->{rival}{client}->socket->close for @holders;
	$ensemble->wait_for_all;
	die "another member leads the ensemble\n" if $ensemble->leader != $self->{leader};

	return map {
		{
			mode => $_->{mode},
			timeout => $_->{timeout},
			kind => $_->{kind},
			told => $_->{moved} ? undef : $_->{session}->ended - $_->{rival}{has},
		}
	} @holders;
}

# Returns a session that holds a lock, and the client that waits for it at the leader.
sub _holder
{
	my ($self, $mode, $timeout, $kind) = @_;
	my $session = Holder->new($self->{servers}{$mode}{$timeout});
	my $n = ++$self->{locks};

	$session->query(s/%d/$n/r) for @{ $kinds{$kind} };
	my $path = $session->query('SELECT path FROM zk_locks WHERE pid = pg_backend_pid()');
	my $id = $session->query('SELECT session_id FROM zk_session()');
	die "session $id is not connected to the follower\n"
	  if $self->{follower}->four_letter('cons') !~ /sid=$id,/;
	return {
		mode => $mode,
		timeout => $timeout,
		kind => $kind,
		id => $id,
		session => $session,
		rival => Rival->new($self->{leader}->hosts, $path),
	};
}

# Waits until all holders have been told, and have lost their locks, or keep them.
sub _watch
{
	my ($self, @holders) = @_;
	my $deadline =
	  time() + max(@{ $self->{timeouts} }) + $self->{sync_limit} * TICK / 1000 + PATIENCE;

	while (@holders =
		grep { !$_->{moved} && (!$_->{session}->ended || !$_->{rival}{has}) } @holders)
	{
		my $ready = '';

		for my $holder (@holders)
		{
			vec($ready, fileno($holder->{session}->socket), 1) = 1 if !$holder->{session}->ended;
			vec($ready, fileno($holder->{rival}{client}->socket), 1) = 1 if !$holder->{rival}{has};
		}
		die "a holder is not told\n" if time() > $deadline;
		if (select($ready, undef, undef, 0.5) <= 0)
		{
			my $connected = join('', map { $_->four_letter('cons') } @{ $self->{others} });

			$_->{moved} = $connected =~ /sid=$_->{id},/ for @holders;
			next;
		}
		for my $holder (@holders)
		{
			my ($session, $rival) = @$holder{qw(session rival)};

			$session->take if !$session->ended && vec($ready, fileno($session->socket), 1);
			$rival->take if !$rival->{has} && vec($ready, fileno($rival->{client}->socket), 1);
		}
	}
	return;
}

1;
