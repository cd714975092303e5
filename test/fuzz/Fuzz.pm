# A server whose clients send random statements (see Statements.pm). Some of them are
# cancelled or terminated. The server must not crash, no backend may hang, and nothing
# may be left when all clients have gone.
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
	CLIENTS => 10,      # every third a superuser
	STATEMENTS => 100,  # of a client, before it disconnects and reconnects
	LATE => 3,          # seconds after which a statement is cancelled
};

# Lines that must not be in the server's log: of a crash, a failed assertion, an internal
# error or a leak
my $bad = qr/terminated by signal|TRAP:|PANIC:|XX\d{3}:|leak|still referenced/;

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
		'shared_preload_libraries' => 'zklock',
		'zklock.hosts' => $self->{zk}->hosts);

	# Memory that is freed is overwritten, so that a crash does not depend on luck.
	local $ENV{MALLOC_PERTURB_} = 165;
	$self->{pg}->start;
	$self->{pg}->psql('-f', "$dir/statements.sql");
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
		@problems = $self->_problems(sub { $self->_disturb($random) });
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

		my $user = $i % 3 == 0 ? 'postgres' : 'guest';
		my $revocable = $random->pick(qw(on off));
		my $script = "$dir/client$i-" . ++$self->{begun} . '.sql';
		my $statements =
		  Statements->new($self->{seed} * 1000 + $self->{begun}, $user eq 'postgres');

		open(my $fh, '>:utf8', $script) or die "$script: $!\n";
		print $fh $statements->next, ";\n" for 1 .. STATEMENTS;
		close($fh) or die "$script: $!\n";
		$clients->{$i} = Child->start(
			"$dir/clients.log",
			"$self->{bindir}/psql",
			'-Xq', '-o', '/dev/null', '-f', $script,
			'-v', 'VERBOSITY=sqlstate',
			'-v', 'ON_ERROR_ROLLBACK=' . ($random->random(3) == 0 ? 'off' : 'on'),
			PgServer::conninfo("$dir/server") =~ s/user=\w+/user=$user/r
			  . ' application_name=fuzz'
			  . " options='-c statement_timeout=1s -c zklock.revocable=$revocable'");
	}
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
	$self->_end(q(SELECT pid FROM pg_stat_activity WHERE application_name = 'fuzz'));
	wait_until('no claim is left',
		sub { $pg->psql('-c', 'SELECT listed, unlisted FROM zk_lock_stats') eq '0|0' });
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
