# Two PostgreSQL servers under Patroni, primary and standby, and a ZooKeeper server that both
# use, under load with faults of the primary.
#
#	my $failover = Failover->new($bindir, $sql, $dir, $session_mode, $replication);
#	$failover->start;
#	my $round = $failover->play($fault);
#	my $sum = $failover->add_twice($fenced);	# if replication is synchronous
#	$failover->stop;
#
# $sql is the file soak.sql, and $dir is private. The network must be that of ZkNet.

package Failover;

use strict;
use warnings;

use Child;
use History qw(violations);
use Load;
use Patroni;
use Time::HiRes qw(sleep time);
use Wait;
use ZkNet;
use ZkServer;

use constant {
	CLIENTS => 3,            # that try one server first, and as many the other
	SESSION_TIMEOUT => 4,    # s
	HELD => '/failover/held',
	LED => '/leaders/failover',
	SYNC => '/service/shop/sync',    # Patroni's node

	# Patroni demotes a primary some seconds after it has lost ZooKeeper, by retry_timeout, so
	# later than ZooKeeper ends the sessions of its server.
	TTL => 24,               # s
	RETRY_TIMEOUT => 10,     # s
};

# What happens to the primary
my %faults = (
	'switchover' => '_switch_over',
	'server killed' => '_kill_server',
	'Patroni suspended' => '_suspend_patroni',
	'Patroni killed' => '_kill_patroni',
	'cut off from ZooKeeper' => '_cut_off_from_zookeeper',
	'cut off from both' => '_cut_off_from_both');

sub faults
{
	return sort keys %faults;
}

sub new
{
	my ($class, $bindir, $sql, $dir, $session_mode, $replication) = @_;

	return bless {
		bindir => $bindir,
		sql => $sql,
		dir => $dir,
		session_mode => $session_mode,
		synchronous => $replication eq 'synchronous',
		sessions => {},
		cut => {}
	}, $class;
}

sub start
{
	my ($self) = @_;
	my $zk = $self->{zk} =
	  ZkServer->new(tick_time => 500, config => { clientPortAddress => '0.0.0.0' })->start;

	for my $name (qw(a b))
	{
		my $last = ord($name) - ord('a') + 2;

		# Each reaches ZooKeeper at an address of its own.
		$self->{zk_address}{$name} = "127.0.0.1$last";
		$self->{patroni}{$name} = Patroni->new(
			"$self->{dir}/$name", $name,
			"127.0.0.$last",
			$self->{bindir},
			hosts => "$self->{zk_address}{$name}:" . $zk->port,
			dcs => {
				ttl => TTL,
				loop_wait => 2,
				retry_timeout => RETRY_TIMEOUT,
				primary_start_timeout => 0,
				maximum_lag_on_failover => 100_000_000,
				synchronous_mode => $self->{synchronous} ? 'true' : 'false'
			},
			all => {
				track_commit_timestamp => 'on',
				'zklock.session_mode' => $self->{session_mode},
				'zklock.session_timeout' => SESSION_TIMEOUT . 's',
				'zklock.leaders' => LED
			});
		$self->{patroni}{$name}->start;
	}
	$self->_wait_until_healthy;
	$self->{primary}->load($self->{sql});
	$self->_ask('CREATE TABLE plain (at timestamptz DEFAULT clock_timestamp());
		CREATE TABLE held (at timestamptz DEFAULT clock_timestamp());
		CREATE TABLE led (token bigint, at timestamptz DEFAULT clock_timestamp())');
	$self->_ask("CREATE PROCEDURE lead() LANGUAGE plpgsql AS \$\$
		BEGIN
			LOOP
				BEGIN
					INSERT INTO led SELECT zk_leader_guard('${\ LED}');
				EXCEPTION WHEN object_not_in_prerequisite_state OR read_only_sql_transaction THEN
					NULL;
				END;
				COMMIT;
				PERFORM pg_sleep(0.01);
			END LOOP;
		END \$\$");
	return;
}

# Stops all, in whatever state it is.
sub stop
{
	my ($self) = @_;

	$self->_heal;
	$self->_close_sessions;
	$self->{load}->stop if $self->{load};
	$_->stop for values %{ $self->{patroni} };
	$self->{zk}->stop if $self->{zk};
	return;
}

# A round: clients trade, a session holds a lock of its own and others wait for it, one on each
# server commits while the server leads, and the primary has the fault. Returns a hash with
#
#	free		seconds from the fault until a waiter on the standby had the lock
#	after_end	... from the end of the primary's server; undef if it had not ended
#	promoted	seconds until the standby was promoted
#	led		seconds until it had committed as the leader
#	commits		the number of transactions that clients know to be committed
#	lost		how many of them are not in the history that remains
#	errors		the clients' errors by SQLSTATE
#	violations	of the history that remains
#	problems	other problems
sub play
{
	my ($self, $fault) = @_;
	my $round = $self->{round} = { fault => $fault, problems => [] };

	$self->_begin_load;
	$self->_form_line;
	$self->_lead;
	$self->_note_server;
	$round->{began} = time();
	my $method = $faults{$fault};
	$self->$method;
	$self->_finish;
	return $round;
}

# Faults

sub _switch_over
{
	my ($self) = @_;
	my ($primary, $standby) = @$self{qw(primary standby)};
	my $accepted = 0;

	$self->_pass_until(
		'Patroni switches over',
		sub {
			$self->{round}{began} = time() if !$accepted;
			$accepted ||= $primary->request_switch($standby);
			return !$primary->is_primary;
		});
	$self->_wait_for_lock;
	$self->_wait_for_promotion;
	return;
}

# With asynchronous replication, the standby lacks the last commits.
sub _kill_server
{
	my ($self) = @_;

	if (!$self->{synchronous})
	{
		$self->_cut($self->{primary}->address);
		my $before = $self->{load}->results;

		$self->_pass_until('clients have committed what the standby lacks',
			sub { $self->{load}->results >= $before + 20 });
		$self->{round}{began} = time();
	}
	kill('KILL', $self->{server});
	$self->{server_ended} = time();
	$self->_wait_for_lock;
	$self->_wait_for_promotion;
	return;
}

sub _suspend_patroni
{
	my ($self) = @_;

	$self->{primary}->signal('STOP');
	$self->_wait_for_promotion;
	$self->_look_at_two_primaries;
	$self->{primary}->signal('CONT');
	$self->_wait_for_lock;
	return;
}

sub _kill_patroni
{
	my ($self) = @_;

	$self->{primary}->signal('KILL');
	$self->_wait_for_promotion;
	$self->_look_at_two_primaries;
	$self->{primary}->start;
	$self->_wait_for_lock;
	return;
}

# Two servers are primaries, and the former one holds its lock. Clients use both, but with
# synchronous replication, those of the former one wait for their standby, with their locks.
sub _look_at_two_primaries
{
	my ($self) = @_;

	if (!$self->{synchronous})
	{
		my $since = time();

		# Clients that try the new one first leave the former one.
		$self->{primary}->ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name LIKE '${\ $self->{standby}->name}_'");
		$self->_pass_until(
			'clients commit on the new primary',
			sub {
				my $found = $self->{standby}->ask(
					"SELECT EXISTS (SELECT FROM history WHERE began > to_timestamp($since))");

				return ($found // '') eq 't';
			});
	}
	$self->_expect('the former primary goes on', $self->{primary}->is_primary);
	$self->_expect('... and its lock is held', !$self->_granted);
	return;
}

sub _cut_off_from_zookeeper
{
	my ($self) = @_;
	my $primary = $self->{primary};
	my $session = $self->{sessions}{holder};

	$self->_cut($self->{zk_address}{ $primary->name });
	$self->_wait_for_lock;

	# Patroni has not demoted it yet.
	$self->_expect('the primary goes on', $primary->is_primary);
	$self->_expect('... with a transaction without locks',
		defined $primary->ask('INSERT INTO plain DEFAULT VALUES'))
	  if !$self->{synchronous} || !$self->{cut}{ $primary->address };

	# By an error, or by Patroni while it waits for ZooKeeper
	$session->say('COMMIT;');
	$self->_pass_until('the transaction of the former holder ends',
		sub { $session->output =~ /ERROR|FATAL|^COMMIT/m || !$session->is_running });
	$self->_expect('... but not with one of the former holder', $session->output !~ /^COMMIT/m);
	$self->_wait_for_promotion;
	$self->_expect('... whose row is not there',
		($self->{standby}->ask('SELECT count(*) FROM held') // '') eq '0');

	# Until Patroni demoted the primary, it had a third of the timeout to commit under locks.
	my $since = $self->{round}{began};
	my ($from, $to) = ($since + SESSION_TIMEOUT / 3 + 1, $since + RETRY_TIMEOUT);
	my $late = $self->{standby}->ask("SELECT count(*) FROM history
		WHERE pg_xact_commit_timestamp(xid::xid)
			BETWEEN to_timestamp($from) AND to_timestamp($to)");
	$self->_expect('... nor are rows of others', ($late // '') eq '0');
	return;
}

sub _cut_off_from_both
{
	my ($self) = @_;

	$self->_cut($self->{primary}->address);
	$self->_cut_off_from_zookeeper;
	return;
}

# What the fence is for, with a check at commit and a standby that is late: a transaction waits
# for the standby after its check, the primary is cut off from ZooKeeper meanwhile, and a
# client that is not cut off has the next turn. Both add 1 to what they have read. Returns the
# sum, which should be 2.
sub add_twice
{
	my ($self, $fenced) = @_;
	my $primary = $self->{primary};
	my $path = '/failover/sum';
	my @addition = (
		'BEGIN;',
		"SELECT zk_lock_guard('$path', '1min') > 0;",
		($fenced ? "SELECT zk_lock_fence('$path') > 0;" : ()),
		'SELECT n FROM sum \gset',
		'UPDATE sum SET n = :n + 1;',
		'COMMIT;');
	my $wait_for = sub {
		my ($what, $condition) = @_;

		wait_until(
			$what,
			sub {
				return $self->_ask("SELECT count(*) FROM pg_stat_activity
					WHERE application_name = 'psql' AND $condition") == 1;
			});
	};

	$self->_ask('DROP TABLE IF EXISTS sum');
	$self->_ask('CREATE TABLE sum AS SELECT 0 AS n');
	my $receiver = $self->{standby}->ask('SELECT pid FROM pg_stat_wal_receiver');
	kill('STOP', $receiver);
	$self->_open('first', $primary, @addition);
	$wait_for->('the first waits for the standby', q(wait_event = 'SyncRep'));
	$self->_cut($self->{zk_address}{ $primary->name });
	local $ENV{PGOPTIONS} = '-c zklock.hosts=' . $self->{zk}->hosts;
	$self->_open('second', $primary, @addition);
	$wait_for->('the second waits for a row', q(wait_event_type = 'Lock'));
	kill('CONT', $receiver);
	wait_until('both have committed',
		sub { 2 == grep { $self->{sessions}{$_}->output =~ /^COMMIT/m } qw(first second) });
	my $sum = $self->_ask('SELECT n FROM sum');

	$self->_heal;
	$self->_close_sessions;
	$self->_wait_until_healthy;
	return $sum;
}

sub _cut
{
	my ($self, $address) = @_;

	ZkNet::cut($address, qw(to from));
	$self->{cut}{$address} = time();
	return;
}

sub _heal
{
	my ($self) = @_;

	ZkNet::heal($_, qw(to from)) for keys %{ $self->{cut} };
	$self->{cut} = {};
	return;
}

# The course of a round

sub _begin_load
{
	my ($self) = @_;
	my @patronis = @{ $self->{patroni} }{qw(a b)};

	$self->_ask('TRUNCATE history, sale, plain, led');
	$self->{opening} = { split(/[|\n]/, $self->_ask('TABLE holding')) };
	$self->{load} = Load->start(
		$self->{bindir}, $self->{dir},
		{
			a => Patroni->to_primary(@patronis),
			b => Patroni->to_primary(reverse @patronis)
		},
		CLIENTS,
		'soak.fence' => 'on');
	$self->_wait_for_commits(0);
	return;
}

# Every client has committed after this time.
sub _wait_for_commits
{
	my ($self, $since) = @_;
	my @clients = $self->{load}->clients;

	$self->_pass_until(
		'every client commits',
		sub {
			my $n = $self->{primary}->ask(
				"SELECT count(DISTINCT client) FROM history WHERE began > to_timestamp($since)");

			return ($n // 0) == @clients;
		});
	return;
}

# A session on the primary holds the lock, with a fence. Another one, and one on the standby,
# wait.
sub _form_line
{
	my ($self) = @_;

	$self->_open(
		'holder', $self->{primary},
		'BEGIN;',
		'INSERT INTO held DEFAULT VALUES;',
		"SELECT zk_lock_guard('${\ HELD}') > 0, zk_lock_fence('${\ HELD}') > 0;");
	$self->_pass_until('the lock is held', sub { $self->{sessions}{holder}->output =~ /^t\|t$/m });
	$self->_open('waiter', $self->{primary}, "SELECT zk_lock_acquire('${\ HELD}', '10min');");
	$self->_wait_for_waiters(1);
	$self->_open('next', $self->{standby},
		"SELECT zk_lock_acquire('${\ HELD}', '10min'), extract(epoch FROM clock_timestamp());");
	$self->_wait_for_waiters(2);
	return;
}

# A procedure that loses its term is called again. It ends with its client. Its pg_sleep() is the
# pace of the commits, and of the attempts on a server that does not lead.
sub _lead
{
	my ($self) = @_;

	$self->_open("leader on $_", $self->{$_}, q(SET client_connection_check_interval = '200ms';),
		('CALL lead();') x 100)
	  for qw(primary standby);
	$self->_wait_for_leader;
	return;
}

# The primary commits as the leader. Returns when it began to.
sub _wait_for_leader
{
	my ($self) = @_;

	return $self->_pass_until(
		'the primary leads',
		sub {
			return $self->{primary}->ask(
				'SELECT min(extract(epoch FROM at)) FROM led JOIN zk_leaders USING (token)');
		});
}

sub _wait_for_waiters
{
	my ($self, $n) = @_;

	$self->_pass_until(
		'sessions wait for the lock',
		sub {
			my $waiters = 0;

			$waiters +=
			  $_->ask("SELECT count(*) FROM zk_locks WHERE path = '${\ HELD}' AND NOT granted")
			  // 0
			  for values %{ $self->{patroni} };
			return $waiters == $n;
		});
	return;
}

sub _open
{
	my ($self, $name, $patroni, @statements) = @_;
	my $log = "$self->{dir}/$name.log";

	unlink($log);
	my $session = $self->{sessions}{$name} = Child->start($log, "$self->{bindir}/psql", '-XAt',
		'-v', 'VERBOSITY=sqlstate', $patroni->connstr);
	$session->say($_) for @statements;
	return $session;
}

sub _close_sessions
{
	my ($self) = @_;

	$_->stop('KILL') for values %{ $self->{sessions} };
	$self->{sessions} = {};
	return;
}

# The time at which the waiter on the standby had the lock, if it has it
sub _granted
{
	my ($self) = @_;

	return $self->{sessions}{next}->output =~ /^t\|([\d.]+)$/m ? $1 : undef;
}

sub _wait_for_lock
{
	my ($self) = @_;
	my $round = $self->{round};
	my $granted = $self->_pass_until('the lock is free', sub { $self->_granted });

	$round->{granted} = $granted;
	$round->{free} = $granted - $round->{began};
	delete($self->{sessions}{next})->stop('KILL');
	return;
}

sub _wait_for_promotion
{
	my ($self) = @_;

	$self->_pass_until('the standby is promoted', sub { $self->{standby}->is_primary });
	$self->{round}{promoted} = time() - $self->{round}{began};
	return;
}

# Notes the former primary's server, whose end _pass() looks for.
sub _note_server
{
	my ($self) = @_;

	$self->{server} = $self->{primary}->postmaster;
	delete $self->{server_ended};
	return;
}

# Lets the clients work until the condition holds, and returns it.
sub _pass_until
{
	my ($self, $what, $condition) = @_;

	return wait_until(
		$what,
		sub {
			$self->{load}->tend if $self->{load};
			$self->{server_ended} //= time() if $self->{server} && !kill(0, $self->{server});
			return $condition->();
		});
}

# After the fault all is as before, with the servers' roles exchanged.
sub _finish
{
	my ($self) = @_;
	my $round = $self->{round};

	$self->_heal;
	$self->_wait_until_healthy;
	$round->{after_end} = $round->{granted} - $self->{server_ended} if $self->{server_ended};
	delete $self->{server};
	$round->{led} = $self->_wait_for_leader - $round->{began};
	$self->_expect('the standby does not lead',
		($self->{standby}->ask("SELECT zk_leads('${\ LED}')") // '') eq 'f');
	$self->_close_sessions;
	$self->_wait_for_commits(time());
	$round->{errors} = $self->{load}->errors;
	$self->{load}->stop;
	$self->_look;
	$self->_look_for_remains;
	delete $self->{load};
	return;
}

# Patroni has a primary, and a standby that replicates.
sub _wait_until_healthy
{
	my ($self) = @_;
	my @patronis = values %{ $self->{patroni} };
	my $state = $self->{synchronous} ? 'sync' : 'async';

	$self->_pass_until(
		'there are a primary and a standby',
		sub {
			my ($primary, @others) = grep { $_->is_primary } @patronis;

			return if !$primary || @others;
			my ($standby) = grep { $_ != $primary } @patronis;
			my $n = $primary->ask("SELECT count(*) FROM pg_stat_replication
				WHERE application_name = '${\ $standby->name}'
				AND state = 'streaming' AND sync_state = '$state'");

			return if ($n // 0) != 1 || !defined $standby->ask('SELECT 1');

			# Patroni promotes only a standby that it has noted as synchronous.
			if ($self->{synchronous})
			{
				my $node = $self->{zk}->get(SYNC) or return;

				return if $node->{data} !~ /"sync_standby":\s*"${\ $standby->name}"/;
			}
			@$self{qw(primary standby)} = ($primary, $standby);
			return 1;
		});
	return;
}

# Reads what is committed, and compares it with what the clients know.
sub _look
{
	my ($self) = @_;
	my $round = $self->{round};
	my @known = $self->{load}->results;
	my @columns =
	  qw(path mode token number xid server client kind before after began committed);
	my @rows = map {
		my %row;

		@row{@columns} = split(/\|/);
		\%row;
	} split(
		/\n/,
		$self->_ask("SELECT path, mode, token, number, xid, server, client, kind, before, after,
				extract(epoch FROM began), extract(epoch FROM pg_xact_commit_timestamp(xid::xid))
			FROM history"));
	my %remains = map { ("$_->{xid} $_->{token}" => 1) } @rows;

	$self->_expect('no term commits after the next one', $self->_ask(
		'SELECT count(*) FROM (
			SELECT token < max(token) OVER (ORDER BY pg_xact_commit_timestamp(xmin)) AS late
			FROM led) AS l
		WHERE late') eq '0');
	$round->{commits} = @known;
	$round->{lost} = grep { !$remains{$_} } @known;
	$round->{violations} = [
		violations(
			\@rows,
			{
				opening => $self->{opening},
				closing => { split(/[|\n]/, $self->_ask('TABLE holding')) },
				sales => {
					split(/[|\n]/, $self->_ask('SELECT path, count(*) FROM sale GROUP BY path'))
				}
			})
	];
	return;
}

# Nothing hangs: no backend, and no node, and all locks are free on both servers.
sub _look_for_remains
{
	my ($self) = @_;

	for my $patroni (values %{ $self->{patroni} })
	{
		wait_until(
			'no client has a backend',
			sub {
				my $n = $patroni->ask("SELECT count(*) FROM pg_stat_activity
					WHERE datname = 'postgres' AND application_name ~ '^([ab][0-9]|psql)'
					AND pid <> pg_backend_pid()");

				return ($n // 1) == 0;
			});
	}
	wait_until('no lock has a node',
		sub { $self->{zk}->four_letter('dump') !~ m{^\t/(?:soak|failover)/}m });
	for my $patroni (values %{ $self->{patroni} })
	{
		my $all = $patroni->ask("SELECT bool_and(zk_lock_acquire(path, '30s')) FROM holding");

		$self->_expect('all locks are free on ' . $patroni->name, ($all // '') eq 't');
	}
	return;
}

sub _expect
{
	my ($self, $what, $ok) = @_;

	push @{ $self->{round}{problems} }, $what if !$ok;
	return;
}

sub _ask
{
	my ($self, $sql) = @_;

	return $self->{primary}->ask($sql) // die "no answer to $sql\n";
}

1;
