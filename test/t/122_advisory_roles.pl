# What a role could turn against advisory locks across servers: the setting, the
# functions, the schema, its limits.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts, shared_preload_libraries => 'zklock');
my $lock = 'SELECT pg_try_advisory_lock(1)';

sub sql
{
	my ($sql) = @_;

	return $node->safe_psql('postgres', $sql);
}

sub session_of
{
	my ($role) = @_;
	local $ENV{PGUSER} = $role;

	return ZkTest->new($node);
}

# The result of a statement in a new session of a role
sub answer_to
{
	my ($role, $statement) = @_;
	my $session = session_of($role);
	my $answer = $session->query($statement);

	$session->close;
	return $answer;
}

# Where are advisory locks? With 'cluster', PostgreSQL's view shows both kinds.
sub outcome
{
	return sql(q(SET zklock.advisory_locks = 'server'; SELECT concat_ws(' and ',
		(SELECT 'on this server' FROM pg_catalog.pg_locks WHERE locktype = 'advisory' LIMIT 1),
		(SELECT 'across servers' FROM zk_locks WHERE path LIKE '/pg_advisory/%' LIMIT 1))));
}

sql(q(
	CREATE ROLE mallory LOGIN;
	CREATE ROLE shop LOGIN;
	GRANT ALL ON SCHEMA public TO mallory;
	GRANT CREATE ON DATABASE postgres TO mallory;
	CREATE FUNCTION sell() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
		SET search_path = pg_catalog AS 'BEGIN RETURN pg_try_advisory_lock(1); END'));
my $mallory = session_of('mallory');

# A schema zk_advisory that somebody else has made. Without the extension it does not
# matter what is in it, and with it nobody else may have one.
$mallory->query(q(
	CREATE SCHEMA zk_advisory;
	CREATE FUNCTION zk_advisory.pg_try_advisory_lock(bigint) RETURNS boolean LANGUAGE plpgsql AS
		'BEGIN RETURN true; END';
	GRANT USAGE ON SCHEMA zk_advisory TO PUBLIC));
sql(q(ALTER DATABASE postgres SET zklock.advisory_locks = 'cluster'));
my $victim = ZkTest->new($node);
like($victim->query($lock), qr/^ERROR:  55000: advisory locks across servers need extension/,
	"a function in somebody's schema is not taken for one of the extension");
my (undef, undef, $error) = $node->psql('postgres', 'CREATE EXTENSION zklock_advisory');
like($error, qr/ERROR:  schema "zk_advisory" already exists/,
	"the extension is not installed into somebody's schema");
sql('DROP SCHEMA zk_advisory CASCADE; CREATE EXTENSION zklock_advisory');
is($victim->query($lock), 't', 'the lock is taken once the extension is there');
is(outcome(), 'across servers', '... across servers');
$victim->query('SELECT pg_advisory_unlock_all()');
for my $statement ('CREATE FUNCTION zk_advisory.pg_try_advisory_lock(text) RETURNS boolean LANGUAGE sql AS $$SELECT true$$',
	'DROP FUNCTION zk_advisory.pg_try_advisory_lock(bigint)',
	'ALTER EXTENSION zklock_advisory DROP FUNCTION zk_advisory.pg_try_advisory_lock(bigint)',
	'DROP SCHEMA zk_advisory CASCADE', 'DROP EXTENSION zklock_advisory')
{
	like($mallory->query($statement), qr/^ERROR:  42501:/, "not permitted: $statement");
}

# Functions of other names, or in other schemas, are the user's own.
$mallory->query(q(CREATE FUNCTION public.pg_try_advisory_lock(text) RETURNS boolean
	LANGUAGE sql AS 'SELECT false'));
is($mallory->query(q(SELECT pg_try_advisory_lock('1'::text), pg_try_advisory_lock('2'::bigint))),
	'f|t', 'a function of the same name is not replaced');
$mallory->query('SELECT pg_advisory_unlock_all()');

# The setting
$mallory->close;
$mallory = session_of('mallory');
for my $statement (q(SET zklock.advisory_locks = 'server'),
	q(SET zklock.advisory_path = '/mine'),
	q(SELECT set_config('zklock.advisory_locks', 'server', false)),
	q(ALTER ROLE mallory SET zklock.advisory_locks = 'server'),
	q(ALTER ROLE mallory SET zklock.advisory_path = '/mine'),
	q(CREATE FUNCTION f() RETURNS void LANGUAGE sql SET zklock.advisory_locks = 'server' AS ''),
	q(SET session_preload_libraries = ''))
{
	like($mallory->query($statement), qr/^ERROR:  42501:/, "not permitted: $statement");
}
for my $setting ('zklock.advisory_locks=server', 'zklock.advisory_path=/mine')
{
	local $ENV{PGUSER} = 'mallory';
	local $ENV{PGOPTIONS} = "-c $setting";

	command_fails_like(
		[ 'psql', '-X', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-c', $lock ],
		qr/permission denied to set parameter/, "... at a connect: $setting");
}
for my $statement ('RESET zklock.advisory_locks', 'RESET ALL', 'DISCARD ALL', 'SET LOCAL zklock.advisory_locks TO DEFAULT')
{
	$mallory->query($statement);
	is($mallory->query('SELECT sell()'), 't', "a function with the rights of its owner after $statement");
	is(outcome(), 'across servers', '... takes its lock across servers');
	$mallory->query('SELECT pg_advisory_unlock_all()');
}

# PostgreSQL 15 can grant the privilege to change it.
SKIP:
{
	skip 'no privileges for settings', 2 if sql('SHOW server_version_num') < 150000;
	sql('GRANT SET ON PARAMETER zklock.advisory_locks TO mallory');
	is($mallory->query("SET zklock.advisory_locks = 'server'; $lock"), 't',
		'a role that may set it changes it');
	is(outcome(), 'on this server', '... and takes its lock on this server');
	$mallory->query('SELECT pg_advisory_unlock_all(); RESET zklock.advisory_locks');
	sql('REVOKE SET ON PARAMETER zklock.advisory_locks FROM mallory');
}

# A value that is not valid, stored before the library was preloaded: no lock is taken
# anywhere.
$_->close for $mallory, $victim;
$node->append_conf('postgresql.conf', q(shared_preload_libraries = ''));
$node->restart;
sql(q(ALTER DATABASE postgres SET zklock.advisory_locks = 'clutser'));
$node->append_conf('postgresql.conf', q(shared_preload_libraries = 'zklock'));
$node->restart;
like(answer_to('shop', $lock),
	qr/^ERROR:  55000: invalid value for parameter "zklock.advisory_locks"/,
	'with an invalid value for the database, no advisory lock is taken');
is(outcome(), '', '... neither on this server nor across servers');

# A plan of that time does not outlive it, although the valid value is the default.
my $planned = ZkTest->new($node);
$planned->query("PREPARE q AS $lock; EXECUTE q");
is($planned->query(q(SET zklock.advisory_locks = 'server'; EXECUTE q)),
	't', 'a prepared statement takes its lock once the value is valid');
is(outcome(), 'on this server', '... where the setting says');
$planned->close;
sql('ALTER DATABASE postgres RESET zklock.advisory_locks');
$node->append_conf('postgresql.conf', q(zklock.advisory_locks = 'cluster'));
$node->restart;
is(answer_to('shop', $lock), 't', '... until the value is valid');

# A change of the file concerns sessions that run.
my $running = session_of('shop');
for my $value (qw(server cluster))
{
	$node->append_conf('postgresql.conf', "zklock.advisory_locks = '$value'");
	$node->reload;
	wait_until("the setting is $value",
		sub { $running->query('SHOW zklock.advisory_locks') eq $value });
	is($running->query($lock), 't', 'a session takes a lock after a change of the file');
	is(outcome(), $value eq 'server' ? 'on this server' : 'across servers', "... '$value'");
	$running->query('SELECT pg_advisory_unlock_all()');
}
$running->close;
$mallory = session_of('mallory');

# REVOKE of PostgreSQL's functions
sql(q(REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM PUBLIC;
	GRANT EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) TO shop));
wait_until_released($zk, $mallory);
my $denied = qr/^ERROR:  42501: permission denied for function pg_try_advisory_lock/;
for my $statement ($lock, 'SELECT zk_advisory.pg_try_advisory_lock(1)',
	'SET search_path = zk_advisory, pg_catalog; SELECT pg_try_advisory_lock(1)',
	q(DO 'BEGIN PERFORM pg_try_advisory_lock(1); END'))
{
	like($mallory->query($statement), $denied, "a privilege that was revoked: $statement");
}
$mallory->query('RESET search_path');
is($mallory->query('SELECT pg_try_advisory_lock(1, 1), pg_try_advisory_lock_shared(2)'), 't|t',
	'... other functions can be called');
my $shop = session_of('shop');
is($shop->query($lock), 't', '... and this one by a role that has the privilege');
is($mallory->query('SELECT sell()'), 'f',
	'... and by a function whose owner has it');
is($shop->query("PREPARE q AS $lock; EXECUTE q"), 't', 'a prepared statement');
sql('REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM shop');
like($shop->query('EXECUTE q'), $denied, '... is refused when the privilege is gone');
sql('GRANT EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) TO PUBLIC');
$_->query('SELECT pg_advisory_unlock_all()') for $shop, $mallory;
sql('REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA zk_advisory FROM PUBLIC');
my @calls = split(/\n/, sql(q(SELECT format('%s(%s)', proname, array_to_string(array_fill(3, ARRAY[pronargs]), ', '))
	FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ 'advisory.*lock')));
is(@calls, 21, 'all functions');
like($shop->query("SELECT $_"), qr/^ERROR:  42501: permission denied for function/,
	"the privilege for the extension's function is needed, too: $_") for @calls;
is(outcome(), '', '... and no lock is taken without it');
is($shop->query(q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')), '0', '... but locks can be looked at');
sql('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA zk_advisory TO PUBLIC');

# path_prefix: the role's own keys
$_->query('SELECT pg_advisory_unlock_all()') for $shop, $mallory;
wait_until_released($zk, $shop);
sql(q(ALTER ROLE mallory SET zklock.path_prefix = '/mallory'));
$mallory->close;
$mallory = session_of('mallory');
is($mallory->query('SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(2)'), 't|t',
	'a confined role takes locks');
is(sql(q(SELECT string_agg(path, ' ' ORDER BY path) FROM zk_locks)),
	'/mallory/pg_advisory/postgres/1 /mallory/pg_advisory/postgres/2', '... below its prefix');
is($shop->query($lock), 't', '... where they block nobody');
like($mallory->query(q(SELECT zk_lock_acquire('/pg_advisory/postgres/1', '0', 'write'))),
	qr/^ERROR:  42501: permission denied for lock path/, '... and cannot by any other way');

# A simple lock has no others below it.
$mallory->query('SELECT pg_advisory_unlock_all()');
like($shop->query("SELECT zk_lock_acquire('$_', '0', 'simple')"),
	qr/^ERROR:  22023: simple lock on "$_" would exclude advisory locks below it/,
	"no role can make $_ a simple lock")
  for qw(/pg_advisory /pg_advisory/other /pg_advisory/other/1 /mallory/pg_advisory);
is($shop->query(q(SELECT zk_lock_acquire('/pg_advisory_too', '0', 'simple'))), 't',
	'... others can be');
$shop->query(q(SELECT zk_lock_release('/pg_advisory_too', 'simple')));

# max_locks_per_backend, and room in shared memory
sql('ALTER ROLE mallory SET zklock.max_locks_per_backend = 3');
$mallory->close;
$mallory = session_of('mallory');
like($mallory->query('SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 100) i'),
	qr/^ERROR:  53400: too many ZooKeeper locks/, 'a role has no more locks than its limit');
is($mallory->query('SELECT pg_try_advisory_lock(1), pg_advisory_unlock_all()'), 't|',
	'... and can go on with those that it has');
is($mallory->query('SELECT pg_try_advisory_lock(5), pg_try_advisory_lock(6), pg_try_advisory_lock(7)'),
	't|t|t', '... and others after it has released them');

# Many keys, taken and released in a loop, leave nothing behind.
my $loop = q(DO $$ BEGIN FOR i IN 1 .. 500 LOOP
	PERFORM pg_advisory_lock(i); PERFORM pg_advisory_unlock(i);
	BEGIN PERFORM pg_advisory_xact_lock(i, i); RAISE EXCEPTION 'x'; EXCEPTION WHEN raise_exception THEN END;
	END LOOP; END $$);
is($shop->query("SELECT pg_advisory_unlock_all(); $loop; SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()"),
	"\n0", 'locks that were taken in a loop are released');

# A role that waits can be cancelled, and leaves its place.
sql(q(ALTER ROLE mallory RESET zklock.path_prefix));
$mallory->close;
$mallory = session_of('mallory');
$shop->query('SELECT pg_advisory_lock(9)');
$mallory->start('SELECT pg_advisory_lock(9)');
my $waits = q(SELECT count(*) FROM zk_advisory.pg_locks WHERE NOT granted);
wait_until('a role waits', sub { sql($waits) eq '1' });
sql('SELECT pg_cancel_backend(' . $mallory->pid . ')');
like($mallory->result, qr/^ERROR:  57014: /, 'a wait is cancelled');
is(sql($waits), '0', '... and leaves its place');
wait_until_released($zk, $shop);
is($shop->query('SELECT pg_advisory_unlock(9), pg_try_advisory_lock(9)'), 't|t', '... to the others');
$_->close for $shop, $mallory;

done_testing();
