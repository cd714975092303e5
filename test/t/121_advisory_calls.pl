# With zklock.advisory_locks = 'cluster', each way to call one of PostgreSQL's
# functions for advisory locks takes the lock in ZooKeeper, or is refused. A
# statement or a cursor that was planned before keeps its setting. Each way is also
# tried with 'server', to show that it calls the function.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use File::Basename;
use IO::Socket::UNIX;
use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my ($hooks, $worker) = map { build_module($_) } qw(earlier_hooks sql_worker);
my $node = new_node('main', $zk->hosts,
	shared_preload_libraries => "$hooks,zklock",
	dynamic_library_path => dirname($worker) . ':$libdir',
	wal_level => 'logical',
	max_wal_senders => 4,
	max_replication_slots => 4,
	jit_above_cost => 0);
my $version = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $parallel = $version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my $cluster = q(SET zklock.advisory_locks = 'cluster');
my $server = q(SET zklock.advisory_locks = 'server');

sub sql
{
	my ($sql, $database) = @_;

	return $node->safe_psql($database // 'postgres', $sql);
}

# Where are advisory locks? Each test takes at least one of session scope. With 'cluster',
# PostgreSQL's view shows both kinds.
my $outcome = q(
	CREATE FUNCTION outcome() RETURNS text LANGUAGE sql SET zklock.advisory_locks = 'server' AS $$
		SELECT concat_ws(' and ',
			(SELECT 'on this server' FROM pg_catalog.pg_locks WHERE locktype = 'advisory' LIMIT 1),
			(SELECT 'across servers' FROM zk_locks WHERE path LIKE '/pg_advisory/%' LIMIT 1)) $$);

sql(qq(
	CREATE EXTENSION zklock_advisory;
	$outcome;
	CREATE TABLE one (i int);
	INSERT INTO one VALUES (1);
	CREATE TABLE altered (i int);
	INSERT INTO altered VALUES (1);
	CREATE TABLE seen (outcome text);
	CREATE FUNCTION hooks_called() RETURNS text LANGUAGE c AS '$hooks';
	CREATE FUNCTION in_worker(text) RETURNS void LANGUAGE c STRICT AS '$worker';

	CREATE FUNCTION plain(k bigint) RETURNS boolean LANGUAGE plpgsql AS
		'BEGIN RETURN pg_try_advisory_lock(k); END';
	CREATE FUNCTION definer(k bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
		SET search_path = pg_catalog AS 'BEGIN RETURN pg_try_advisory_lock(k); END';
	CREATE FUNCTION pretends(k bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
		'BEGIN RETURN pg_try_advisory_lock(k); END';
	CREATE FUNCTION argument(b boolean DEFAULT pg_try_advisory_lock(1)) RETURNS boolean
		LANGUAGE plpgsql AS 'BEGIN RETURN b; END';
	CREATE FUNCTION in_triggers() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_advisory_lock(1); RETURN NEW; END';
	CREATE FUNCTION no_lock() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE FUNCTION internal(k bigint) RETURNS boolean LANGUAGE internal STRICT AS
		'pg_try_advisory_lock_int8';
	CREATE PROCEDURE takes(boolean) LANGUAGE plpgsql AS 'BEGIN END';
	CREATE PROCEDURE locks() LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_lock(1); COMMIT; END';
	CREATE PROCEDURE locks_in_sql() LANGUAGE sql AS 'SELECT pg_advisory_lock(1)';

	CREATE FUNCTION inlined(k bigint) RETURNS boolean LANGUAGE sql AS
		'SELECT pg_try_advisory_lock(k)';
	CREATE FUNCTION releases(k bigint) RETURNS boolean LANGUAGE sql AS
		'SELECT pg_advisory_unlock(k)';
	CREATE FUNCTION in_capitals(k bigint) RETURNS boolean LANGUAGE sql AS
		'SELECT PG_TRY_ADVISORY_LOCK(k)';
	CREATE FUNCTION inlined_twice(k bigint) RETURNS boolean LANGUAGE sql AS 'SELECT inlined(k)';
	CREATE FUNCTION stable_one(k bigint) RETURNS boolean LANGUAGE sql STABLE AS
		'SELECT inlined(k)';
	CREATE FUNCTION folded(k bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS
		'SELECT pg_try_advisory_lock(k)';
	CREATE FUNCTION not_inlined(k bigint) RETURNS boolean LANGUAGE sql AS
		'SELECT pg_try_advisory_lock(k) FROM one LIMIT 1';
	CREATE FUNCTION rows_of(k bigint) RETURNS SETOF boolean LANGUAGE sql STABLE ROWS 10 AS
		'SELECT pg_try_advisory_lock(k) FROM one';
	CREATE FUNCTION escaped(k bigint) RETURNS boolean LANGUAGE sql AS
		'SELECT U&"pg_try_\\0061dvisory_lock"(k)';
	CREATE FUNCTION changes(value text) RETURNS boolean LANGUAGE sql AS
		'SELECT set_config(''zklock.advisory_locks'', value, false); SELECT pg_try_advisory_lock(1)';
	CREATE FUNCTION definer_sql(k bigint) RETURNS boolean LANGUAGE sql SECURITY DEFINER
		SET search_path = pg_catalog AS 'SELECT pg_try_advisory_lock(k)';

	CREATE VIEW view AS SELECT pg_try_advisory_lock(i) FROM one;
	CREATE FUNCTION rows_of_view() RETURNS SETOF boolean LANGUAGE sql STABLE AS
		'SELECT * FROM view';
	CREATE TABLE parts (b boolean) PARTITION BY LIST (b);
	CREATE TABLE with_rule (i int);
	CREATE RULE rule AS ON INSERT TO with_rule DO ALSO SELECT pg_advisory_lock(NEW.i);
	CREATE TABLE with_trigger (i int);
	CREATE TRIGGER trigger BEFORE INSERT ON with_trigger
		FOR EACH ROW EXECUTE FUNCTION in_triggers();
	CREATE TABLE with_when (i int);
	CREATE TRIGGER trigger BEFORE INSERT ON with_when
		FOR EACH ROW WHEN (pg_try_advisory_lock(1)) EXECUTE FUNCTION no_lock();
	CREATE TABLE with_default (i int, b boolean DEFAULT pg_try_advisory_lock(1));
	CREATE TABLE with_check (i int CHECK (pg_try_advisory_lock(i)));
	CREATE DOMAIN with_lock AS int CHECK (pg_try_advisory_lock(value));
	CREATE TABLE with_index (i int);
	CREATE INDEX ON with_index (pretends(i));
	CREATE TABLE analyzed (i int);
	CREATE INDEX ON analyzed (pretends(i));
	INSERT INTO analyzed VALUES (1);
	CREATE TABLE with_generated (i int, b boolean GENERATED ALWAYS AS (pretends(i)) STORED);
	CREATE TABLE with_policy (i int);
	INSERT INTO with_policy VALUES (1);
	ALTER TABLE with_policy ENABLE ROW LEVEL SECURITY;
	CREATE POLICY policy ON with_policy USING (pg_try_advisory_lock(i));
	CREATE ROLE reader;
	GRANT SELECT ON with_policy TO reader;
	CREATE OPERATOR \@\@\@\@ (RIGHTARG = bigint, FUNCTION = pg_try_advisory_lock);
	CREATE OPERATOR \@\@\@ (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_try_advisory_lock,
		RESTRICT = eqsel, JOIN = eqjoinsel);
	CREATE TABLE with_statistics (i int);
	INSERT INTO with_statistics SELECT i % 2 FROM generate_series(1, 20) i;
	ANALYZE with_statistics;
	CREATE FUNCTION with_operator(i int) RETURNS boolean LANGUAGE sql AS 'SELECT i \@\@\@ 1';
	CREATE OPERATOR !\@ (LEFTARG = int, RIGHTARG = int, FUNCTION = int4ne, NEGATOR = \@!,
		RESTRICT = neqsel, JOIN = neqjoinsel);
	CREATE OPERATOR \@! (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_try_advisory_lock,
		NEGATOR = !\@);
	CREATE OPERATOR <\@ (LEFTARG = int, RIGHTARG = int, FUNCTION = int4lt, COMMUTATOR = \@>,
		RESTRICT = scalarltsel);
	CREATE OPERATOR \@> (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_try_advisory_lock,
		COMMUTATOR = <\@);
	CREATE OPERATOR >\@ (LEFTARG = int, RIGHTARG = int, FUNCTION = int4ge, NEGATOR = <\@);
	CREATE SCHEMA equality;
	CREATE OPERATOR equality.= (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_try_advisory_lock,
		RESTRICT = eqsel);
	CREATE FUNCTION with_negator(i int) RETURNS boolean LANGUAGE sql AS 'SELECT i !\@ 1';
	CREATE VIEW view_with_negator AS SELECT i FROM with_statistics WHERE i !\@ 1;
	CREATE FUNCTION rows_with_negator() RETURNS SETOF int LANGUAGE sql STABLE AS
		'SELECT i FROM view_with_negator';
	CREATE TABLE with_predicate (i int);
	INSERT INTO with_predicate SELECT i % 2 FROM generate_series(1, 20) i;
	CREATE INDEX ON with_predicate (i) WHERE i = 0 OR i !\@ 1;
	CREATE INDEX ON with_predicate ((i + 1)) WHERE i = 0 OR i !\@ 1;
	ANALYZE with_predicate;
	CREATE AGGREGATE last_locked(bigint) (SFUNC = int8larger, STYPE = bigint,
		FINALFUNC = pg_try_advisory_lock);
	CREATE CAST (bigint AS boolean) WITH FUNCTION pg_try_advisory_lock(bigint) AS ASSIGNMENT;
));
sql('CREATE FUNCTION atomic(k bigint) RETURNS boolean LANGUAGE sql
		BEGIN ATOMIC SELECT pg_try_advisory_lock(k); END;
	CREATE FUNCTION atomic_operator(i int) RETURNS boolean LANGUAGE sql
		BEGIN ATOMIC SELECT i @@@ 1; END');

# Two databases that are reached through postgres_fdw
sql('CREATE EXTENSION postgres_fdw');
for my $name (qw(server cluster))
{
	my ($host, $port) = ($node->host, $node->port);

	sql("CREATE DATABASE remote_$name");
	sql(qq(CREATE EXTENSION zklock_advisory CASCADE;
		CREATE VIEW locking AS SELECT pg_try_advisory_lock(1) AS b;
		ALTER DATABASE remote_$name SET zklock.advisory_locks = '$name'), "remote_$name");
	sql(qq(CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw
			OPTIONS (host '$host', port '$port', dbname 'remote_$name', keep_connections 'on');
		CREATE USER MAPPING FOR CURRENT_USER SERVER $name;
		CREATE FOREIGN TABLE on_$name (b boolean) SERVER $name
			OPTIONS (table_name 'locking'))
		=~ s/, keep_connections 'on'//r);
}

# A way to call, its statement, and the outcome if it is not ACROSS
use constant {
	ACROSS => 'across servers',
	LOCAL => 'on this server',
	REFUSED => 'refused',
	RESTRICTED => 'not permitted'
};
my $lock = 'pg_try_advisory_lock(1)';
my @ways = (
	[ 'plain', "SELECT $lock" ],
	[ 'with its schema', "SELECT pg_catalog.$lock" ],
	[ 'two integers', 'SELECT pg_advisory_lock(1, 1)' ],
	[ 'expression in an expression', "SELECT CASE WHEN NOT $lock THEN 1 END" ],
	[ 'array, row and coalesce', "SELECT ARRAY[$lock], ROW($lock), coalesce(NULL, $lock)" ],
	[ 'subquery', "SELECT (SELECT $lock)" ],
	[ 'EXISTS', "SELECT EXISTS (SELECT FROM one WHERE $lock)" ],
	[ 'CTE', "WITH c AS MATERIALIZED (SELECT $lock) SELECT * FROM c" ],
	[ 'CTE that writes', "WITH c AS (INSERT INTO one VALUES (2) RETURNING $lock) SELECT * FROM c" ],
	[ 'UNION', "SELECT false UNION SELECT $lock" ],
	[ 'FROM', "SELECT * FROM $lock" ],
	[ 'ROWS FROM', "SELECT * FROM ROWS FROM ($lock, generate_series(1, 2))" ],
	[ 'LATERAL', 'SELECT * FROM one, LATERAL pg_try_advisory_lock(i)' ],
	[ 'JOIN', "SELECT * FROM one a JOIN one b ON pg_try_advisory_lock(a.i + b.i)" ],
	[ 'GROUP BY and HAVING', "SELECT count(*) FROM one GROUP BY i HAVING pg_try_advisory_lock(i)" ],
	[ 'ORDER BY', 'SELECT i FROM one ORDER BY pg_try_advisory_lock(i)' ],
	[ 'LIMIT', "SELECT 1 LIMIT CASE WHEN $lock THEN 1 END" ],
	[ 'FILTER', "SELECT count(*) FILTER (WHERE $lock)" ],
	[ 'window', "SELECT bool_and(pg_try_advisory_lock(i)) OVER () FROM one" ],
	[ 'VALUES', "VALUES ($lock)" ],
	[ 'INSERT', "INSERT INTO with_default VALUES (1, $lock)" ],
	[ 'RETURNING', "INSERT INTO one VALUES (1) RETURNING $lock" ],
	[ 'WHERE of UPDATE', "UPDATE one SET i = 1 WHERE $lock" ],
	[ 'ON CONFLICT', "CREATE TEMP TABLE t (i int PRIMARY KEY) ON COMMIT DROP; INSERT INTO t VALUES (1);
		INSERT INTO t VALUES (1) ON CONFLICT (i) DO UPDATE SET i = 2 WHERE $lock" ],
	[ 'MERGE', "MERGE INTO one USING (SELECT $lock AS b) s ON s.b WHEN MATCHED AND $lock THEN DO NOTHING" ],
	[ 'DELETE', "DELETE FROM one WHERE NOT $lock" ],
	[ 'CREATE TABLE AS', "CREATE TABLE t AS SELECT $lock" ],
	[ 'COPY of a query', "COPY (SELECT $lock) TO STDOUT" ],
	[ 'EXPLAIN ANALYZE', "EXPLAIN (ANALYZE) SELECT $lock" ],
	[ 'cursor', "DECLARE c CURSOR FOR SELECT $lock; FETCH c" ],
	[ 'PREPARE and EXECUTE', "PREPARE q AS SELECT $lock; EXECUTE q" ],
	[ 'argument of EXECUTE', "PREPARE q(boolean) AS SELECT \$1; EXECUTE q($lock)", REFUSED ],
	[ 'query in a function of PostgreSQL',
		"SELECT * FROM ts_stat('SELECT to_tsvector(${lock}::text)')" ],
	[ 'cast', 'SELECT 1::bigint::boolean' ],
	[ 'operator', 'SELECT @@@@ 1::bigint', REFUSED ],
	[ 'operator that is estimated', 'SELECT FROM with_statistics WHERE i @@@ 1', REFUSED ],
	[ 'ANY', 'SELECT FROM with_statistics WHERE i @@@ ANY (ARRAY[1, 2])', REFUSED ],
	[ 'join by an operator', 'SELECT FROM with_statistics a JOIN with_statistics b ON a.i @@@ b.i', REFUSED ],
	[ 'negator of an operator', 'SELECT FROM with_statistics WHERE i !@ 1', REFUSED ],
	[ '... under EXPLAIN', 'EXPLAIN SELECT FROM with_statistics WHERE i !@ 1', REFUSED ],
	[ '... in an inner query', 'EXPLAIN SELECT FROM one WHERE i IN
		(SELECT i FROM with_statistics WHERE i !@ ALL (ARRAY[1, 3]))', REFUSED ],
	[ '... of a join', 'EXPLAIN SELECT FROM with_statistics a
		LEFT JOIN with_statistics b ON a.i !@ b.i', REFUSED ],
	[ 'commutator of an operator', 'EXPLAIN SELECT FROM with_statistics WHERE 1 <@ i', REFUSED ],
	[ '... of its negator', 'EXPLAIN SELECT FROM with_statistics WHERE NOT 1 >@ i', REFUSED ],
	[ 'operator of IS DISTINCT FROM', 'SET LOCAL search_path = equality, pg_catalog;
		SELECT FROM public.with_statistics WHERE i IS DISTINCT FROM 1', REFUSED ],
	[ 'negator in the predicate of an index', 'EXPLAIN SELECT FROM with_predicate WHERE i = 0', REFUSED ],
	[ 'aggregate', 'SELECT last_locked(i) FROM one', REFUSED ],

	[ 'PERFORM', 'DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$' ],
	[ 'SELECT INTO', "DO \$\$ DECLARE b boolean; BEGIN SELECT $lock INTO b; END \$\$" ],
	[ 'expression', "DO \$\$ DECLARE b boolean := $lock; BEGIN END \$\$" ],
	[ 'IF', "DO \$\$ BEGIN IF $lock THEN END IF; END \$\$" ],
	[ 'FOR', "DO \$\$ DECLARE b boolean; BEGIN FOR b IN SELECT $lock LOOP END LOOP; END \$\$" ],
	[ 'dynamic statement', 'DO $$ BEGIN EXECUTE \'SELECT pg_advisory_lock($1)\' USING 1; END $$' ],
	[ 'USING', "DO \$\$ BEGIN EXECUTE 'SELECT \$1' USING $lock; END \$\$" ],
	[ 'cast in an assignment', 'DO $$ DECLARE b boolean; k bigint := 1; BEGIN b := k; END $$' ],
	[ 'function', 'SELECT plain(1)' ],
	[ 'a function with the rights of its owner', 'SELECT definer(1)' ],
	[ 'a function of language internal', 'SELECT internal(1)', LOCAL ],
	[ 'trigger', 'INSERT INTO with_trigger VALUES (1)' ],
	[ 'trigger under COPY', "COPY with_trigger FROM PROGRAM 'echo 1'" ],
	[ 'WHEN of a trigger', 'INSERT INTO with_when VALUES (1)', REFUSED ],
	[ 'procedure', 'CALL locks()' ],
	[ 'procedure in SQL', 'CALL locks_in_sql()' ],
	[ 'argument of CALL', "CALL takes($lock)", REFUSED ],

	[ 'SQL function', 'SELECT inlined(1)' ],
	[ 'SQL function in capitals', 'SELECT in_capitals(1)' ],
	[ 'SQL function in FROM', 'SELECT * FROM inlined(1)' ],
	[ 'SQL function in another', 'SELECT inlined_twice(1)' ],
	[ 'stable SQL function', 'SELECT stable_one(1)' ],
	[ 'SQL function that is folded', 'SELECT folded(1)' ],
	[ 'SQL function that is not inlined', 'SELECT not_inlined(1)' ],
	[ 'SQL function that returns rows', 'SELECT * FROM rows_of(1)' ],
	[ 'the same in SQL', 'SELECT definer_sql(1)' ],
	[ 'SQL function with an escaped name', 'SELECT escaped(1)', REFUSED ],
	[ 'BEGIN ATOMIC', 'SELECT atomic(1)' ],
	[ 'BEGIN ATOMIC with an operator', 'SELECT FROM with_statistics WHERE atomic_operator(i)', REFUSED ],
	[ 'SQL function with an operator', 'SELECT FROM with_statistics WHERE with_operator(i)', REFUSED ],
	[ '... around a query', 'SELECT FROM (SELECT i FROM with_statistics OFFSET 0) s WHERE with_operator(i)',
		REFUSED ],
	[ '... around a CTE', 'WITH c AS MATERIALIZED (SELECT i FROM with_statistics)
		SELECT FROM c WHERE with_operator(i)',
		$version == 17 || $version == 18 ? REFUSED . ', and ' . LOCAL : REFUSED ],
	[ 'SQL function with a negator', 'EXPLAIN SELECT FROM with_statistics WHERE with_negator(i)', REFUSED ],
	[ '... that returns rows of a view', 'EXPLAIN SELECT FROM rows_with_negator()', REFUSED ],

	[ 'view', 'SELECT * FROM view' ],
	[ 'SQL function with a view', 'SELECT * FROM rows_of_view()', REFUSED ],
	[ 'rule', 'INSERT INTO with_rule VALUES (1)' ],
	[ 'DEFAULT of INSERT', 'INSERT INTO with_default VALUES (1)' ],
	[ 'DEFAULT of COPY', "COPY with_default (i) FROM PROGRAM 'echo 1'", REFUSED ],
	[ 'DEFAULT of ALTER TABLE', "ALTER TABLE one ADD b boolean DEFAULT $lock", REFUSED ],
	[ 'USING of ALTER TABLE', "ALTER TABLE altered ALTER i TYPE int USING (CASE WHEN $lock THEN i END)", REFUSED ],
	[ 'DEFAULT of an argument', 'SELECT argument()', REFUSED ],
	[ 'bound of a partition', "CREATE TABLE part PARTITION OF parts FOR VALUES IN ($lock)", REFUSED ],
	[ 'WHERE of COPY', "COPY one FROM PROGRAM 'echo 1' WHERE $lock", REFUSED ],
	[ 'CHECK', 'INSERT INTO with_check VALUES (1)', REFUSED ],
	[ 'domain', 'SELECT 1::with_lock', REFUSED ],
	[ 'domain in PL/pgSQL', 'DO $$ DECLARE d with_lock := 1; BEGIN END $$', REFUSED ],
	[ 'expression index', 'INSERT INTO with_index VALUES (1)' ],
	[ 'build of an expression index', 'CREATE INDEX ON one (pretends(i))', RESTRICTED ],
	[ 'ANALYZE of an expression index', 'ANALYZE analyzed', RESTRICTED ],
	[ 'generated column', 'INSERT INTO with_generated VALUES (1)' ],
	[ 'policy', 'SET LOCAL ROLE reader; SELECT * FROM with_policy' ],

	[ 'parallel query', "SET LOCAL $parallel = on; SELECT $lock, count(*) FROM one" ],
	[ 'function of a parallel query', "SET LOCAL $parallel = on; SELECT plain(1), count(*) FROM one" ],
	[ 'without JIT', "SET LOCAL jit = off; SELECT $lock" ],
	[ 'background worker', q(SELECT in_worker('DO $$BEGIN PERFORM pg_advisory_lock(1);
		INSERT INTO seen SELECT outcome(); END$$')) ],
	[ 'fast path', sub { fast_path(@_) }, REFUSED ]);

@ways = grep { $_->[0] ne 'MERGE' } @ways if $version < 15;

my $session = ZkTest->new($node);

# Runs statements in a transaction, unless they run on a connection of their own, and
# returns what they did.
sub outcome_of
{
	my ($statements, $set) = @_;
	my ($name) = $set =~ /'(\w+)'/;
	my $answer;

	sql("TRUNCATE seen; ALTER DATABASE postgres SET zklock.advisory_locks = '$name'");
	if (ref $statements)
	{
		$answer = $statements->($name);
	}
	else
	{
		my $in_block = $statements =~ /^(?:CALL locks|SELECT in_worker)/ ? '' : 'BEGIN';

		$answer = $session->query("$set; $in_block; $statements");
	}
	my $found = $session->query(q(ROLLBACK; SELECT outcome()));
	$session->query("$server; DEALLOCATE ALL; SELECT pg_advisory_unlock_all(), zk_lock_release_all()");
	$found = sql('SELECT outcome FROM seen') || $found =~ s/^WARNING.*\n(?:LOC.*\n)?//r;
	return $found if $answer !~ /ERROR/;
	my $why = $answer =~ /0A000: cannot take an advisory lock across servers here/ ? REFUSED :
	  $answer =~ /42501: cannot use ZooKeeper locks within/ ? RESTRICTED : $answer;
	return $found eq '' ? $why : "$why, and $found";
}

# Calls the function with the fast-path interface of the protocol.
sub fast_path
{
	my ($name) = @_;
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port)
	  or die "cannot connect: $@\n";
	my $user = getpwuid($<);
	my $start = pack('N', 196608) . join('', map { "$_\0" } 'user', $user, 'database', 'postgres') . "\0";
	my $call = pack('NnnnNq>n', 2882, 1, 1, 1, 8, 1, 1);

	$socket->syswrite(pack('N', 4 + length $start) . $start);
	my $read = sub { my $in = '';
		while ($in !~ /Z\0\0\0\x05I$/) { $socket->sysread($in, 65536, length $in) or die "no answer: $in\n" }
		return $in };
	$read->();
	$socket->syswrite('F' . pack('N', 4 + length $call) . $call);
	my $answer = $read->();
	my ($code) = $answer =~ /\0C(\w{5})\0/;
	my ($message) = $answer =~ /\0M([^\0]*)\0/;
	sql('INSERT INTO seen SELECT outcome()') if !defined $code;
	return defined $code ? "ERROR:  $code: $message" : '';
}

for my $way (@ways)
{
	my ($what, $statements, $expected) = @$way;

	is(outcome_of($statements, $server), LOCAL, "$what: called with 'server'");
	is(outcome_of($statements, $cluster), $expected // ACROSS,
		"... and with 'cluster': " . ($expected // ACROSS));
}
sql('ALTER DATABASE postgres RESET zklock.advisory_locks');

# A change of the setting, while there are plans and cursors
sub outcome_after
{
	my (@statements) = @_;
	my $answer = $session->query(join('; ', $server, @statements));
	my $found = $session->query('SELECT outcome()');

	$session->query("ROLLBACK; $server; DEALLOCATE ALL;
		SELECT pg_advisory_unlock_all(), zk_lock_release_all()");
	return $answer =~ /ERROR/ ? $answer : $found;
}
my @execute = ('EXECUTE q') x 7;
my $unlock = 'SELECT pg_catalog.pg_advisory_unlock_all()';
is(outcome_after("PREPARE q AS SELECT $lock", @execute, $unlock, $cluster, 'EXECUTE q'),
	ACROSS, 'a prepared statement is planned anew after a change of the setting');
is(outcome_after($cluster, "PREPARE q AS SELECT $lock", @execute, 'SELECT zk_lock_release_all()',
		$server, 'EXECUTE q'), LOCAL, '... and after the change back');
is(outcome_after(('SELECT plain(1), inlined(1), not_inlined(1)') x 7, $unlock, $cluster,
		'SELECT plain(1), inlined(1), not_inlined(1)'), ACROSS, 'so are functions');

# Operators of PostgreSQL's own are not searched: none can get such a negator or commutator.
is(sql(q(SELECT string_agg(oid::regoperator::text, ' ') FROM pg_operator
		WHERE oid < 16384 AND oprresult = 'boolean'::regtype
			AND (oprleft, oprright) IN (('int'::regtype, 'int'::regtype), (0, 'bigint'::regtype), ('bigint'::regtype, 0))
			AND (oprnegate = 0 OR oprcom = 0))),
	'', "PostgreSQL's operators on the types of a key have a negator and a commutator");

# Functions in SQL are planned anew after a change of their bodies, by this or by another session.
is($session->query("$cluster; SELECT pg_try_advisory_lock(1), releases(1), releases(1)") =~ s/^WARNING.*\n(?:LOC.*\n)?//r,
	't|t|f', 'SQL function that releases');

my $changed = 'CREATE OR REPLACE FUNCTION changed() RETURNS boolean LANGUAGE sql AS';
my $now_locks = "$changed 'SELECT pg_try_advisory_lock(1)'";
is(outcome_after("$changed 'SELECT true'", $cluster, 'SELECT changed()', $now_locks, 'SELECT changed()'),
	ACROSS, 'a function in SQL that is changed and locks now');
is(outcome_after("$changed 'SELECT true'", $cluster, 'SELECT changed()'), '', '... and does not');
sql($now_locks);
is(outcome_after($cluster, 'SELECT changed()'), ACROSS, '... and is changed by another session');

# To look at the body of a function needs no memory for each of its calls.
sql("CREATE FUNCTION long_text(i int) RETURNS int LANGUAGE sql AS
	'SELECT i /* " . 'x' x 50000 . " */'");
sql('CREATE FUNCTION long_atomic(i int) RETURNS int LANGUAGE sql BEGIN ATOMIC
	SELECT 1 FROM one WHERE one.i IN (' . join(',', 1 .. 1000) . '); END');

sub most_memory
{
	my ($of) = @_;

	return slurp_file('/proc/' . $of->pid . '/status') =~ /^VmHWM:\s+(\d+) kB/m ? $1 / 1024 : die 'no VmHWM';
}

for my $function ('long_text', 'long_atomic')
{
	my $other = ZkTest->new($node);
	my $query = sub { 'EXPLAIN SELECT ARRAY[' . join(',', ("$function(1)") x $_[0]) . ']' };

	$other->query("$cluster; " . $query->(1));
	my $before = most_memory($other);
	unlike($other->query($query->(1000)), qr/ERROR/, "1,000 calls of $function()");
	cmp_ok(most_memory($other) - $before, '<', 30, '... are planned with less than 30 MB');
	$other->close;
}

# Functions that only have the word in their text are as they were.
sql(q(CREATE TABLE advisory_events (i int PRIMARY KEY, t text);
	CREATE FUNCTION events() RETURNS SETOF advisory_events STABLE LANGUAGE sql AS
		'SELECT * FROM advisory_events';
	CREATE FUNCTION key_of(text) RETURNS text IMMUTABLE LANGUAGE sql AS
		'SELECT lower($1) /* of an advisory lock */';
	CREATE UNIQUE INDEX ON advisory_events (key_of(t))));
my $insert = q(INSERT INTO advisory_events VALUES (1, 'a') ON CONFLICT (key_of(t)) DO NOTHING);
is($session->query("$insert; $cluster; $insert"), '',
	'an expression of an index is found after a change of the setting');
unlike($session->query('EXPLAIN SELECT * FROM events() WHERE i = 1'), qr/Function Scan/,
	'... and a function is inlined');
$session->query($server);

is(outcome_after("BEGIN; DECLARE c CURSOR FOR SELECT pg_try_advisory_lock(i) FROM one",
		$cluster, 'FETCH c'), LOCAL, 'a cursor keeps the setting that it was opened with');
is(outcome_after($cluster, "BEGIN; DECLARE c CURSOR FOR SELECT pg_try_advisory_lock(i) FROM one",
		$server, 'FETCH c'), ACROSS, '... either one');
is(outcome_after("SELECT set_config('zklock.advisory_locks', 'cluster', false), $lock"),
	LOCAL, 'a statement keeps the setting that it was planned with');
is(outcome_after("BEGIN; SET LOCAL zklock.advisory_locks = 'cluster'; ROLLBACK; SELECT $lock"),
	LOCAL, 'the setting is back after a rollback');

# Until 17, the statements of a function in SQL are planned when it is called.
my @changes = map { outcome_after($server, "SELECT changes('$_')") } qw(cluster server);
my @changed_back = map { outcome_after($cluster, "SELECT changes('$_')") } qw(cluster server);
if ($version < 18)
{
	like(shift @changes, qr/^ERROR:  0A000: .*\nDETAIL: .* in a query that was planned with that setting/,
		'a function in SQL that changes the setting has no lock on this server');
	is("@changes, @changed_back", LOCAL . ', ' . ACROSS . ' ' . ACROSS,
		'... or keeps the setting with which it was called');
}
else
{
	is("@changes, @changed_back", ACROSS . ' ' . LOCAL . ', ' . ACROSS . ' ' . LOCAL,
		'a function in SQL takes its lock where the setting says that it has changed');
}

# The other server decides over its locks.
is(outcome_after('SELECT * FROM on_server'), LOCAL, 'postgres_fdw: the setting of the other server');
is(outcome_after($cluster, 'SELECT * FROM on_server'), LOCAL, '... and not that of this one');
$session->close;
wait_until('the other session ends', sub { sql('SELECT outcome()') eq '' });
$session = ZkTest->new($node);
is(outcome_after('SELECT * FROM on_cluster'), ACROSS, '... in either case');
$session->close;
wait_until('the other session ends', sub { sql('SELECT outcome()') eq '' });
$session = ZkTest->new($node);

sql('CREATE EXTENSION dblink');
for my $name (qw(server cluster))
{
	my $remote = "dbname=remote_$name host=" . $node->host . ' port=' . $node->port;

	is(outcome_after($name eq 'server' ? $cluster : $server, "SELECT dblink_connect('$remote')",
			"SELECT * FROM dblink('SELECT $lock') AS t (b boolean)"),
		$name eq 'server' ? LOCAL : ACROSS, "dblink: the setting of the other server, '$name'");
	$session->query('SELECT dblink_disconnect()');
	wait_until('the other session ends', sub { sql('SELECT outcome()') eq '' });
}

# A worker of a parallel query would release the lock when it ends.
sql(q(CREATE FUNCTION parallel(k bigint) RETURNS boolean LANGUAGE plpgsql PARALLEL SAFE AS
	'BEGIN RETURN pg_try_advisory_xact_lock(k); END'));
like($session->query("$cluster; SET $parallel = on; SELECT parallel(i) FROM one"),
	qr/^ERROR:  25000: cannot use ZooKeeper locks in a parallel worker/,
	'a function that is wrongly PARALLEL SAFE is an error');
$session->query("RESET $parallel; $server");

# Logical replication
sql('CREATE DATABASE publisher');
sql(q(CREATE TABLE one (i int PRIMARY KEY); CREATE TABLE with_default (i int PRIMARY KEY);
	CREATE PUBLICATION p FOR ALL TABLES;
	SELECT pg_create_logical_replication_slot('s', 'pgoutput')), 'publisher');
sql('CREATE DATABASE subscriber');
sql(qq(CREATE EXTENSION zklock_advisory CASCADE; $outcome;
	CREATE TABLE one (i int PRIMARY KEY);
	CREATE TABLE with_default (i int PRIMARY KEY, b boolean DEFAULT $lock);
	CREATE FUNCTION apply() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_catalog.pg_advisory_lock(NEW.i); RETURN NEW; END';
	CREATE TRIGGER apply BEFORE INSERT ON one FOR EACH ROW EXECUTE FUNCTION apply();
	ALTER TABLE one ENABLE ALWAYS TRIGGER apply;
	ALTER DATABASE subscriber SET zklock.advisory_locks = 'cluster'), 'subscriber');
my $publisher = join(' ', 'dbname=publisher', 'host=' . $node->host, 'port=' . $node->port);
sql("CREATE SUBSCRIPTION s CONNECTION '$publisher' PUBLICATION p
	WITH (create_slot = false, slot_name = 's', copy_data = false)", 'subscriber');
sql('INSERT INTO one VALUES (7)', 'publisher');
wait_until('the row is replicated', sub { sql('SELECT count(*) FROM one', 'subscriber') eq '1' });
is(sql('SELECT outcome()', 'subscriber'), ACROSS,
	'a trigger under logical replication takes the lock across servers');
sql('INSERT INTO with_default VALUES (8)', 'publisher');
wait_until('the default is refused', sub {
	slurp_file($node->logfile) =~ /ERROR:  cannot take an advisory lock across servers here/ });
is(sql('SELECT count(*) FROM with_default', 'subscriber'), '0',
	'... and the default of a column that the publisher does not have is refused');
sql('ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE)', 'subscriber');
sql('DROP SUBSCRIPTION s', 'subscriber');

# A hot standby
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $on_standby = ZkTest->new($standby);
is($session->query("$cluster; SELECT pg_try_advisory_lock(1), pg_try_advisory_xact_lock(2)"),
	't|t', 'a lock of the primary');
is($on_standby->query("$cluster; SELECT pg_try_advisory_lock(1)"), 'f', '... is held on its standby');
is($on_standby->query('SELECT pg_is_in_recovery(), pg_try_advisory_xact_lock(2), pg_try_advisory_lock(3)'),
	't|t|t', '... where others can be taken');
is($session->query('SELECT pg_try_advisory_lock(3), pg_advisory_unlock(1)'), 'f|t',
	'... which are held on the primary');
$_->query("SELECT pg_advisory_unlock_all(); $server") for $session, $on_standby;
$on_standby->close;
$standby->stop;

# The hooks of a library that was loaded before
for my $set ($server, $cluster)
{
	is($session->query("$set; SELECT inlined(1) FROM hooks_called(); SELECT hooks_called()"),
		"t\nplanner needs_fmgr object_access", 'the hooks of another library are called');
}

# How to see where a call goes
like($session->query("$cluster; EXPLAIN (VERBOSE, COSTS OFF) SELECT $lock"),
	qr/Output: zk_advisory\.pg_try_advisory_lock/, 'EXPLAIN VERBOSE shows the function');

# Without the extension
sql('CREATE DATABASE without');
for ("SELECT $lock", 'SELECT pg_advisory_unlock_all()')
{
	like($session->query("\\connect without\n$cluster; $_"),
		qr/^ERROR:  55000: advisory locks across servers need extension "zklock_advisory"/,
		'an error without the extension');
}
is($session->query('SELECT 1'), '1', '... which does not concern other statements');
sql('CREATE EXTENSION zklock_advisory CASCADE', 'without');
is($session->query("SELECT $lock"), 't', '... until it is created');
is(sql('SELECT count(*) FROM pg_locks WHERE locktype = $$advisory$$', 'without'), '0',
	'... from where on the lock is one across servers');

# Its function is altered.
my $signature = 'zk_advisory.pg_try_advisory_lock(bigint)';
my $extension = 'ALTER EXTENSION zklock_advisory';
my $definition = sql("SELECT pg_get_functiondef('$signature'::regprocedure)", 'without');
my $away = "ALTER FUNCTION $signature RENAME TO other";
my $back = 'ALTER FUNCTION zk_advisory.other(bigint) RENAME TO pg_try_advisory_lock';
my $unknown = qr/^ERROR:  55000: function zk_advisory\.\w+\(bigint\) is not in place of any function of PostgreSQL/;

$session->query("PREPARE q AS SELECT $lock");
for ([ 'is renamed', $away, $back, 'other(1)' ],
	[ 'is no member of it', "$extension DROP FUNCTION $signature", "$extension ADD FUNCTION $signature", $lock ],
	[ 'is not strict', "ALTER FUNCTION $signature CALLED ON NULL INPUT",
		"ALTER FUNCTION $signature STRICT", 'pg_try_advisory_lock(NULL::bigint)' ],
	[ 'is immutable', "ALTER FUNCTION $signature IMMUTABLE", "ALTER FUNCTION $signature VOLATILE", $lock ],
	[ 'is one in SQL', "CREATE OR REPLACE FUNCTION $signature RETURNS boolean LANGUAGE sql STRICT
			AS 'SELECT true'", $definition ],
	[ 'has another result', "$away; CREATE FUNCTION $signature RETURNS text STRICT
			LANGUAGE c AS '\$libdir/zklock', 'zk_advisory'; $extension ADD FUNCTION $signature",
		"$extension DROP FUNCTION $signature; DROP FUNCTION $signature; $back", $lock ])
{
	my ($how, $alter, $undo, $call) = @$_;

	sql($alter, 'without');
	like($session->query($_),
		qr/^ERROR:  55000: extension "zklock_advisory" has no function in place of pg_try_advisory_lock\(bigint\)/,
		"an error if its function $how: $_")
	  for "SELECT $lock", 'EXECUTE q';
	like($session->query("SELECT zk_advisory.$call"), $unknown, '... also by its own name') if defined $call;
	is($session->query('SELECT pg_try_advisory_lock_shared(2), pg_advisory_unlock_shared(2)'), 't|t',
		'... but not for others');
	sql($undo, 'without');
	is($session->query("SELECT $lock"), 't', '... until that is undone');
}

# What is a member in a transaction is not one after its rollback.
my $other = ZkTest->new($node);
$other->query('\\connect without');
for ([ 'transaction', 'BEGIN', 'ROLLBACK' ], [ 'subtransaction', 'BEGIN; SAVEPOINT s', 'ROLLBACK TO s; COMMIT' ])
{
	my ($what, $begin, $end) = @$_;

	$session->query("SELECT $lock");
	$other->query('CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$SELECT 1$$; DROP FUNCTION f()');
	like($session->query("$begin; $extension DROP FUNCTION $signature; SELECT $lock"),
		qr/^ERROR:  55000: extension "zklock_advisory" has no function in place/, "an error in a $what without its function");
	is($session->query("$end; SELECT $lock"), 't', '... until that is rolled back');
	$session->query("$begin; $extension DROP FUNCTION $signature; $end");
	is($session->query("SELECT $lock"), 't', '... also if there was no call');
}
$other->close;
sql('DROP EXTENSION zklock_advisory', 'without');
like($session->query("SELECT $lock"), qr/^ERROR:  55000: /, '... until it is dropped');
$session->close;

done_testing();
