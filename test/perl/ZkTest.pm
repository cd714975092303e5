# Common parts of the TAP tests: PostgreSQL servers with zklock, and database
# sessions that can wait for a lock while the test continues.
#
#	my $node = new_node('a', $zk->hosts);
#	my $session = ZkTest->new($node, application_name => 'me');
#	$session->query('SELECT 1');         # returns what psql prints
#	$session->start('SELECT zk_lock_acquire(...)');
#	$session->wait_for_lock;
#	$session->is_done, $session->result;
#
# A session is a psql process. Its output includes errors, with SQLSTATE,
# DETAIL and HINT.

package ZkTest;

use strict;
use warnings;

use Exporter qw(import);
use IO::Select;
use IO::Socket::UNIX;
use IPC::Open3;
use PgServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Template;
use Time::HiRes qw(time);
use Wait;
use Worker;

our @EXPORT =
  qw(new_node change_setting import_tables create_fence with_settings server_mode keeper_of
  acquire xact_acquire rollback queue wait_for_queue wait_for_nodes
  wait_for_server crash_server wait_until_released is_suspended seconds_of cpu_seconds
  wait_until OWN_SESSION);

# A setting for tests of the backend's own session, in whatever mode they run.
use constant OWN_SESSION => ('zklock.session_mode' => 'backend');

my %running;    # sessions, by psql's pid
my %gate;       # servers whose backends hand locks over, by port
my %kept;       # sessions for _ask(), by port
my $others = 0; # servers that were made for their settings

# Do backends share the server's session ('server'), and also hand locks over
# without ZooKeeper ('gate')? Empty if each has its own session.
sub server_mode
{
	my $mode = $ENV{ZKLOCK_SESSION} // '';

	return $mode eq 'backend' ? '' : $mode;
}

# Returns a running server with the extension. %conf is for its
# postgresql.conf.
sub new_node
{
	my ($name, $hosts, %conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	%conf = ('zklock.hosts' => $hosts, %conf, PgServer->test_settings(%conf));
	init_node($node);
	$node->append_conf('postgresql.conf', "$_ = '$conf{$_}'")
	  for sort keys %conf;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION zklock');
	$gate{ $node->port } = $node
	  if ($conf{'zklock.session_mode'} // '') eq 'server'
	  && ($conf{'zklock.handover_time'} // 'default') ne '0';
	return $node;
}

# Changes a setting of the server, and waits until these sessions have noticed that.
sub change_setting
{
	my ($node, $name, $value, @sessions) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	$node->reload;
	for my $session (@sessions)
	{
		wait_until("$name is $value",
			sub { $session->query("SHOW $name") eq $value });
	}
	return;
}

# Returns the node and the settings for sessions whose ZooKeeper session has
# the given settings. In server mode, the node's other backends must not share
# that session: it takes another node, which the caller can stop before the end
# of the test.
sub with_settings
{
	my ($node, %settings) = @_;
	my $hosts = delete $settings{'zklock.hosts'};

	return ($node, 'zklock.hosts' => $hosts, %settings) if !server_mode();
	return new_node($node->name . '_' . ++$others, $hosts, %settings);
}

# Returns the pid of the process that has the ZooKeeper session of this
# database session's locks: its backend, or the server's worker.
sub keeper_of
{
	my ($session, $node) = @_;

	return server_mode() ? worker_of($node) : $session->pid;
}

# Lets a node see tables of another one, with postgres_fdw.
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

# Creates a table "fence": a token that is inserted into it, from any server,
# is passed to zk_fence().
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

# Returns the statement that acquires a lock with these arguments.
sub acquire
{
	my ($path, %arguments) = @_;

	return "SELECT zk_lock_acquire('$path'"
	  . join('', map { ", $_ => '$arguments{$_}'" } sort keys %arguments) . ')';
}

# The same for the transaction
sub xact_acquire
{
	my ($path, %arguments) = @_;

	return acquire($path, scope => 'transaction', %arguments);
}

sub rollback
{
	my (@sessions) = @_;

	$_->query('ROLLBACK') for @sessions;
	return;
}

# Returns the pids of the backends that hold or wait for a lock, in the order
# of ZooKeeper's queue.
sub queue
{
	my ($zk, $path) = @_;

	return map { @$_ } _groups($zk, $path);
}

# The same in groups: holders of one node, which are readers, have no order.
sub _groups
{
	my ($zk, $path) = @_;
	my @names =
	  sort { substr($a, -10) <=> substr($b, -10) } $zk->children($path);

	# A node that was deleted meanwhile has no data.
	return map { _behind($_, ($zk->get("$path/$_") // { data => '' })->{data}) }
	  @names;
}

# Returns the groups of pids that a node with this name and data represents:
# several, if backends of its server wait at its gate. If nobody can tell them,
# the group names the server.
sub _behind
{
	my ($name, $data) = @_;
	my ($port, $pid) = $data =~ /port=(\d+)(?: pid=(\d+))?/ or return;
	my @named = [ $pid // "server $port" ];
	return @named if !$gate{$port};

	# The server may be down.
	my $pids = _ask($gate{$port},
		"SELECT array_to_string(array_agg(pid), ' ') FROM zk_locks
		 WHERE node = '$name'
		 GROUP BY granted, CASE WHEN NOT granted THEN pid END
		 ORDER BY granted DESC, min(waitstart)");
	return $pids =~ /^\d/ ? map { [split] } split(/\n/, $pids) : @named;
}

# Returns the answer of a server, or an empty string if it is down. The session
# is kept: a test that waits asks often, and each psql would cost much more.
sub _ask
{
	my ($node, $sql) = @_;
	my $port = $node->port;

	# The server may have ended since the last question.
	for (1 .. 2)
	{
		$kept{$port} = ZkTest->new($node)
		  if !$kept{$port}
		  && IO::Socket::UNIX->new(Peer => $node->host . "/.s.PGSQL.$port");
		my $session = $kept{$port} or last;
		my $answer = $session->query($sql);

		return $answer if !$session->{lost};
		delete($kept{$port})->close;
	}
	return '';
}

# Waits until exactly these sessions are in the queue of a lock, in this order.
sub wait_for_queue
{
	my ($zk, $path, @sessions) = @_;
	my @wanted = map { $_->pid } @sessions;

	wait_until(
		"the queue at $path is (@wanted)",
		sub {
			my @left = @wanted;

			for my $group (_groups($zk, $path))
			{
				my @next = splice(@left, 0, scalar @$group);

				return 0 if "@{[ sort @next ]}" ne "@{[ sort @$group ]}";
			}
			return !@left;
		});
	return;
}

# Waits until the path has so many children.
sub wait_for_nodes
{
	my ($zk, $path, $n) = @_;

	wait_until("there are $n nodes at $path", sub { $zk->children($path) == $n });
	return;
}

# Waits until a server accepts connections again after a crash.
sub wait_for_server
{
	my ($node) = @_;

	wait_until('the server is back',
		sub { eval { $node->safe_psql('postgres', 'SELECT 1') } });
	return;
}

# Kills processes of the server, which then crashes, and waits until it is back.
# Until the postmaster has noticed, the server still accepts connections, which
# end soon after; and it notices when it reaps the killed processes.
sub crash_server
{
	my ($node, @pids) = @_;

	kill('KILL', @pids);
	wait_until('the postmaster has noticed', sub { !kill(0, @pids) });
	wait_for_server($node);
	return;
}

# Waits until ZooKeeper has only the nodes of locks that backends of this session's
# server hold: a release does not wait for it. Needs shared_preload_libraries.
sub wait_until_released
{
	my ($zk, $session) = @_;

	wait_until(
		'the nodes of released locks are deleted',
		sub {
			my $held = $session->query('SELECT count(DISTINCT node) FROM zk_locks');
			$zk->four_letter('mntr') =~ /^zk_ephemerals_count\t$held$/m;
		});
	return;
}

# Has a signal suspended the process?
sub is_suspended
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/stat") =~ /\) T /;
}

# Returns the seconds that $code takes.
sub seconds_of
{
	my ($code) = @_;
	my $began = time();

	$code->();
	return time() - $began;
}

# Returns the CPU time that processes have used, in seconds.
sub cpu_seconds
{
	my $ticks = 0;

	for my $pid (@_)
	{
		my $stat = slurp_file("/proc/$pid/stat");
		my @fields = split(' ', $stat =~ s/.*\) //r);

		$ticks += $fields[11] + $fields[12];
	}
	return $ticks / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# Starts a session with these settings.
sub new
{
	my ($class, $node, %settings) = @_;
	my $self = bless { node => $node, out => '', statements => 0, done => 1 }, $class;

	$self->{psql} = open3(
		$self->{to}, $self->{from}, undef,
		'psql', '-XqAt', '-v', 'VERBOSITY=verbose',
		$node->connstr('postgres'));
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
		sub { _ask($self->{node}, $sql) eq 't' });
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
# commit has to ask for another. Waiters can have a new session by then.
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

# While it waits for a lock, psql does not notice that the test has ended.
END
{
	my $status = $?;

	$_->close for values %running;
	$? = $status;
}

1;
