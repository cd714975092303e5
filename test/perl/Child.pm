# A child process that is ended by its own pid. Its output goes to a file.

package Child;

use strict;
use warnings;

use IO::Handle;
use POSIX ();
use Time::HiRes qw(sleep time);

# If true, processes that are started from then on do not get what is typed at
# the terminal, such as ^C.
our $detached = 0;

my %running;    # all of them, by pid

# Starts @command, or a function with arguments; what it prints is appended to the file $log.
sub start
{
	my ($class, $log, @command) = @_;

	pipe(my $stdin, my $input) or die "pipe: $!\n";
	open(my $output, '>>', $log) or die "$log: $!\n";
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0)
	{
		# _exit(), because the END blocks belong to the parent.
		POSIX::setsid() if $detached;
		open(STDIN, '<&', $stdin) or POSIX::_exit(127);
		open(STDOUT, '>&', $output) or POSIX::_exit(127);
		open(STDERR, '>&', $output) or POSIX::_exit(127);
		if (ref $command[0])
		{
			# Otherwise standard inputs would not end with the parent.
			close($_) for $input, map { $_->{input} } values %running;
			_call(@command);
		}
		exec(@command) or POSIX::_exit(127);
	}
	$input->autoflush(1);
	return $running{$pid} = bless {
		name => ref $command[0] ? 'function' : $command[0] =~ s{.*/}{}r,
		log => $log,
		pid => $pid,
		input => $input
	}, $class;
}

# The child calls the function, and ends.
sub _call
{
	my ($function, @arguments) = @_;

	$SIG{$_} = 'DEFAULT' for qw(INT TERM HUP PIPE CHLD __DIE__);
	eval { $function->(@arguments); 1 } or print STDERR $@;
	STDERR->flush;
	POSIX::_exit($@ ? 1 : 0);
}

# Runs @command to its end, at most $seconds, and dies if it fails.
sub run
{
	my ($class, $log, $seconds, @command) = @_;

	return $class->start($log, @command)->finish($seconds);
}

# Sends a line to its standard input.
sub say
{
	my ($self, $line) = @_;

	# If the process has ended, its reader notices.
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{input} } "$line\n";
	return;
}

sub is_running
{
	my ($self) = @_;

	if ($self->{pid} && waitpid($self->{pid}, POSIX::WNOHANG) != 0)
	{
		$self->{status} = $?;
		delete $running{ $self->{pid} };
		$self->{pid} = 0;
	}
	return $self->{pid} != 0;
}

# Dies if it has ended.
sub check
{
	my ($self) = @_;

	die "$self->{name} ended too early\n", $self->output
	  if !$self->is_running;
	return;
}

# Waits until it ends by itself; dies if it does not end, or fails.
sub finish
{
	my ($self, $seconds) = @_;
	my $status = $self->end($seconds);

	die "$self->{name} failed: status $status\n", $self->output if $status != 0;
	return;
}

# Waits until it ends by itself, and returns its status; dies if it does not end.
sub end
{
	my ($self, $seconds) = @_;
	my $deadline = time() + $seconds;

	close($self->{input});
	while ($self->is_running)
	{
		if (time() > $deadline)
		{
			$self->stop('KILL');
			die "$self->{name} did not end within $seconds seconds\n";
		}
		sleep(0.01);
	}
	return $self->{status};
}

# Ends it with the given signal, or with SIGKILL if it does not end.
sub stop
{
	my ($self, $signal) = @_;
	my $deadline = time() + 10;

	kill($signal, $self->{pid}) if $self->is_running;
	while ($self->is_running)
	{
		kill('KILL', $self->{pid}) if time() > $deadline;
		sleep(0.01);
	}
	return;
}

# Ends all that still run.
sub stop_all
{
	$_->stop('TERM') for values %running;
	return;
}

# Returns its output so far.
sub output
{
	my ($self) = @_;

	open(my $fh, '<', $self->{log}) or die "$self->{log}: $!\n";
	local $/;
	return <$fh> // '';
}

1;
