# The programs: what each runs, and what it does while another server's one has the lock.
#
#	name		as in docs/advisory-locks.md
#	npm		its package, if it is from npm
#	package		that of Debian otherwise; %d is the version of PostgreSQL
#	files		those that it needs, by name in its directory, where it is started
#	alike		a table that has the same OID on both servers
#	prepare		statements of the administrator in the new database
#	command		the program, which executes work(), or DDL if there is the event trigger GATE.
#			PG* say where to work.
#	job		instead of a command, the statement of its job for each minute
#	url		the variable that says so with a URL, too
#	status		its exit status if it does not work, because the other one does; without it,
#			it waits, and works then
#	says		what it prints in that case
#	tries		the call that it repeats while it waits, if that is no wait in the server
#	local		true if it guards work of one server, and so has to keep PostgreSQL's locks
#	unlocked	the version from which on it takes no lock
#	is_at_work	a query whose result is not 0 while it is at work, instead of a look at work()
#	let_go		the statement that lets it go on then

package Programs;

use strict;
use warnings;

use Digest::SHA qw(sha1_hex);

use constant GATE => 'CREATE EVENT TRIGGER gate ON ddl_command_start EXECUTE FUNCTION gate()';

my $migration = "SELECT work();\n";
my @library = ('node', '../libraries.js');

my %sqitch = (
	'sqitch.conf' => "[core]\nengine = pg\n[user]\nname = a\nemail = a\@example.com\n",
	'sqitch.plan' => "%syntax-version=1.0.0\n%project=work\n\n"
	  . "work 2020-01-01T00:00:00Z a <a\@example.com>\n",
	'deploy/work.sql' => $migration);

sub all
{
	return (
		{
			name => 'node-pg-migrate',
			npm => 'node-pg-migrate',
			files => { 'migrations/1_work.sql' => $migration },
			command => [ 'node-pg-migrate', 'up' ],
			url => 'DATABASE_URL',
			status => 1,
			says => qr/Another migration is already running/
		},
		{
			name => 'Kysely',
			npm => 'kysely',
			command => [ @library, 'kysely' ]
		},
		{
			name => 'postgres-migrations',
			npm => 'postgres-migrations',
			files => { 'migrations/1_work.sql' => $migration },
			command => [ @library, 'postgres-migrations' ],
			tries => 'pg_try_advisory_lock'
		},
		{
			name => 'Graphile Migrate',
			npm => 'graphile-migrate',
			files => {
				'.gmrc' => '{}',
				'migrations/committed/000001.sql' => "--! Previous: -\n--! Hash: sha1:"
				  . sha1_hex($migration)
				  . "\n\n$migration"
			},
			command => [ 'graphile-migrate', 'migrate' ],
			url => 'DATABASE_URL',
			status => 1,
			says => qr/Failed to get exclusive lock/
		},
		{
			name => 'pg-boss',
			npm => 'pg-boss',
			prepare => GATE,
			command => [ @library, 'pg-boss' ]
		},
		{
			name => 'advisory-lock',
			npm => 'advisory-lock',
			command => [ qw(withlock work -- psql -Xc), 'SELECT work()' ],
			url => 'PG_CONNECTION_STRING'
		},
		{
			name => 'ActiveRecord',
			package => 'ruby-activerecord',
			files => {
				'migrations/1_work.rb' => q(
					class Work < ActiveRecord::Migration[ActiveRecord::Migration.current_version]
					  def up
					    execute 'SELECT work()'
					  end
					end)
			},
			command => [
				'sh', '-c', 'exec ruby ../migrate.rb "$PGHOST" "$PGPORT" "$PGDATABASE" migrations'
			],
			status => 1,
			says => qr/ActiveRecord::ConcurrentMigrationError/
		},
		{
			name => 'Sqitch',
			package => 'sqitch',
			files => \%sqitch,
			command => [ 'sqitch', 'deploy', 'db:pg:' ],
			says => qr/Blocked by another instance of Sqitch/
		},
		{
			name => 'Sqitch with a timeout',
			package => 'sqitch',
			files => \%sqitch,
			command => [ 'sqitch', 'deploy', '--lock-timeout', 1, 'db:pg:' ],
			status => 2,
			says => qr/Timed out waiting/
		},
		{
			name => 'asyncpg',
			package => 'python3-asyncpg',
			command => [ '/usr/bin/python3', '../pool.py' ]
		},
		{
			name => 'pg_cron',
			package => 'postgresql-%d-cron',

			# While a job runs, pg_cron's launcher holds up each DROP DATABASE, so no other
			# program runs meanwhile.
			job => 'SELECT CASE WHEN pg_try_advisory_lock(42) THEN work() END'
		},
		{
			name => 'pg_partman',
			package => 'postgresql-%d-partman',
			local => 1,
			prepare => q(
				CREATE SCHEMA partman;
				CREATE EXTENSION pg_partman SCHEMA partman;
				CREATE TABLE event (at timestamptz NOT NULL) PARTITION BY RANGE (at);
				DO $$
				BEGIN
					IF (SELECT extversion ~ '^4' FROM pg_extension WHERE extname = 'pg_partman') THEN
						PERFORM partman.create_parent('public.event', 'at', 'native', '1 day');
					ELSE
						PERFORM partman.create_parent('public.event', 'at', '1 day');
					END IF;
				END $$;
				INSERT INTO event VALUES (now());
				UPDATE partman.part_config SET premake = premake + 4;) . GATE,
			command => [ 'psql', '-Xc', 'CALL partman.run_maintenance_proc()' ],
			status => 0
		},
		{
			name => 'pg_repack',
			package => 'postgresql-%d-repack',
			local => 1,
			alike => 'CREATE TABLE work (id int PRIMARY KEY)',
			prepare => 'CREATE EXTENSION pg_repack;' . GATE,
			command => [ 'pg_repack', '-t', 'work' ],
			status => 1,
			says => qr/Another pg_repack command may be running/
		},
		{
			name => 'pgBackRest',
			package => 'pgbackrest',
			local => 1,
			unlocked => '2.53',
			command => [
				'sh', '-c', q(
				export PGBACKREST_STANZA="$PGDATABASE" PGBACKREST_PG1_PATH="$PGDATA" \
					PGBACKREST_PG1_SOCKET_PATH="$PGHOST" PGBACKREST_PG1_PORT="$PGPORT" \
					PGBACKREST_PG1_USER="$PGUSER" PGBACKREST_PG1_DATABASE="$PGDATABASE" \
					PGBACKREST_REPO1_PATH="$PGHOST/repo" PGBACKREST_LOCK_PATH="$PGHOST/repo.lock" \
					PGBACKREST_LOG_LEVEL_FILE=off PGBACKREST_COMPRESS_TYPE=none
				pgbackrest --no-config stanza-create &&
					exec pgbackrest --no-config --no-archive-check backup)
			],

			# It waits for a checkpoint, which takes long until somebody wants one at once.
			is_at_work => q(SELECT count(*) FROM pg_stat_activity
				WHERE query ~ 'pg_(backup_start|start_backup)' AND datname = current_database()
				AND pid <> pg_backend_pid()),
			let_go => 'CHECKPOINT',
			status => 50,
			says => qr/unable to acquire pgBackRest advisory lock/
		});
}

1;
