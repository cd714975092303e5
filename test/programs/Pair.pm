# Two servers, and a database of the same name on each for a program to work in.
#
# work() says that it is executed, by a file that belongs to the database, and goes on when
# another file is there.

package Pair;

use strict;
use warnings;

use Child;
use List::Util qw(max);
use PgServer;
use Wait;

# Starts the servers, with a session mode.
sub new
{
	my ($class, $bindir, $dir, $zk, $mode) = @_;
	my $self = bless { zk => $zk, servers => [] }, $class;
	local $ENV{ZKLOCK_SESSION} = $mode;

	mkdir($dir) or die "$dir: $!\n";
	for my $name (qw(a b))
	{
		my $server = PgServer->with_zklock(
			$bindir, "$dir/$name", $zk->hosts,
			shared_preload_libraries => 'zklock,pg_cron',
			log_line_prefix => '%d: ',
			checkpoint_timeout => '1h',
			'cron.host' => "$dir/$name",
			'zklock.leaders' => '/leaders/cron');

		push @{ $self->{servers} }, $server;
		$server->psql('-c', $_)
		  for 'CREATE EXTENSION pg_cron', 'CREATE ROLE app LOGIN', 'CREATE ROLE maintenance LOGIN SUPERUSER',
		  "ALTER ROLE maintenance SET zklock.advisory_locks = 'server'", 'CREATE DATABASE model';
		$server->psql_in('model', '-c', q(
			CREATE EXTENSION zklock;
			CREATE EXTENSION zklock_advisory;
			CREATE FUNCTION work() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
				DECLARE
					place text := format('%s/%s.', current_setting('unix_socket_directories'), current_database());
				BEGIN
					EXECUTE format('COPY (SELECT) TO %L', place || 'at_work');
					WHILE (pg_stat_file(place || 'go', true)).modification IS NULL LOOP
						PERFORM pg_sleep(0.02);
					END LOOP;
					RETURN 'done';
				END $$;
			CREATE FUNCTION gate() RETURNS event_trigger LANGUAGE plpgsql AS $$
				BEGIN
					PERFORM public.work();
				END $$));

		# A try waits for a second only, and ZooKeeper is slow until it has loaded its classes.
		$server->psql('-c', q(SELECT zk_lock_acquire('/loaded', '1min')));
	}
	return $self;
}

sub servers
{
	my ($self) = @_;

	return @{ $self->{servers} };
}

sub stop
{
	my ($self) = @_;

	$_->stop for $self->servers;
	return;
}

# Makes the database on both servers.
sub create
{
	my ($self, $database, $setting) = @_;

	for my $server ($self->servers)
	{
		$server->psql('-c', $_)
		  for "CREATE DATABASE $database TEMPLATE model OWNER app",
		  "ALTER DATABASE $database SET zklock.advisory_locks = '$setting'",
		  "ALTER DATABASE $database SET log_statement = 'all'";
	}
	return;
}

# Executes a CREATE TABLE on both servers such that the table has the same OID.
sub create_alike
{
	my ($self, $database, $create) = @_;
	my $last = max(map { $_->psql_in($database, '-c', 'SELECT lo_create(0)') } $self->servers) + 100;

	for my $server ($self->servers)
	{
		$server->psql_in($database, '-c', $_) for "
			DO \$\$
			DECLARE
				n oid;
			BEGIN
				LOOP
					n := lo_create(0);
					PERFORM lo_unlink(n);
					EXIT WHEN n::bigint >= $last;
				END LOOP;
			END \$\$", $create;
	}
	return;
}

sub drop
{
	my ($self, $database) = @_;

	$_->psql('-c', "DROP DATABASE $database WITH (FORCE)") for $self->servers;
	return;
}

# Is work() executed in this database, or has it been?
sub is_at_work
{
	my ($self, $server, $database) = @_;

	return -e $server->host . "/$database.at_work";
}

# Lets work() end.
sub let_go
{
	my ($self, $server, $database) = @_;
	my $file = $server->host . "/$database.go";

	open(my $fh, '>', $file) or die "$file: $!\n";
	return;
}

# The number of advisory locks that the server shows, in a session of the database
sub locks
{
	my ($self, $server, $database, $condition) = @_;

	return $server->psql_in($database, '-c', "SELECT count(*) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND $condition");
}

# Waits until no lock of the database is left, neither in ZooKeeper nor on a server.
sub wait_until_free
{
	my ($self, $database) = @_;

	wait_until("no advisory lock of $database is left", sub {
		return !grep { $self->locks($_, $database, 'true') != 0 } $self->servers;
	}, 30);
	wait_until("no node of $database is left", sub {
		return $self->{zk}->four_letter('dump') !~ m{^\t/pg_advisory/$database/}m;
	}, 30);
	return;
}

# Starts a program, to work in the database as a role.
sub run
{
	my ($self, $server, $database, $user, $program) = @_;
	local @ENV{qw(PGHOST PGPORT PGUSER PGDATABASE PGDATA)} =
	  ($server->host, $server->port, $user, $database, $server->host . '/data');
	local $ENV{ $program->{url} // 'ZKLOCK_URL' } =
	  "postgresql://$user\@/$database?host=$ENV{PGHOST}&port=$ENV{PGPORT}";

	return Child->start($server->host . "/$database.log",
		'sh', '-c', 'cd "$1" && shift && exec "$@"', 'sh', $program->{directory}, @{ $program->{command} });
}

1;
