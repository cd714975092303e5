# Common parts of the TAP tests: PostgreSQL servers with zklock, and database
# sessions on them.
#
#	my $node = new_node('a', $zk->hosts);
#	my $session = ZkTest->new($node, application_name => 'me');
#
# Session.pm has the methods of a session.

package ZkTest;

use strict;
use warnings;

use parent qw(Session);

use Exporter qw(import);
use PgServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Template;
use Time::HiRes qw(time);
use Wait;
use Worker;

our @EXPORT =
  qw(new_node new_primary new_standby change_setting import_tables create_fence with_settings server_mode keeper_of
  acquire xact_acquire rollback queue wait_for_queue wait_for_nodes
  wait_for_server crash_server wait_until_released is_suspended seconds_of cpu_seconds
  wait_until OWN_SESSION);

# A setting for tests of the backend's own session, in whatever mode they run.
use constant OWN_SESSION => ('zklock.session_mode' => 'backend');

my %gate;       # servers whose backends hand locks over, by port
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

# The same for one that has standbys, which catch up.
sub new_primary
{
	my ($name, $hosts, %conf) = @_;

	return new_node(
		$name, $hosts,
		autovacuum => 'off',
		shared_preload_libraries => 'zklock',
		wal_level => 'replica',
		wal_keep_size => '1GB',
		max_wal_senders => 5,
		'zklock.session_mode' => 'server',
		'zklock.answer_positions' => 'on',
		'zklock.catch_up' => 'off',
		'zklock.catch_up_timeout' => '60s',
		%conf);
}

# Returns a running standby of a server, with its settings and these.
sub new_standby
{
	my ($name, $of, %settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$of->backup("for_$name");
	$node->init_from_backup($of, "for_$name", has_streaming => 1);
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") for sort keys %settings;
	$node->start;
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
	my $pids = Session::ask($gate{$port},
		"SELECT array_to_string(array_agg(pid), ' ') FROM zk_locks
		 WHERE node = '$name'
		 GROUP BY granted, CASE WHEN NOT granted THEN pid END
		 ORDER BY granted DESC, min(waitstart)");
	return $pids =~ /^\d/ ? map { [split] } split(/\n/, $pids) : @named;
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

1;
