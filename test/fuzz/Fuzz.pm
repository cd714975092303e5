# A server whose clients send random statements (see Statements.pm). Some of them are
# cancelled or terminated. The server must not crash, no backend may hang, and nothing
# may be left when all clients have gone. Meanwhile a role with a prefix and a limit must
# not get beyond them, and the locks of a session that does nothing must not change.
#
#	my $fuzz = Fuzz->new($bindir, $dir, $seed);
#	$fuzz->start;
#	my @problems = $fuzz->run($seconds);
#	$fuzz->stop;
#
# $dir must be private and have a copy of statements.sql, and its path must be short
# enough for a socket. The clients' scripts and the server's log stay there.

package Fuzz;

use strict;
use warnings;

use Child;
use PgServer;
use Statements;
use Time::HiRes qw(sleep time);
use Wait;
use ZkServer;

use constant {
	CLIENTS => 10,      # of each role in turn
	STATEMENTS => 100,  # of a client, before it disconnects and reconnects
	LATE => 3,          # seconds after which a statement is cancelled
};

# Lines that must not be in the server's log: of a crash, a failed assertion, an internal
# error, a leak or a role that is not confined (see statements.sql)
my $bad = qr/terminated by signal|TRAP:|PANIC:|XX\d{3}:|leak|still referenced|LOG:  .*escaped:/;

# The locks of role confined that it must not have, and those of the idle session
my $beyond = q(
	SELECT pid, l.path, count(*) OVER (PARTITION BY pid)
	FROM zk_locks l JOIN pg_stat_activity USING (pid) WHERE usename = 'confined'
	ORDER BY path ~ '^/(fuzz/confined|lifted)/', 3 DESC LIMIT 1);
my $of_idle = q(
	SELECT path, mode, granted, session_holds, token, lost, revoked
	FROM zk_locks l JOIN pg_stat_activity USING (pid) WHERE application_name = 'idle'
	ORDER BY path, mode);

sub new
{
	my ($class, $bindir, $dir, $seed) = @_;

	return bless {
		bindir => $bindir,
		dir => $dir,
		seed => $seed,
		begun => 0,
		read => 0,
		client => {}
	}, $class;
}

sub start
{
	my ($self) = @_;
	my $dir = $self->{dir};

	$self->{zk} = ZkServer->new->start;
	mkdir("$dir/server") or die "$dir/server: $!\n";
	$self->{pg} = PgServer->new(
		$self->{bindir}, "$dir/server",
		'log_error_verbosity' => 'verbose',
		'restart_after_crash' => 'off',
		'autovacuum_naptime' => '1s',
		'shared_preload_libraries' => 'zklock',
		'zklock.hosts' => $self->{zk}->hosts);

	# Memory that is freed is overwritten, so that a crash does not depend on luck.
	local $ENV{MALLOC_PERTURB_} = 165;
	$self->{pg}->start;
	$self->{pg}->psql('-f', "$dir/statements.sql");
	open(my $fh, '>', "$dir/idle.sql") or die "$dir/idle.sql: $!\n";
	print $fh q(SELECT zk_lock_acquire_all('{/idle/1, /idle/2}'), zk_semaphore_acquire('/idle/s', 2)), ";\n",
	  q(SELECT pg_sleep(1e6)), ";\n";
	close($fh) or die "$dir/idle.sql: $!\n";
	$self->{client}{idle} = $self->_client('guest', "$dir/idle.sql", 'application_name=idle');
	wait_until('the idle session holds its locks',
		sub { ($self->{held} = $self->{pg}->psql('-c', $of_idle)) =~ /(?:.*\|t\|.*\s*){3}/ });
	return;
}

# Stops the server.
sub stop
{
	my ($self) = @_;

	$_->stop('KILL') for values %{ $self->{client} };
	$self->{pg}->stop if $self->{pg};
	$self->{zk}->stop if $self->{zk};
	return;
}

# Lets the clients run for so many seconds, or until an error occurs. Returns
# the errors.
sub run
{
	my ($self, $seconds) = @_;
	my $end = time() + $seconds;
	my $random = Statements->new($self->{seed});
	my @problems;

	while (time() < $end && !@problems)
	{
		$self->_tend($random);
		sleep(0.2);
		@problems = $self->_problems(sub { $self->_disturb($random); $self->_check_roles });
	}
	return @problems ? @problems : $self->_problems(sub { $self->_finish });
}

# How many clients have been started
sub clients
{
	my ($self) = @_;

	return $self->{begun};
}

# Restarts clients that have ended, each with a new script.
sub _tend
{
	my ($self, $random) = @_;
	my ($dir, $clients) = @$self{qw(dir client)};

	for my $i (1 .. CLIENTS)
	{
		next if $clients->{$i} && $clients->{$i}->is_running;

		my $user = (qw(postgres guest confined))[ $i % 3 ];
		my $revocable = $random->pick(qw(on off));
		my $script = "$dir/client$i-" . ++$self->{begun} . '.sql';
		my $statements =
		  Statements->new($self->{seed} * 1000 + $self->{begun}, $user);

		open(my $fh, '>:utf8', $script) or die "$script: $!\n";
		print $fh $statements->next, ";\n" for 1 .. STATEMENTS;
		close($fh) or die "$script: $!\n";
		$clients->{$i} = $self->_client(
			$user, $script,
			"application_name=fuzz options='-c statement_timeout=1s -c zklock.revocable=$revocable'",
			'-v', 'ON_ERROR_ROLLBACK=' . ($random->random(3) == 0 ? 'off' : 'on'));
	}
	return;
}

# Starts a client of a role, which runs a script.
sub _client
{
	my ($self, $user, $script, $conninfo, @options) = @_;
	my $dir = $self->{dir};

	return Child->start(
		"$dir/clients.log",
		"$self->{bindir}/psql",
		'-Xq', '-o', '/dev/null', '-f', $script,
		'-v', 'VERBOSITY=sqlstate', @options,
		PgServer::conninfo("$dir/server") =~ s/user=\w+/user=$user/r . " $conninfo");
}

# Dies if the role confined has a lock outside its prefix or too many, or if the locks of
# the idle session have changed.
sub _check_roles
{
	my ($self) = @_;
	my $pg = $self->{pg};
	my ($pid, $path, $n) = split(/\|/, $pg->psql('-c', $beyond));
	my $held = $pg->psql('-c', $of_idle);

	die "role confined has $n locks, one on $path\n"
	  if defined $pid && ($n > 3 || $path !~ m{^/(?:fuzz/confined|lifted)/});
	die "locks of the idle session have changed from:\n$self->{held}\nto:\n$held\n"
	  if $held ne $self->{held};
	return;
}

# Cancels or terminates a backend. A statement can catch its cancellation and
# continue, so a backend that takes too long is terminated.
sub _disturb
{
	my ($self, $random) = @_;
	my $of_clients = q(FROM pg_stat_activity WHERE application_name = 'fuzz');
	my $what = $random->pick(qw(cancel cancel cancel terminate));

	$self->{pg}->psql('-c',
		"SELECT pg_${what}_backend(pid) $of_clients ORDER BY md5(pid::text) LIMIT 1")
	  if $random->random(3) == 0;
	$self->_end("SELECT pid $of_clients AND state = 'active'
		AND query_start < now() - interval '${\ LATE} s'");
	return;
}

# Terminates the backends that a query finds, and waits until they have gone.
sub _end
{
	my ($self, $query) = @_;
	my $pids = join(', ', split(/\n/, $self->{pg}->psql('-c', $query))) || return;
	my $of_them = "FROM pg_stat_activity WHERE pid IN ($pids)";

	$self->{pg}->psql('-c', "SELECT pg_terminate_backend(pid) $of_them");
	eval {
		wait_until('terminated backends end',
			sub { $self->{pg}->psql('-c', "SELECT count(*) $of_them") eq '0' });
		1;
	} or die "$@", $self->{pg}->psql('-c', "SELECT pid, query $of_them");
	return;
}

# Ends all clients, and checks that their locks are gone.
sub _finish
{
	my ($self) = @_;
	my ($pg, $zk) = @$self{qw(pg zk)};

	$_->stop('KILL') for values %{ $self->{client} };
	$self->_end(q(SELECT pid FROM pg_stat_activity WHERE application_name IN ('fuzz', 'idle')));
	wait_until('no claim is left',
		sub { $pg->psql('-c', 'SELECT listed, unlisted FROM zk_server_status') eq '0|0' });
	eval {
		wait_until('no node is left',
			sub { $zk->four_letter('dump') !~ m{^\t/}m });
		1;
	} or die "$@", $zk->four_letter('dump');
	return;
}

# Returns the errors that the server has logged since the last call, each with
# some lines that follow it.
sub _logged
{
	my ($self) = @_;
	my $file = "$self->{dir}/server/server.log";

	open(my $fh, '<', $file) or die "$file: $!\n";
	seek($fh, $self->{read}, 0);
	my $log = do { local $/; <$fh> } // '';
	$log =~ s/[^\n]*\z//;
	$self->{read} += length($log);
	return $log =~ /^(.*$bad.*\n(?:.*\n){0,4})/mg;
}

# Runs $code, and returns errors that occurred meanwhile: lines of the log,
# which can come a moment after a crash, or else the error with which $code
# ended.
sub _problems
{
	my ($self, $action) = @_;
	my $error = eval { $action->(); 1 } ? undef : $@;
	my @lines = $self->_logged;

	eval {
		wait_until('the crash is logged', sub { @lines = $self->_logged }, 5);
	} if defined $error && !@lines;
	return @lines ? @lines : $error // ();
}

1;
