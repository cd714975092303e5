# What the TAP tests share: PostgreSQL servers with zklock on them, and database
# sessions that can be told to wait for a lock while the test goes on.
#
#	my $node = new_node('a', $zk->hosts);
#	my $session = ZkTest->new($node, application_name => 'me');
#	$session->query('SELECT 1');         # returns what psql prints
#	$session->start('SELECT zk_lock_acquire(...)');
#	$session->is_done, $session->result;
#
# A session is a psql. Errors are among what it prints, with their SQLSTATE,
# DETAIL and HINT.

package ZkTest;

use strict;
use warnings;

use Exporter qw(import);
use IO::Select;
use IPC::Open3;
use PgServer;
use PostgreSQL::Test::Cluster;
use POSIX ();
use Time::HiRes qw(time);
use Wait;
use Worker;

our @EXPORT =
  qw(new_node import_tables create_fence with_settings server_mode keeper_of queue
  wait_for_queue wait_for_server seconds_of wait_until OWN_SESSION);

# A setting for those who are about a session of the backend's own, whatever mode
# the tests are run in.
use constant OWN_SESSION => ('zklock.session' => 'backend');

my %running;    # sessions, by psql's pid
my %gate;       # servers whose backends hand locks over, by port
my $others = 0; # servers that were made for their settings

# Do backends share the server's session ('server'), and hand locks over without
# ZooKeeper ('gate')? Empty if each has its own.
sub server_mode
{
	my $mode = $ENV{ZKLOCK_SESSION} // '';

	return $mode eq 'backend' ? '' : $mode;
}

# A running server with the extension. %conf is for its postgresql.conf.
sub new_node
{
	my ($name, $hosts, %conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	%conf = ('zklock.hosts' => $hosts, %conf, PgServer->session_mode(%conf));
	$node->init;
	$node->append_conf('postgresql.conf', "$_ = '$conf{$_}'")
	  for sort keys %conf;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION zklock');
	$gate{ $node->port } = $node
	  if ($conf{'zklock.session'} // '') eq 'server'
	  && ($conf{'zklock.local_handover'} // 'default') ne '0';
	return $node;
}

# The node and the settings with which a session is to be begun so that locks are
# held in a session in ZooKeeper for which the given settings are in force. In server
# mode that is one that the node's other backends do not have: it takes another
# node, which is not stopped before the end if nobody does.
sub with_settings
{
	my ($node, %settings) = @_;
	my $hosts = delete $settings{'zklock.hosts'};

	return ($node, 'zklock.hosts' => $hosts, %settings) if !server_mode();
	return new_node($node->name . '_' . ++$others, $hosts, %settings);
}

# The pid of the process that has a node's session in ZooKeeper, in which the locks
# of this database session are held: its backend, or the server's worker.
sub keeper_of
{
	my ($session, $node) = @_;

	return server_mode() ? worker_of($node) : $session->pid;
}

# Has a node see tables of another one, with postgres_fdw.
sub import_tables
{
	my ($node, $other, @tables) = @_;
	my ($host, $port, $tables) =
	  ($other->host, $other->port, join(', ', @tables));

	$node->safe_psql('postgres', qq(
		CREATE EXTENSION postgres_fdw;
		CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER other;
		IMPORT FOREIGN SCHEMA public LIMIT TO ($tables)
			FROM SERVER other INTO public));
	return;
}

# Makes a table fence: a token that is inserted into it, from wherever, goes to
# zk_fence().
sub create_fence
{
	my ($node) = @_;

	$node->safe_psql('postgres', q(
		CREATE TABLE fence (path text, token bigint);
		CREATE FUNCTION fence() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN
				PERFORM public.zk_fence(NEW.path, NEW.token);
				RETURN NULL;
			END $$;
		CREATE TRIGGER fence BEFORE INSERT ON fence
			FOR EACH ROW EXECUTE FUNCTION fence()));
	return;
}

# The pids of the backends that queue for a lock, first in line first, as
# ZooKeeper has them.
sub queue
{
	my ($zk, $path) = @_;
	my @names =
	  sort { substr($a, -10) <=> substr($b, -10) } $zk->children($path);

	# A node that went meanwhile has no data.
	return map { _behind($_, ($zk->get("$path/$_") // { data => '' })->{data}) }
	  @names;
}

# The pids of those for whom a node with this name and data stands: many, if
# backends of its server wait at its gate.
sub _behind
{
	my ($name, $data) = @_;
	my ($port, $pid) = $data =~ /port=(\d+) pid=(\d+)/ or return;
	return $pid if !$gate{$port};

	# The server may be down.
	my ($failed, $pids) = eval {
		$gate{$port}->psql('postgres',
			"SELECT pid FROM zk_locks WHERE node = '$name'
			 ORDER BY granted DESC, waitstart");
	};
	return $@ || $failed || $pids eq '' ? $pid : split(/\n/, $pids);
}

# Waits until exactly these sessions queue for a lock, in this order.
sub wait_for_queue
{
	my ($zk, $path, @sessions) = @_;
	my $wanted = join(' ', map { $_->pid } @sessions);

	wait_until("the queue at $path is ($wanted)",
		sub { join(' ', queue($zk, $path)) eq $wanted });
	return;
}

# Waits until a server that has crashed takes connections again.
sub wait_for_server
{
	my ($node) = @_;

	wait_until('the server is back',
		sub { eval { $node->safe_psql('postgres', 'SELECT 1') } });
	return;
}

# How long $code takes.
sub seconds_of
{
	my ($code) = @_;
	my $began = time();

	$code->();
	return time() - $began;
}

# %settings are for this session.
sub new
{
	my ($class, $node, %settings) = @_;
	my $self = bless { out => '', statements => 0, done => 1 }, $class;

	$self->{psql} = open3(
		$self->{to}, $self->{from}, undef,
		'psql', '-XqAt', '-v', 'VERBOSITY=verbose',
		$node->connstr('postgres'));
	$running{ $self->{psql} } = $self;
	$self->{backend} = $self->query('SELECT pg_backend_pid()');
	$self->query("SET $_ = '$settings{$_}'") for sort keys %settings;
	return $self;
}

# The backend's
sub pid
{
	my ($self) = @_;

	return $self->{backend};
}

# Sends SQL, which may be several statements, without waiting for its end.
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

# Has it ended? A psql that lost its server has, too.
sub is_done
{
	my ($self) = @_;

	$self->_read(0);
	return $self->{done};
}

# Waits until it has ended and returns what psql printed.
sub result
{
	my ($self) = @_;
	my $deadline = time() + $Wait::timeout;

	while (!$self->{done})
	{
		die "no end of a statement in sight; so far: $self->{out}\n"
		  if time() > $deadline;
		$self->_read(1);
	}
	return $self->{out};
}

# What was printed so far, while it goes on.
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

# Has its session in ZooKeeper begun, for which a timeout of 0 or of a second may be too
# short on a busy machine.
sub connect
{
	my ($self) = @_;
	my $answer =
	  $self->query(q(SELECT zk_lock_acquire('/connect'), zk_lock_release_all()));

	die "it does not connect: $answer\n" if $answer ne 't|1';
	return $self;
}

# Waits until so much time has passed since ZooKeeper last confirmed the session
# that a commit has to ask. There may be another session by then, for those who wait.
sub outlive_lease
{
	my ($self) = @_;

	wait_until(
		'the lease has run out',
		sub {
			$self->query(
				'SELECT coalesce(confirmed_ago > timeout / 3, true) FROM zk_session()')
			  eq 't';
		});
	return;
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

# Takes in what there is to read, or will be within $seconds.
sub _read
{
	my ($self, $seconds) = @_;

	while (!$self->{done} && IO::Select->new($self->{from})->can_read($seconds))
	{
		my $open =
		  sysread($self->{from}, $self->{out}, 65536, length($self->{out}));

		$self->{done} = !$open
		  || $self->{out} =~ s/^end $self->{statements}\n\z//m;
		chomp $self->{out} if $self->{done};
	}
	return;
}

# A psql that waits for a lock would not notice that we are gone.
END
{
	my $status = $?;

	$_->close for values %running;
	$? = $status;
}

1;
