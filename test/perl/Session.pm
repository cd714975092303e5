# Database sessions that can wait for a lock while the test continues.
#
#	my $session = Session->new($node, application_name => 'me');
#	$session->query('SELECT 1');         # returns what psql prints
#	$session->start('SELECT zk_lock_acquire(...)');
#	$session->wait_for_lock;
#	$session->is_done, $session->result;
#
# A session is a psql process. Its output includes errors, with SQLSTATE,
# DETAIL and HINT. The node is one of PostgreSQL::Test::Cluster or PgServer.

package Session;

use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;
use IPC::Open3;
use PgServer;
use Time::HiRes qw(time);
use Wait;

my %running;    # sessions, by psql's pid
my %kept;       # sessions for ask(), by server

# Starts a session with these settings, in the database that `database` names, if any.
sub new
{
	my ($class, $node, %settings) = @_;
	my $database = delete $settings{database} // 'postgres';
	my $self = bless { node => $node, out => '', statements => 0, done => 1 }, $class;

	$self->{psql} = open3(
		$self->{to}, $self->{from}, undef,
		'psql', '-XqAt', '-v', 'VERBOSITY=verbose',
		$node->connstr($database));
	$running{ $self->{psql} } = $self;
	$self->{backend} = $self->query('SELECT pg_backend_pid()');
	$self->query("SET $_ = '$settings{$_}'") for sort keys %settings;
	return $self;
}

# Returns the pid of the backend.
sub pid
{
	my ($self) = @_;

	return $self->{backend};
}

# Sends SQL, which may be several statements, without a wait for the end.
sub start
{
	my ($self, $sql) = @_;

	local $SIG{PIPE} = 'IGNORE';
	$self->{out} = '';
	$self->{done} = 0;
	$self->{statements}++;
	syswrite($self->{to}, "$sql;\n\\echo end $self->{statements}\n");
	return;
}

# Has the last statement ended? This is also true if psql has lost its server.
sub is_done
{
	my ($self) = @_;

	$self->_read(0);
	return $self->{done};
}

# Waits for the end of the last statement, and returns the output of psql.
sub result
{
	my ($self) = @_;
	my $deadline = time() + $Wait::timeout;

	while (!$self->{done})
	{
		die "a statement does not end; output so far: $self->{out}\n"
		  if time() > $deadline;
		$self->_read(1);
	}
	return $self->{out};
}

# Returns the output so far, while the statement runs.
sub so_far
{
	my ($self) = @_;

	$self->_read(0);
	return $self->{out};
}

sub query
{
	my ($self, $sql) = @_;

	$self->start($sql);
	return $self->result;
}

# Waits until the backend waits for an event of this name or type.
sub wait_for_event
{
	my ($self, $event) = @_;

	$self->_wait_until("waits for $event",
		"SELECT '$event' IN (wait_event, wait_event_type) FROM pg_stat_activity
		 WHERE pid = ${\ $self->pid}");
	return;
}

# Waits until the backend waits for a lock, in ZooKeeper's queue or of PostgreSQL. Needs
# shared_preload_libraries.
sub wait_for_lock
{
	my ($self) = @_;

	$self->_wait_until('waits for a lock',
		"SELECT EXISTS (SELECT FROM zk_lock_status()
			WHERE pid = ${\ $self->pid} AND NOT granted AND node IS NOT NULL)
		 OR EXISTS (SELECT FROM pg_locks WHERE pid = ${\ $self->pid} AND NOT granted)");
	return;
}

sub _wait_until
{
	my ($self, $what, $sql) = @_;

	wait_until("process ${\ $self->pid} $what",
		sub { ask($self->{node}, $sql) eq 't' });
	return;
}

# Connects the session to ZooKeeper. On a busy machine, that can take longer
# than a short timeout of the first lock.
sub connect
{
	my ($self) = @_;
	my $answer =
	  $self->query(q(SELECT zk_lock_acquire('/connect'), zk_lock_release_all()));

	die "session does not connect: $answer\n" if $answer ne 't|1';
	return $self;
}

# Waits until ZooKeeper's last confirmation of the session is so old that a
# commit has to wait for another. Waiters can have a new session by then. Returns
# the error if a lock is lost meanwhile, and otherwise true.
sub outlive_lease
{
	my ($self) = @_;

	return wait_until(
		'the lease has run out',
		sub {
			my $answer = $self->query(
				'SELECT coalesce(confirmed_ago > timeout * 2 / 3, true) FROM zk_session()');

			return $answer ne 'f' && $answer;
		});
}

# Disconnects, in the middle of a statement if there is one.
sub close
{
	my ($self) = @_;

	if (delete $running{ $self->{psql} })
	{
		kill('KILL', $self->{psql});
		waitpid($self->{psql}, 0);
	}
	return;
}

# Reads the output that is available now, or within $seconds.
sub _read
{
	my ($self, $seconds) = @_;

	while (!$self->{done} && IO::Select->new($self->{from})->can_read($seconds))
	{
		my $open =
		  sysread($self->{from}, $self->{out}, 65536, length($self->{out}));

		$self->{lost} = !$open;
		$self->{done} = !$open
		  || $self->{out} =~ s/^end $self->{statements}\n\z//m;
		chomp $self->{out} if $self->{done};
	}
	return;
}

# Returns the answer of a server, or an empty string if it is down. The session
# is kept: a test that waits asks often, and each psql would cost much more.
sub ask
{
	my ($node, $sql) = @_;
	my $server = $node->connstr('postgres');

	# The server may have ended since the last question.
	for (1 .. 2)
	{
		$kept{$server} = Session->new($node)
		  if !$kept{$server}
		  && IO::Socket::UNIX->new(Peer => PgServer::socket_path($node->host, $node->port));
		my $session = $kept{$server} or last;
		my $answer = $session->query($sql);

		return $answer if !$session->{lost};
		delete($kept{$server})->close;
	}
	return '';
}

# While it waits for a lock, psql does not notice that the test has ended.
END
{
	my $status = $?;

	$_->close for values %running;
	$? = $status;
}

1;
