# Two PostgreSQL servers, A and B, and three ZooKeeper servers under load with
# one fault after another, and a check of the results. With REPLICAS in the environment, also C and
# D, which have copies of A's data; or A and B are a pair, and replicate each other.
#
#	my $soak = Soak->new($bindir, $dir, $seed);
#	$soak->start;
#	my $ok = $soak->run($seconds);		# prints a report
#	$soak->stop;
#
# $dir must be private and have a copy of soak.sql, and its path must be short
# enough for a socket. If a fault is given as well, there is no other.

package Soak;

use strict;
use warnings;

use Faults;
use History qw(violations gone_nodes stale_reads longest_stall);
use List::Util qw(max sum0 uniq);
use Load;
use PgServer;
use Report;
use Time::HiRes qw(sleep time);
use Wait;
use ZkEnsemble;
use ZkProxy;

use constant {
	CLIENTS => 4,    # on each server
	READERS => 1,    # on each server with a copy
	SESSION_TIMEOUT => Faults::TIMEOUT . 's',

	# What all servers with tables have at the end
	BOOKS => 'SELECT path, amount, (SELECT count(*) FROM sale WHERE sale.path = holding.path)'
	  . ' FROM holding ORDER BY path',
};

# Protections of commits, and the part of the time that each has. Without the
# check, holders commit whose nodes are gone, and without the fence either, other
# violations are expected as well when a holder is suspended for
# too long: that part tests whether violations are found. A fence protects what is on its own
# server, so it does not replace the check in a pair.
my @modes = grep { !Faults::PAIR || $_->{confirm} eq 'lease' } (
	{ confirm => 'lease', fence => 'on', part => 0.4, unsafe => 0 },
	{ confirm => 'lease', fence => 'off', part => 0.4, unsafe => 0 },
	{ confirm => 'off', fence => 'on', part => 0.15, unsafe => 0 },
	{ confirm => 'off', fence => 'off', part => 0.05, unsafe => 1 });

# Such a holder, on B, and the seconds in which a violation must occur. The next holder is then
# on A, if B's worker is suspended too: its update waits for that of the first one, and succeeds,
# while one on B would fail because postgres_fdw reads and writes with one snapshot.
my %deadly =
  (name => Faults::deadly(), gap => 0.5, seconds => 5, pick => 0.9);
my $patience = 60;

sub new
{
	my ($class, $bindir, $dir, $seed, $fault) = @_;

	return bless { bindir => $bindir, dir => $dir, seed => $seed, fault => $fault }, $class;
}

sub start
{
	my ($self) = @_;
	my $dir = $self->{dir};
	my $ensemble = $self->{ensemble} =
	  ZkEnsemble->new(
		size => 3,
		tick_time => 1000 * Faults::TICK,
		config => { syncLimit => Faults::SYNC_LIMIT });

	$ensemble->start;
	$self->{proxies} = [ map { ZkProxy->new($_->hosts) } $ensemble->servers ];

	# The tables are A's; B reaches them with postgres_fdw, unless both are a pair. B reaches
	# ZooKeeper through proxies.
	my %hosts = (
		A => $ensemble->hosts,
		B => join(',', map { $_->hosts } @{ $self->{proxies} }));
	my %variables = (
		A => [],
		B => Faults::PAIR ? [] : [ '-v', "dir_of_a=$dir/A", '-v', 'port=' . PgServer::PORT ]);

	for my $name (qw(A B))
	{
		mkdir("$dir/$name") or die "$dir/$name: $!\n";
		my $pg = $self->{pg}{$name} = PgServer->new(
			$self->{bindir}, "$dir/$name",
			cluster_name => $name,
			track_commit_timestamp => 'on',
			'zklock.hosts' => $hosts{$name},
			'zklock.session_timeout' => SESSION_TIMEOUT,

			# One server keeps locks, if its backends share a session.
			'zklock.keep_time' => $name eq 'B' ? '1s' : 0,
			$ENV{REPLICAS} ? _settings_of_replicas() : ());
		$pg->start;
		$pg->psql(@{ $variables{$name} }, '-f', "$dir/soak.sql");
	}
	$self->_replicate if $ENV{REPLICAS};
	$self->{faults} = Faults->new(
		ensemble => $ensemble,
		proxies => $self->{proxies},
		servers => $self->{pg},
		all => { %{ $self->{pg} }, %{ $self->{replica} // {} } });
	return;
}

# Of all servers, if data is replicated
sub _settings_of_replicas
{
	return (
		shared_preload_libraries => 'zklock',
		wal_level => 'logical',

		# What has ended is started again soon. Until then, nothing can be read.
		wal_retrieve_retry_interval => '1s',
		'zklock.answer_positions' => 'on');
}

# Has A and B subscribe to each other's tables if they are a pair. Otherwise, starts C, a standby of
# A, and D, which subscribes to its tables.
sub _replicate
{
	my ($self) = @_;
	my $dir = $self->{dir};
	my ($a, $b) = @{ $self->{pg} }{qw(A B)};

	$self->_ask($_, 'CREATE PUBLICATION books FOR TABLE holding, sale') for Faults::OWNERS;
	if (Faults::PAIR)
	{
		_subscribe($a, $b, ', origin = none');
		_subscribe($b, $a, ', origin = none');
		return;
	}
	mkdir("$dir/D") or die "$dir/D: $!\n";
	my $d = $self->{replica}{D} = PgServer->new(
		$self->{bindir}, "$dir/D",
		cluster_name => 'D',
		'zklock.hosts' => $self->{ensemble}->hosts,
		'zklock.session_timeout' => SESSION_TIMEOUT,
		_settings_of_replicas());
	$d->start;
	$d->psql('-f', "$dir/soak.sql");
	_subscribe($d, $a, '');
	$self->{replica}{C} = $a->standby("$dir/C");
	return;
}

# Both have the same rows before.
sub _subscribe
{
	my ($subscriber, $publisher, $options) = @_;

	$subscriber->psql('-c', 'SET client_min_messages = warning', '-c',
		"CREATE SUBSCRIPTION books CONNECTION '${\ $publisher->connstr('postgres')}' "
		  . "PUBLICATION books WITH (copy_data = false$options)");
	return;
}

# Stops all servers and clients, in whatever state they are.
sub stop
{
	my ($self) = @_;

	eval { $self->{faults}->undo } if $self->{faults};
	for (qw(readers load))
	{
		$self->{$_}->stop if $self->{$_};
	}
	$_->stop for values %{ $self->{replica} }, values %{ $self->{pg} };
	eval { $self->{ensemble}->stop } if $self->{ensemble};
	return;
}

# Returns whether the results are as expected.
sub run
{
	my ($self, $seconds) = @_;
	my ($commits, $faults, $problems) = (0, 0, 0);
	my %violations = (0 => 0, 1 => 0);    # by whether violations are expected
	my $parts = sum0(map { $_->{part} } @modes);

	printf("Seed %s, %d s, %d clients on each server, sessions of %s\n",
		$self->{seed}, $seconds, CLIENTS, SESSION_TIMEOUT);
	for my $mode (@modes)
	{
		my $round = $self->_play($mode, $mode->{part} / $parts * $seconds);

		report($round);
		$commits += uniq(map { $_->{xid} } @{ $round->{rows} });
		$faults += sum0(values %{ $round->{faults} });
		$problems += @{ $round->{problems} };
		$violations{ $mode->{unsafe} } += @{ $round->{violations} };
	}

	my $ok = !$problems && !$violations{0};
	printf(
		"\n%s: %d commits, %d faults, %d violations;"
		  . " %d with neither check nor fence\n",
		$ok ? 'ok' : 'failed',
		$commits, $faults, @violations{ 0, 1 });
	return $ok;
}

# A round: lets the clients trade in one mode for some seconds, with faults.
# Returns a hash with
#
#	confirm, fence		the mode
#	seconds				its duration
#	opening				the amounts by path before it
#	faults				the number of faults, by name
#	fault_free			the times without a fault, [from, to]
#	rows, violations	the committed rows, and their violations
#	looks				how often clients saw something before commits, by what it was
#	gone				the rows whose nodes were gone before the commit, if that may happen;
#						otherwise that is a violation
#	errors				the number of the clients' errors, by SQLSTATE
#	stall, staller		the longest time without a commit of a client, and that client
#	problems			other problems
sub _play
{
	my ($self, $mode, $seconds) = @_;
	my $begin = time();
	my $deadline =
	  $begin + ($mode->{unsafe} ? max($seconds, $patience) : $seconds);
	my $plan =
	  $mode->{unsafe}
	  ? sub { return \%deadly }
	  : Faults::plan("$self->{seed} $mode->{confirm} $mode->{fence}", $self->{fault});

	$self->_ask($_, 'TRUNCATE history, sale') for Faults::OWNERS;
	my %round = (
		%$mode{qw(confirm fence)},
		opening => { split(/[|\n]/, $self->_ask('A', 'TABLE holding')) },
		faults => {},
		fault_free => [ [$begin] ],
		problems => []);

	$self->{load} = Load->start_looking(
		$self->{dir},
		{ map { ($_ => "$self->{dir}/$_") } qw(A B) }, CLIENTS,
		$self->{ensemble}->hosts,
		'zklock.confirm_commit' => $mode->{confirm},
		(Faults::PAIR ? ('zklock.catch_up' => 'all') : ()),
		'soak.fence' => $mode->{fence});
	$self->{readers} = Load->start_reading(
		$self->{bindir}, $self->{dir},
		{ map { ($_ => $self->{replica}{$_}->connstr('postgres')) } qw(C D) }, READERS,
		'zklock.confirm_commit' => $mode->{confirm},
		'zklock.catch_up' => 'all') if $self->{replica};
	do
	{
		$self->_disturb($plan->(), \%round);
		$self->_read_history(\%round) if $mode->{unsafe};
	  } until time() > $deadline
	  || ($mode->{unsafe}
		? @{ $round{violations} } && @{ $round{gone} }
		: @{ $round{violations} // [] });

	$self->_settle(\%round);
	$self->_read_history(\%round);
	if ($mode->{unsafe})
	{
		push @{ $round{problems} }, 'the checker found nothing' if !@{ $round{violations} };
		push @{ $round{problems} }, 'no node was gone before a commit' if !@{ $round{gone} };
	}
	$round{seconds} = time() - $begin;
	@round{qw(stall staller)} =
	  longest_stall($round{rows}, [ $self->{load}->clients ], $round{fault_free});
	return \%round;
}

sub _disturb
{
	my ($self, $fault, $round) = @_;

	$self->_pass($fault->{gap});
	my $before = Faults::is_planned($fault->{name}) && $self->_lost;
	push @{ $round->{fault_free}[-1] }, time();
	$self->{faults}->make($self->{load}, @$fault{qw(name pick)});
	$round->{faults}{ $fault->{name} }++;
	$self->_pass($fault->{seconds});
	if ($before && (my $lost = $self->_lost) ne $before)
	{
		push @{ $round->{problems} },
		  "$fault->{name}: $lost where it was $before";
	}
	$self->{faults}->undo;
	push @{ $round->{fault_free} }, [ time() ];
	return;
}

# Returns how many locks were lost so far, as text: by the errors that name them, and by
# the servers' counters. Other errors 40001 are PostgreSQL's own, for example of readers
# that fence the same lock at the same time in repeatable read transactions.
sub _lost
{
	my ($self) = @_;
	my @servers = qw(A B);

	return sprintf(
		'%s errors about lost locks, %s lost locks',
		join(' and ',
			map { $self->{pg}{$_}->count_logged(qr/ERROR:  lock on .* was lost/) } @servers),
		join(' and ', map { $self->_ask($_, 'SELECT losses FROM zk_lock_stats') } @servers));
}

# Lets the clients work for a while.
sub _pass
{
	my ($self, $seconds) = @_;
	my $end = time() + $seconds;

	while (time() < $end)
	{
		$self->{load}->tend;
		$self->{readers}->tend if $self->{readers};
		sleep(0.05);
	}
	return;
}

# Checks that the clients recover after the last fault: all of them commit
# again and, after they have ended, their backends and nodes in ZooKeeper are
# gone, each lock is free, and servers of a pair have the same books.
sub _settle
{
	my ($self, $round) = @_;
	my $load = $self->{load};
	my @clients = $load->clients;
	my $since = $round->{fault_free}[-1][0];
	my $expect = sub {
		my ($what, $condition) = @_;

		eval { wait_until($what, $condition); 1 }
		  or push @{ $round->{problems} }, $@ =~ s/\n.*//sr;
	};

	$expect->(
		'every client commits again',
		sub {
			$load->tend;
			return @clients == sum0(map {
				$self->_ask($_,
					"SELECT count(DISTINCT client) FROM history
					 WHERE began > to_timestamp($since)")
			} Faults::OWNERS);
		});
	push @{ $round->{fault_free}[-1] }, time();
	$self->_settle_readers($expect) if $self->{readers};
	$round->{errors} = $load->errors;
	$load->stop;

	for my $name (qw(A B))
	{
		$expect->(
			"no client has a backend on $name",
			sub {
				return 0 == $self->_ask(
					$name,
					"SELECT count(*) FROM pg_stat_activity
					 WHERE backend_type = 'client backend'
					 AND pid <> pg_backend_pid()");
			});
	}
	$expect->(
		'all servers with tables have the same books',
		sub { 1 == uniq(map { $self->_ask($_, BOOKS) } Faults::OWNERS) });
	$expect->(
		'ZooKeeper has no ephemeral node',
		sub {
			my $leader = $self->{ensemble}->leader;

			# The session of a server remains, with no node of a lock.
			return $leader
			  && $leader->four_letter('dump') =~
			  m{^Sessions with Ephemerals \(\d+\):\n(?!.*^\t/(?!zklock/positions/))}ms;
		});
	for my $name (qw(A B))
	{
		my $all = $self->_ask($name,
			"SELECT bool_and(zk_lock_acquire(path, '30s')) FROM holding");

		push @{ $round->{problems} }, "not every lock can be acquired on $name"
		  if $all ne 't';
	}
	return;
}

# Each client on a server with a copy reads again.
sub _settle_readers
{
	my ($self, $expect) = @_;
	my $readers = $self->{readers};
	my $before = () = $readers->reads;

	$expect->(
		'every reader reads again',
		sub {
			my %seen;

			$self->{load}->tend;
			$readers->tend;
			my @reads = $readers->reads;
			$seen{ $_->{client} }++ for @reads[ $before .. $#reads ];
			return keys %seen == (() = $readers->clients);
		});
	$readers->stop;
	return;
}

# Reads all rows that were committed so far, in one snapshot of each server, and what their clients
# saw before. Those of a pair have the same books at the end.
sub _read_history
{
	my ($self, $round) = @_;
	my @columns =
	  qw(path mode token number xid server client kind before after began committed);
	my (@rows, $closing, $sales);

	for my $name (Faults::OWNERS)
	{
		# Both servers count their transactions from the same number.
		(my $history, $closing, $sales) = split(
			/^--\n/m,
			$self->{pg}{$name}->psql(
				'-c', 'BEGIN ISOLATION LEVEL REPEATABLE READ',
				'-c',
				"SELECT path, mode, token, number, xid || '.' || ascii(server), server, client, kind,
						before, after, extract(epoch FROM began),
						extract(epoch FROM pg_xact_commit_timestamp(xid::xid))
					 FROM history",
				'-c', '\echo --',
				'-c', 'TABLE holding',
				'-c', '\echo --',
				'-c', 'SELECT path, count(*) FROM sale GROUP BY path',
				'-c', 'COMMIT'));
		for my $line (split(/\n/, $history))
		{
			my %row;

			@row{@columns} = split(/\|/, $line);
			push @rows, \%row;
		}
	}
	$round->{rows} = \@rows;
	$round->{violations} = [
		violations(
			\@rows,
			{
				opening => $round->{opening},
				closing => { split(/[|\n]/, $closing) },
				sales => { split(/[|\n]/, $sales // '') }
			})
	];
	my ($looks, @gone) = $self->{load}->looks;

	$round->{looks} = $looks;
	$round->{gone} = [ gone_nodes(\@rows, @gone) ];
	push @{ $round->{violations} }, splice(@{ $round->{gone} }) if $round->{confirm} ne 'off';

	# A reader whose commit is not checked may have read when others had the lock.
	if ($self->{readers})
	{
		my @reads = $self->{readers}->reads;

		$round->{reads}{ substr($_->{client}, 0, 1) }++ for @reads;
		push @{ $round->{violations} }, stale_reads(\@rows, $round->{opening}, @reads)
		  if $round->{confirm} ne 'off';
	}
	return;
}

sub _ask
{
	my ($self, $name, $sql) = @_;

	return $self->{pg}{$name}->psql('-c', $sql);
}

1;
