# Two PostgreSQL servers, a with a ZooKeeper session for each backend and b with one session
# for the server, each behind a PgBouncer with pool_mode = transaction, and clients of the
# reservation of docs/longer-locks.md.
#
#	my $trial = Reservations->new($bindir, $dir, $seed);
#	$trial->start;
#	$trial->install;					# the SQL of the page
#	my $round = $trial->play($seconds, with_faults => 1);
#	$trial->stop;
#
# $dir must be private and have copies of @Reservations::files.

package Reservations;

use strict;
use warnings;

use Check qw(violations);
use Child;
use Digest::MD5 qw(md5);
use Docs;
use List::Util qw(uniq);
use PgBouncer;
use PgServer;
use Time::HiRes qw(sleep time);
use Wait;
use ZkServer;

use constant {
	PAGE => 'docs/longer-locks.md',
	JOB => '/jobs/import',
	TTL => 1000,             # ms, of the load
	WORKERS => 9,            # and an administrator
	SESSION_TIMEOUT => 2,    # s
};

our @files = qw(client.py load.sql);

# The statements of the page that make the reservation, each [ session, statement ]
my @statements = map {
	my $as = $_->{as};
	map { [ $as, $_->[0] ] } grep { $_->[0] =~ /^(?:CREATE|IMPORT|INSERT)/ } @{ $_->{statements} }
} sql_blocks(PAGE, 'A reservation');

# What the page has for a reason: functions that remove it from a statement
my %mutants = (
	'without the lock' => sub { s/^ *PERFORM zk_lock_guard\(.*\n//mg },
	'without the check of the holder in enter' =>
	  sub { /FUNCTION enter\b/ && s/ AND holder = id// },
	'without the deadline' => sub { s/ AND until < clock_timestamp\(\)// },
	'without FOR KEY SHARE' => sub { s/ FOR KEY SHARE;?// },
	'without UNIQUE' => sub { s/ UNIQUE// });

sub mutants
{
	return sort keys %mutants;
}

sub new
{
	my ($class, $bindir, $dir, $seed) = @_;

	return bless {
		bindir => $bindir,
		dir => $dir,
		seed => $seed,
		servers => [qw(a b)],
		rounds => 0,
		clients => {},
		undo => []
	}, $class;
}

sub start
{
	my ($self) = @_;
	my %mode = (
		a => { 'zklock.session_mode' => 'backend', shared_preload_libraries => 'zklock' },

		# Each commit on b takes a while after postgres_fdw has committed on a.
		b => {
			'zklock.session_mode' => 'server',
			fsync => 'on',
			commit_delay => 100000,
			commit_siblings => 0
		});

	$self->{zk} = ZkServer->new(tick_time => 500)->start;
	for my $name (qw(a b))
	{
		mkdir("$self->{dir}/$name") or die "$self->{dir}/$name: $!\n";
		$self->{pg}{$name} = PgServer->new(
			$self->{bindir}, "$self->{dir}/$name",
			cluster_name => $name,
			track_commit_timestamp => 'on',
			'zklock.hosts' => $self->{zk}->hosts,
			'zklock.session_timeout' => SESSION_TIMEOUT . 's',
			%{ $mode{$name} });
		$self->{pg}{$name}->start;
		$self->{pool}{$name} = PgBouncer->new(
			$self->{pg}{$name},
			pool_mode => 'transaction',
			default_pool_size => 40,

			# After a restart, do not wait for long.
			server_login_retry => 0.1);
	}
	return;
}

# Stops all, in whatever state they are.
sub stop
{
	my ($self) = @_;

	$self->_undo;
	$self->end_clients;
	$_->stop for values %{ $self->{pool} }, values %{ $self->{pg} };
	$self->{zk}->stop if $self->{zk};
	return;
}

# Makes the reservation and the tables of the load anew, as the page has it or as a mutant.
sub install
{
	my ($self, $mutant) = @_;
	my $changed = 0;

	$self->prepare;
	for (@statements)
	{
		my ($as, $sql) = @$_;

		if ($mutant)
		{
			local $_ = $sql;
			$changed++ if $mutants{$mutant}->();
			$sql = $_;
		}
		$self->_psql($_, $sql)
		  for $as eq 'both' ? qw(a b) : $as eq 'the owner of the data' ? 'a' : $as;
	}
	die "mutant \"$mutant\" changes nothing\n" if $mutant && !$changed;
	$self->install_load;
	return;
}

# Makes the databases as the page assumes them.
sub prepare
{
	my ($self) = @_;

	$self->_psql($_, 'SET client_min_messages = warning;
		DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE EXTENSION zklock')
	  for qw(a b);
	$self->_psql('b', "CREATE EXTENSION postgres_fdw;
		CREATE SERVER data FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '${\ $self->{pg}{a}->host}', port '${\ $self->{pg}{a}->port}',
				dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER data OPTIONS (user 'postgres')");
	return;
}

# Makes the tables of the load, once the reservation is there.
sub install_load
{
	my ($self) = @_;

	$self->{pg}{a}->psql('-f', "$self->{dir}/load.sql");
	$self->{pg}{b}->psql('-v', 'foreign=1', '-f', "$self->{dir}/load.sql");
	return;
}

# Lets clients work for some seconds; longer, until so many kinds of faults were made as the
# option with_faults says; shorter, until a violation is found, with the option until_found; with
# the option servers, on these only. Returns a hash with
#
#	seconds				the duration
#	transactions		the number of entered transactions that committed, by server
#	turns				how often somebody got the reservation
#	holders				how many of them have worked
#	faults, errors		their numbers, by name and by SQLSTATE
#	violations			descriptions
sub play
{
	my ($self, $seconds, %opt) = @_;
	my $begin = time();
	my $end = $begin + $seconds;
	my $plan = _plan($self->{seed} . ' ' . ++$self->{rounds});
	my %round = (faults => {}, violations => []);

	local $self->{servers} = $opt{servers} // [qw(a b)];
	$self->start_client($_, 'worker') for map { "worker $_" } 1 .. WORKERS;
	$self->start_client('administrator', 'administrator');
	while ((time() < $end || keys %{ $round{faults} } < ($opt{with_faults} // 0))
		&& !($opt{until_found} && @{ $round{violations} }))
	{
		if ($opt{with_faults})
		{
			my ($name, $pick) = $plan->();

			$self->_pass(0.5 + $pick);
			$self->_make($name, $pick);
			$round{faults}{$name}++;
		}
		else
		{
			$self->_pass(1);
		}
		$self->_look(\%round) if $opt{until_found};
	}
	$self->_settle if !$opt{until_found};
	$self->end_clients;
	$self->_look(\%round);
	$round{seconds} = time() - $begin;
	$round{errors} = $self->_errors;
	return \%round;
}

# Commits on b take no longer than elsewhere, from now on.
sub commit_at_once
{
	my ($self) = @_;

	$self->_psql('b', $_)
	  for 'ALTER SYSTEM SET commit_delay = 0', 'SELECT pg_reload_conf()';
	wait_until('commits are not delayed',
		sub { $self->_psql('b', 'SHOW commit_delay') eq '0' });
	return;
}

# Returns the entered transactions of a job in a second, beside ten pollers of this kind, if any.
sub rate
{
	my ($self, $kind) = @_;

	$self->_psql($_, 'TRUNCATE work') for qw(a b);
	$self->start_client("$kind $_", $kind) for $kind ? 1 .. 10 : ();
	$self->start_client('job', 'job', 10_000);

	# The first seconds are those of the connections.
	my @counts;
	wait_until('the job has worked for some seconds',
		sub {
			$self->{clients}{job}{child}->check;
			@counts = $self->{clients}{job}{child}->output =~ /^transactions (\d+)$/mg;
			return @counts >= 5;
		});
	$self->end_clients;
	$self->_psql('a', q(UPDATE reservation SET holder = NULL, until = '-infinity'));
	splice(@counts, 0, 2);
	my $sum = 0;
	$sum += $_ for @counts;
	return $sum / @counts;
}

# Clients

sub start_client
{
	my ($self, $name, $kind, $ttl) = @_;
	my $log = "$self->{dir}/$name.log" =~ tr/ /-/r;

	unlink($log);
	$self->{clients}{$name} = {
		log => $log,
		command => [
			'/usr/bin/python3', "$self->{dir}/client.py",
			$kind, "$self->{seed} $self->{rounds} $name", JOB, $ttl // TTL,
			map { $self->{pool}{$_}->connstr('postgres') . ' user=postgres' } @{ $self->{servers} }
		]
	};
	$self->_tend;
	return;
}

# Starts clients that have ended.
sub _tend
{
	my ($self) = @_;

	for my $client (values %{ $self->{clients} })
	{
		$client->{child} = Child->start($client->{log}, @{ $client->{command} })
		  if !$client->{child} || !$client->{child}->is_running;
	}
	return;
}

sub end_clients
{
	my ($self) = @_;

	$_->{child}->stop('KILL') for values %{ $self->{clients} };
	$self->{ended} = delete $self->{clients};
	$self->{clients} = {};
	return;
}

# The number of errors of the clients that have ended, by SQLSTATE
sub _errors
{
	my ($self) = @_;
	my %count;

	for my $client (values %{ $self->{ended} })
	{
		$count{$_}++ for $client->{child}->output =~ /^([0-9A-Z]{5}|none)$/mg;
	}
	return \%count;
}

sub _pass
{
	my ($self, $seconds) = @_;
	my $end = time() + $seconds;

	while (time() < $end)
	{
		$self->_tend;
		sleep(0.05);
	}
	return;
}

# After the last fault, holders work on all servers.
sub _settle
{
	my ($self) = @_;
	my $since = $self->_psql('a', 'SELECT clock_timestamp()');

	for my $name (@{ $self->{servers} })
	{
		wait_until("a holder works on $name again",
			sub {
				$self->_tend;
				return $self->_psql($name,
					"SELECT EXISTS (SELECT FROM work WHERE entered > '$since')") eq 't';
			});
	}
	return;
}

# Faults

# Suspensions are longer than the reservation and the session last.
my $long = SESSION_TIMEOUT + 1;
my %faults = (
	'client suspended' => [ '_signal_client', 'STOP', $long ],
	'client killed' => [ '_signal_client', 'KILL', 0 ],
	'backend suspended' => [ '_signal_process', 'ab', 'backend', 'STOP', $long ],
	'backend terminated' => [ '_signal_process', 'ab', 'backend', 'TERM', 0 ],
	'backend killed' => [ '_signal_process', 'ab', 'backend', 'KILL', 0 ],
	'worker suspended' => [ '_signal_process', 'b', 'worker', 'STOP', $long ],
	'worker terminated' => [ '_signal_process', 'b', 'worker', 'TERM', 0 ],
	'worker killed' => [ '_signal_process', 'b', 'worker', 'KILL', 0 ],
	'fast restart' => [ '_restart', 'INT' ],
	'immediate restart' => [ '_restart', 'QUIT' ]);

# A backend is suspended only while it works: in the middle of its commit, the page promises
# less.
my %condition = (
	backend => q(wait_event = 'PgSleep'),
	worker => q(backend_type = 'zklock worker'));

# An endless sequence of faults, each with a number from 0 to 1: all of them in random order,
# then all in another order
sub _plan
{
	my ($seed) = @_;
	my $numbers = 0;
	my $random = sub { unpack('N', md5("$seed " . $numbers++)) / 2**32 };
	my @names;

	return sub {
		@names = sort(keys %faults) if !@names;
		return (splice(@names, $random->() * @names, 1), $random->());
	};
}

sub _make
{
	my ($self, $name, $pick) = @_;
	my ($method, @arguments) = @{ $faults{$name} };

	$self->$method($pick, @arguments);
	$self->_undo;
	return;
}

sub _undo
{
	my ($self) = @_;

	while (my $undo = pop @{ $self->{undo} })
	{
		$undo->();
	}
	return;
}

sub _signal_client
{
	my ($self, $pick, $signal, $seconds) = @_;
	my @names = sort keys %{ $self->{clients} };
	my $pid = $self->{clients}{ $names[ $pick * @names ] }{child}{pid};

	push @{ $self->{undo} }, sub { kill('CONT', $pid) };
	kill($signal, $pid);
	$self->_pass($seconds);
	return;
}

sub _signal_process
{
	my ($self, $pick, $servers, $what, $signal, $seconds) = @_;
	my $server = substr($servers, $pick * length($servers), 1);
	my $pid = $self->_catch($server, $what);

	kill($signal, $pid);
	$self->_pass($seconds);
	kill('CONT', $pid);
	wait_until('the killed process is gone', sub { !kill(0, $pid) }) if $signal eq 'KILL';
	$self->_wait_for_server($server);
	return;
}

# Suspends a process in this state, and returns its pid. The state can have changed when the
# signal arrives, so it is checked again.
sub _catch
{
	my ($self, $server, $what) = @_;
	my $find = sub {
		my ($also) = @_;

		return $self->_psql($server, "SELECT pid FROM pg_stat_activity
			WHERE $condition{$what} AND $also LIMIT 1");
	};

	return wait_until(
		"there is a $what",
		sub {
			$self->_tend;
			my $pid = $find->('true') or return;

			push @{ $self->{undo} }, sub { kill('CONT', $pid) };
			kill('STOP', $pid);
			return $pid if $find->("pid = $pid");
			kill('CONT', $pid);
			return;
		});
}

sub _restart
{
	my ($self, $pick, $signal) = @_;

	$self->{pg}{ $pick < 0.5 ? 'a' : 'b' }->restart($signal);
	return;
}

sub _wait_for_server
{
	my ($self, $server) = @_;

	wait_until('the server is back', sub { $self->{pg}{$server}->accepts_connections });
	return;
}

# Results

# Adds what was committed so far, and its violations.
sub _look
{
	my ($self, $round) = @_;
	my (@work, @turns);

	# The work first: each holder of it is among the turns.
	for my $server (qw(a b))
	{
		push @work, map { { %$_, server => $server } } $self->_rows(
			$server,
			'work',
			holder => 'holder',
			entered => 'extract(epoch FROM entered)',
			seen => 'seen',
			committed => 'extract(epoch FROM pg_xact_commit_timestamp(xid::xid))');
		$round->{transactions}{$server} = grep { $_->{server} eq $server } @work;
	}
	@turns = $self->_rows(
		'a',
		'turn ORDER BY number',
		number => 'number',
		former => 'former',
		deadline => 'extract(epoch FROM deadline)',
		holder => 'holder',
		by_hand => 'by_hand',
		at => 'extract(epoch FROM at)');
	$round->{turns} = grep { $_->{holder} ne '' } @turns;
	$round->{holders} = uniq(map { $_->{holder} } @work);
	$round->{violations} = [ violations(\@turns, \@work) ];
	return;
}

# Returns the rows of a table, each a hash; %columns has the expression for each key.
sub _rows
{
	my ($self, $server, $table, %columns) = @_;
	my @names = sort keys %columns;
	my $list = join(', ', map { $columns{$_} } @names);

	return map {
		my %row;

		@row{@names} = split(/\|/, $_, -1);
		\%row;
	} split(/\n/, $self->_psql($server, "SELECT $list FROM $table"));
}

sub _psql
{
	my ($self, $server, $sql) = @_;

	return $self->{pg}{$server}->psql('-c', $sql);
}

1;
