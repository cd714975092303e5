# A contestant that consists of backends of a PostgreSQL server, each with a
# loop inside the server: zklock, and advisory locks. It has the interface of a
# Program.

package Backends;

use strict;
use warnings;

use Child;
use PgServer;
use Time::HiRes qw(time);
use Wait;

# Seconds from an order to the common start
use constant HEAD_START => 0.2;

my $started = 0;

# Calls that acquire and release each kind of lock on path p; those called
# advisory are PostgreSQL's.
my %take = (
	mutex => [ 'zk_lock_acquire(p)', 'zk_lock_release(p)' ],
	'read-mostly' => [
		q(zk_lock_acquire(p, mode => side)), q(zk_lock_release(p, side))
	],
	readers => [ q(zk_lock_acquire(p, mode => 'shared')), q(zk_lock_release(p, 'shared')) ],
	semaphore => [ 'zk_semaphore_acquire(p, 4)', 'zk_semaphore_release(p)' ],
	'free-tries' => [ q(zk_lock_acquire(p, '0')), 'zk_lock_release(p)' ],
	tries => [ q(zk_lock_acquire(p, '0')), 'NULL' ],
	polls => [ q(zk_lock_acquire(p, '0')), 'pg_sleep(0.02)' ],
	advisory =>
	  [ 'pg_advisory_lock(hashtext(p))', 'pg_advisory_unlock(hashtext(p))' ],
	'advisory readers' => [
		'pg_advisory_lock_shared(hashtext(p))', 'pg_advisory_unlock_shared(hashtext(p))'
	]);

# Runs once on the server. The result of a run has the number of turns, their
# time, and that of the acquires, in seconds.
sub functions
{
	return join('', map { _function($_, @{ $take{$_} }) } sort keys %take)
	  . join('', map { _first_lock($_, $take{$_}[0]) } qw(mutex advisory));
}

sub _first_lock
{
	my ($kind, $acquire) = @_;

	return <<"EOSQL";
CREATE FUNCTION "first $kind"(p text) RETURNS float8
LANGUAGE plpgsql AS \$\$
DECLARE
	asked timestamptz := clock_timestamp();
BEGIN
	PERFORM $acquire;
	RETURN extract(epoch FROM clock_timestamp() - asked) * 1e6;
END \$\$;
EOSQL
}

sub _function
{
	my ($kind, $acquire, $release) = @_;

	return <<"EOSQL";
CREATE FUNCTION "run $kind"(path text, paths int, start float8, seconds float8)
RETURNS text
LANGUAGE plpgsql AS \$\$
DECLARE
	began timestamptz;
	asked timestamptz;
	acquiring interval := '0';
	ops bigint := 0;
	p text := path;
	side zk_lock_mode;
BEGIN
	PERFORM pg_sleep(start - extract(epoch FROM clock_timestamp()));
	began := clock_timestamp();
	LOOP
		asked := clock_timestamp();
		EXIT WHEN asked >= began + make_interval(secs => seconds);
		IF paths > 1 THEN
			p := path || '/' || floor(random() * paths);
		END IF;
		@{[$kind eq 'read-mostly' ?
			"side := CASE WHEN random() < 0.05 THEN 'write' ELSE 'shared' END;" : '']}
		PERFORM $acquire;
		acquiring := acquiring + (clock_timestamp() - asked);
		PERFORM $release;
		ops := ops + 1;
	END LOOP;
	RETURN concat_ws(' ', ops, extract(epoch FROM asked - began),
					 extract(epoch FROM acquiring));
END \$\$;
EOSQL
}

# $mutex is the kind of lock for a mutex: 'mutex', or 'advisory'. %settings are
# those of the sessions.
sub new
{
	my ($class, $name, $server, $mutex, %settings) = @_;

	return bless {
		name => $name,
		server => $server,
		mutex => $mutex,
		settings => \%settings,
		backends => [],
		opened => 0,
	}, $class;
}

sub name
{
	my ($self) = @_;

	return $self->{name};
}

# The calls for a kind of locks
sub _calls
{
	my ($self, $kind) = @_;

	return $kind eq 'mutex' ? $self->{mutex} :
	  $self->{mutex} eq 'advisory' ? "advisory $kind" : $kind;
}

sub knows
{
	my ($self, $kind) = @_;

	return exists $take{ $self->_calls($kind) };
}

# Connects more backends to PostgreSQL, up to this number.
sub connect
{
	my ($self, $clients) = @_;
	my $backends = $self->{backends};
	my $set = join(' ',
		map { "SET $_ = '$self->{settings}{$_}';" }
		  sort keys %{ $self->{settings} });

	while (@$backends < $clients)
	{
		my $psql = Child->start(
			"$self->{server}{dir}/psql-" . ++$started . '.log',
			"$self->{server}{bindir}/psql",
			'-XqAt', '-v', 'ON_ERROR_STOP=1',
			PgServer::conninfo($self->{server}{dir}, $self->{server}{port}));

		push @$backends, { psql => $psql, answers => 0 };
		$psql->say($set) if $set;
	}
	return;
}

# ... and to ZooKeeper as well.
sub open
{
	my ($self, $clients) = @_;
	my $sql = $self->{mutex} eq 'advisory' ? 'SELECT 1' :
	  q(SELECT zk_lock_acquire('/bench/open_' || pg_backend_pid())
		AND zk_lock_release_all() = 1);

	$self->connect($clients);
	return if $self->{opened} >= $clients;
	$self->_ask($clients, $sql);
	$self->{opened} = $clients;
	return;
}

sub run
{
	my ($self, $kind, $clients, $seconds, $path, $paths) = @_;
	my ($rate, $ops, $acquiring) = (0, 0, 0);

	$kind = $self->_calls($kind);
	$self->open($clients);
	for ($self->_ask($clients,
			qq(SELECT "run $kind"('$path', $paths, @{[time() + HEAD_START]}, $seconds))))
	{
		my ($times, $elapsed, $waited) = split(/ /);

		$rate += $times / $elapsed;
		$ops += $times;
		$acquiring += $waited;
	}
	return ($rate, $acquiring / $ops * 1e6);
}

sub first
{
	my ($self, $n, $path) = @_;
	my $sum = 0;

	local $ENV{PGOPTIONS} = Arena::options($self->{settings});
	$sum += $self->{server}->psql('-c', qq(SELECT "first $self->{mutex}"('$path'))) for 1 .. $n;
	return $sum / $n;
}

# All its processes; those of zklock with the server's session have a worker, too.
sub pids
{
	my ($self) = @_;
	my @workers = ($self->{settings}{'zklock.session_mode'} // '') eq 'server' ?
	  split(/\n/, $self->{server}->psql('-c',
			q(SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'zklock%'))) :
	  ();

	return @workers, $self->_ask(scalar @{ $self->{backends} }, 'SELECT pg_backend_pid()');
}

sub stop
{
	my ($self) = @_;

	$_->{psql}->finish($Wait::timeout) for @{ $self->{backends} };
	return;
}

# Returns the results of this number of backends for one query.
sub _ask
{
	my ($self, $clients, $sql) = @_;
	my @asked = @{ $self->{backends} }[ 0 .. $clients - 1 ];
	my @answers;

	for my $backend (@asked)
	{
		$backend->{answers}++;
		$backend->{psql}->say("$sql;");
	}
	for my $backend (@asked)
	{
		my @lines;

		wait_until(
			"$self->{name} answers",
			sub {
				$backend->{psql}->check;
				@lines = grep { /\n/ } split(/^/, $backend->{psql}->output);
				return @lines >= $backend->{answers};
			});
		push @answers, $lines[ $backend->{answers} - 1 ] =~ s/\n//r;
		die "$self->{name}: $answers[-1]\n" if $answers[-1] =~ /ERROR|WARNING/;
	}
	return @answers;
}

1;
