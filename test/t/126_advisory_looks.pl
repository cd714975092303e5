# With zklock.advisory_locks = 'cluster', each way to look at locks shows those in ZooKeeper as
# PostgreSQL shows its own, or PostgreSQL's alone, and none is refused. Each way is also tried
# with 'server', which shows PostgreSQL's.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('a', $zk->hosts, shared_preload_libraries => 'zklock');
my $far = new_node('b', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'server',
	'zklock.keep_time' => '1min');
my $version = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $parallel = $version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
my $cluster = q(SET zklock.advisory_locks = 'cluster');
my $server = q(SET zklock.advisory_locks = 'server');

sub sql
{
	my ($sql, $database) = @_;

	return $node->safe_psql($database // 'postgres', $sql);
}

# What a look has found: keys, and for a waiter "waits"; below as "%rows"
my $found = q(string_agg(objid || CASE WHEN granted THEN '' ELSE ' waits' END, ', '
	ORDER BY granted DESC, objid) FILTER (WHERE locktype = 'advisory'));

# Who blocks the waiter; below as "%by"
my $blocked = q(CASE pg_blocking_pids(waiter()) WHEN ARRAY[holder()] THEN 'holder'
	ELSE array_to_string(pg_blocking_pids(waiter()), ',') END);

$far->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
sql(qq(CREATE EXTENSION zklock_advisory;
	CREATE TABLE processes (name text, pid int);
	CREATE FUNCTION waiter() RETURNS int LANGUAGE plpgsql STABLE AS
		'BEGIN RETURN (SELECT pid FROM processes WHERE name = \$\$waiter\$\$); END';
	CREATE FUNCTION holder() RETURNS int LANGUAGE plpgsql STABLE AS
		'BEGIN RETURN (SELECT pid FROM processes WHERE name = \$\$holder\$\$); END';
	CREATE TABLE seen (found text);
	CREATE TABLE with_rule (i int);
	CREATE RULE rule AS ON INSERT TO with_rule DO ALSO
		INSERT INTO seen SELECT $found FROM pg_locks;
	CREATE RULE instead AS ON DELETE TO with_rule DO INSTEAD SELECT $found FROM pg_locks;
	CREATE TABLE with_trigger (i int);
	CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS
		\$\$BEGIN INSERT INTO seen SELECT $found FROM pg_locks; RETURN NEW; END\$\$;
	CREATE TRIGGER trigger BEFORE INSERT ON with_trigger FOR EACH ROW EXECUTE FUNCTION look();
	CREATE VIEW view AS SELECT * FROM pg_locks;
	GRANT SELECT ON view TO PUBLIC;
	CREATE VIEW view_of_function AS SELECT * FROM pg_lock_status();
	CREATE VIEW view_of_column AS SELECT (pg_lock_status()).*;
	CREATE VIEW blocked AS SELECT pid, pg_blocking_pids(pid) AS by FROM processes;
	CREATE VIEW blockers AS SELECT pid, by FROM processes, unnest(pg_blocking_pids(pid)) AS by;
	CREATE MATERIALIZED VIEW stored AS SELECT $found AS found FROM pg_locks WITH NO DATA;
	CREATE FUNCTION plain() RETURNS text LANGUAGE plpgsql AS
		\$\$BEGIN RETURN (SELECT $found FROM pg_locks); END\$\$;
	CREATE FUNCTION definer() RETURNS text LANGUAGE plpgsql SECURITY DEFINER
		SET search_path = pg_catalog AS \$\$BEGIN RETURN (SELECT $found FROM pg_locks); END\$\$;
	CREATE FUNCTION dynamic() RETURNS text LANGUAGE plpgsql AS
		\$\$DECLARE t text; BEGIN EXECUTE 'SELECT * FROM view_of_found' INTO t; RETURN t; END\$\$;
	CREATE VIEW view_of_found AS SELECT $found AS found FROM pg_locks;
	CREATE FUNCTION in_sql() RETURNS text LANGUAGE sql AS \$\$SELECT $found FROM pg_locks\$\$;
	CREATE FUNCTION rows_of_locks() RETURNS SETOF pg_locks STABLE LANGUAGE sql AS
		'SELECT * FROM pg_locks';
	CREATE FUNCTION rows_of_function() RETURNS SETOF pg_locks STABLE LANGUAGE sql AS
		'SELECT * FROM pg_lock_status()';
	CREATE FUNCTION rows_of_view() RETURNS SETOF pg_locks STABLE LANGUAGE sql AS
		'SELECT * FROM view';
	CREATE FUNCTION rows_of_column() RETURNS SETOF pg_locks STABLE LANGUAGE sql AS
		'SELECT (pg_lock_status()).*';
	CREATE FUNCTION rows_of_view_of_column() RETURNS SETOF pg_locks STABLE LANGUAGE sql AS
		'SELECT * FROM view_of_column';
	CREATE FUNCTION by_in_sql(int) RETURNS int[] LANGUAGE sql AS 'SELECT pg_blocking_pids(\$1)';
	CREATE FUNCTION by_in_plpgsql(int) RETURNS int[] LANGUAGE plpgsql AS
		'BEGIN RETURN pg_blocking_pids(\$1); END';
	CREATE FUNCTION by_in_view(int) RETURNS int[] STABLE LANGUAGE sql AS
		'SELECT by FROM blocked WHERE pid = \$1';
	CREATE FUNCTION rows_of_blocked() RETURNS TABLE (pid int, by int[]) STABLE LANGUAGE sql AS
		'SELECT * FROM blocked';
	CREATE FUNCTION rows_of_blockers() RETURNS TABLE (pid int, by int) STABLE LANGUAGE sql AS
		'SELECT * FROM blockers';
	CREATE PROCEDURE sees(int[]) LANGUAGE plpgsql AS
		'BEGIN INSERT INTO seen VALUES (CASE \$1 WHEN ARRAY[holder()] THEN ''holder'' ELSE '''' END); END';
));
sql(qq(
	CREATE FUNCTION atomic() RETURNS text LANGUAGE sql BEGIN ATOMIC
		SELECT $found FROM pg_locks; END;
	CREATE FUNCTION rows_of_atomic() RETURNS SETOF pg_locks STABLE LANGUAGE sql BEGIN ATOMIC
		SELECT * FROM pg_locks; END;
	CREATE FUNCTION atomic_by(p int) RETURNS int[] LANGUAGE sql BEGIN ATOMIC
		SELECT pg_blocking_pids(p); END));

# A lock of this server, one across servers with a waiter, and one that the looker has
my %session = map { $_ => ZkTest->new($node) } qw(local holder waiter looker);
sql("INSERT INTO processes VALUES ('$_', ${\ $session{$_}->pid})") for sort keys %session;
$session{local}->query('SELECT pg_advisory_lock(2)');
$session{$_}->query($cluster) for qw(holder waiter looker);
$session{holder}->query('SELECT pg_advisory_lock(1)');
$session{looker}->query('SELECT pg_advisory_lock(3)');
$session{waiter}->start('SELECT pg_advisory_lock(1)');
wait_for_queue($zk, '/pg_advisory/postgres/1', @session{qw(holder waiter)});
wait_until('the waiter knows that it waits', sub {
	sql(q(SELECT count(*) FROM zk_advisory.pg_locks WHERE NOT granted)) eq '1' });

# A way to look, its statements, and what they find, if it is not ACROSS
use constant {
	ACROSS => '1, 2, 3, 1 waits',
	LOCAL => '2',
	BLOCKED => 'holder',
	NOT_BLOCKED => ''
};
my @rows = (
	[ 'view', 'SELECT %rows FROM pg_locks' ],
	[ 'view with its schema', 'SELECT %rows FROM pg_catalog.pg_locks' ],
	[ 'function in FROM', 'SELECT %rows FROM pg_lock_status()' ],
	[ 'function in a target list', 'SELECT %rows FROM (SELECT (pg_lock_status()).*) l' ],
	[ '... as a row', 'SELECT %rows FROM (SELECT (l).* FROM (SELECT pg_lock_status() AS l OFFSET 0) s) l' ],
	[ '... with another column', q(SELECT %rows FROM (SELECT repeat('x', 10000) || i, (pg_lock_status()).*
		FROM generate_series(1, 1) i) l) ],
	[ 'WITH ORDINALITY', 'SELECT %rows FROM pg_lock_status() WITH ORDINALITY' ],
	[ 'ROWS FROM', 'SELECT %rows FROM ROWS FROM (pg_lock_status(), generate_series(1, 2))' ],
	[ 'LATERAL', 'SELECT DISTINCT x FROM generate_series(1, 3) i,
		LATERAL (SELECT %rows AS x FROM pg_lock_status() WHERE i > 0) l' ],
	[ 'subquery', 'SELECT (SELECT %rows FROM pg_locks)' ],
	[ 'CTE', 'WITH l AS MATERIALIZED (SELECT * FROM pg_locks) SELECT %rows FROM l' ],
	[ 'join', 'SELECT %rows FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)' ],
	[ 'UNION', 'SELECT %rows FROM pg_locks UNION SELECT %rows FROM pg_locks' ],
	[ 'EXISTS', q(SELECT %rows FROM (VALUES ('advisory', 1, true), ('advisory', 2, true), ('advisory', 3, true),
			('advisory', 1, false)) AS v (locktype, objid, granted)
		WHERE EXISTS (SELECT FROM pg_locks l WHERE l.objid = v.objid AND l.granted = v.granted)) ],
	[ 'INSERT', 'INSERT INTO seen SELECT %rows FROM pg_locks' ],
	[ 'CREATE TABLE AS', 'CREATE TABLE t AS SELECT %rows AS f FROM pg_locks; SELECT f FROM t' ],
	[ 'COPY of a query', 'COPY (SELECT %rows FROM pg_locks) TO STDOUT' ],
	[ 'cursor', 'DECLARE c CURSOR FOR SELECT %rows FROM pg_locks; FETCH c' ],
	[ 'PREPARE and EXECUTE', 'PREPARE q AS SELECT %rows FROM pg_locks; EXECUTE q' ],
	[ 'view of a user', 'SELECT %rows FROM view' ],
	[ '... of the function', 'SELECT %rows FROM view_of_function' ],
	[ '... of the function in a target list', 'SELECT %rows FROM view_of_column' ],
	[ 'rule', 'INSERT INTO with_rule VALUES (1)' ],
	[ 'rule, instead', 'DELETE FROM with_rule' ],
	[ 'materialized view', 'REFRESH MATERIALIZED VIEW stored; SELECT found FROM stored' ],
	[ 'trigger', 'INSERT INTO with_trigger VALUES (1)' ],
	[ 'PL/pgSQL', 'SELECT plain()' ],
	[ '... with the rights of its owner', 'SELECT definer()' ],
	[ '... dynamic', 'SELECT dynamic()' ],
	[ 'DO', 'DO $$ BEGIN INSERT INTO seen SELECT %rows FROM pg_locks; END $$' ],
	[ 'SQL function', 'SELECT in_sql()' ],
	[ 'SQL function that is inlined', 'SELECT %rows FROM rows_of_locks()' ],
	[ '... with the function in FROM', 'SELECT %rows FROM rows_of_function()' ],
	[ '... with the function in a target list', 'SELECT %rows FROM rows_of_column()' ],
	[ '... over a view', 'SELECT %rows FROM rows_of_view()' ],
	[ '... over a view with the function in a target list', 'SELECT %rows FROM rows_of_view_of_column()', LOCAL ],
	[ 'BEGIN ATOMIC', 'SELECT atomic()' ],
	[ 'BEGIN ATOMIC that is inlined', 'SELECT %rows FROM rows_of_atomic()' ],
	[ 'parallel plan', "SET LOCAL $parallel = on; SELECT %rows FROM pg_locks" ],
	[ '... of a function', "SET LOCAL $parallel = on; SELECT plain()" ]);

my @blocking = (
	[ 'target list', 'SELECT %by' ],
	[ 'WHERE', q(SELECT 'holder' FROM processes WHERE name = 'holder' AND pid = ANY (pg_blocking_pids(waiter()))) ],
	[ 'argument in FROM', q(SELECT name FROM unnest(pg_blocking_pids(waiter())) AS p (pid)
		JOIN processes USING (pid)) ],
	[ 'function in FROM', q(SELECT 'holder' FROM pg_blocking_pids(waiter()) AS b WHERE b = ARRAY[holder()]) ],
	[ 'LATERAL', q(SELECT 'holder' FROM processes p, LATERAL unnest(pg_blocking_pids(p.pid)) b
		WHERE b = holder() AND p.name = 'waiter') ],
	[ 'join', q(SELECT b.name FROM processes w JOIN processes b ON b.pid = ANY (pg_blocking_pids(w.pid))) ],
	[ 'view', q(SELECT 'holder' FROM blocked WHERE pid = waiter() AND by = ARRAY[holder()]) ],
	[ 'view with an argument in FROM', q(SELECT 'holder' FROM blockers WHERE pid = waiter() AND by = holder()) ],
	[ 'SQL function', q(SELECT 'holder' WHERE by_in_sql(waiter()) = ARRAY[holder()]) ],
	[ 'PL/pgSQL', q(SELECT 'holder' WHERE by_in_plpgsql(waiter()) = ARRAY[holder()]) ],
	[ 'SQL function with a view', q(SELECT 'holder' WHERE by_in_view(waiter()) = ARRAY[holder()]) ],
	[ '... that is inlined', q(SELECT 'holder' FROM rows_of_blocked() WHERE pid = waiter() AND by = ARRAY[holder()]),
		NOT_BLOCKED ],
	[ '... that is inlined, with an argument in FROM',
		q(SELECT 'holder' FROM rows_of_blockers() WHERE pid = waiter() AND by = holder()) ],
	[ 'BEGIN ATOMIC', q(SELECT 'holder' WHERE atomic_by(waiter()) = ARRAY[holder()]) ],
	[ 'PREPARE and EXECUTE', 'PREPARE q AS SELECT %by; EXECUTE q' ],
	[ 'parallel plan', "SET LOCAL $parallel = on; SELECT %by" ],
	[ 'argument of CALL', 'CALL sees(pg_blocking_pids(waiter()))', NOT_BLOCKED ],
	[ 'argument of EXECUTE', q(PREPARE q(int[]) AS SELECT 'holder' WHERE $1 = ARRAY[holder()];
		EXECUTE q(pg_blocking_pids(waiter()))), NOT_BLOCKED ],
	[ 'isolation tester', q(SELECT 'holder' WHERE pg_isolation_test_session_is_blocked(waiter(), ARRAY[holder()])),
		NOT_BLOCKED ],

	# https://wiki.postgresql.org/wiki/Lock_Monitoring, for 9.6 and later
	[ 'query of the wiki', q(SELECT 'holder' FROM (
		SELECT pid, usename, pg_blocking_pids(pid) AS blocked_by, query AS blocked_query
		FROM pg_stat_activity
		WHERE cardinality(pg_blocking_pids(pid)) > 0) w WHERE pid = waiter() AND blocked_by = ARRAY[holder()]) ],

	# ... and the one that compares the rows of pg_locks
	[ 'older query of the wiki', q(SELECT 'holder' FROM (
		SELECT blocked_locks.pid AS blocked_pid, blocking_locks.pid AS blocking_pid
		FROM pg_catalog.pg_locks blocked_locks
		JOIN pg_catalog.pg_stat_activity blocked_activity ON blocked_activity.pid = blocked_locks.pid
		JOIN pg_catalog.pg_locks blocking_locks
			ON blocking_locks.locktype = blocked_locks.locktype
			AND blocking_locks.database IS NOT DISTINCT FROM blocked_locks.database
			AND blocking_locks.relation IS NOT DISTINCT FROM blocked_locks.relation
			AND blocking_locks.page IS NOT DISTINCT FROM blocked_locks.page
			AND blocking_locks.tuple IS NOT DISTINCT FROM blocked_locks.tuple
			AND blocking_locks.virtualxid IS NOT DISTINCT FROM blocked_locks.virtualxid
			AND blocking_locks.transactionid IS NOT DISTINCT FROM blocked_locks.transactionid
			AND blocking_locks.classid IS NOT DISTINCT FROM blocked_locks.classid
			AND blocking_locks.objid IS NOT DISTINCT FROM blocked_locks.objid
			AND blocking_locks.objsubid IS NOT DISTINCT FROM blocked_locks.objsubid
			AND blocking_locks.pid != blocked_locks.pid
		JOIN pg_catalog.pg_stat_activity blocking_activity ON blocking_activity.pid = blocking_locks.pid
		WHERE NOT blocked_locks.granted) w WHERE blocked_pid = waiter() AND blocking_pid = holder()) ]);

# Runs statements in a transaction, and returns what they show.
sub found_by
{
	my ($session, $statements, $set) = @_;

	$statements =~ s/%rows/$found/g;
	$statements =~ s/%by/$blocked/g;
	my $answer = $session->query("$set; BEGIN; $statements;
		SELECT found FROM seen; ROLLBACK; DEALLOCATE ALL; $cluster");
	return join("\n", grep { $_ ne '' } split(/\n/, $answer));
}

for my $way (@rows, @blocking)
{
	my ($what, $statements, $expected) = @$way;
	my $is_row = grep { $_ == $way } @rows;
	my $local = $is_row ? LOCAL : NOT_BLOCKED;

	$what = ($is_row ? 'locks' : 'blocking') . ": $what";
	$expected //= $is_row ? ACROSS : BLOCKED;
	is(found_by($session{looker}, $statements, $server), $local, "$what: with 'server'");
	is(found_by($session{looker}, $statements, $cluster), $expected, "... and with 'cluster': $expected");
}

like($session{looker}->query('EXPLAIN (VERBOSE) SELECT * FROM pg_locks'),
	qr/Function Call: zk_advisory\.pg_lock_status\(\)/, 'EXPLAIN VERBOSE shows the function');
unlike($session{looker}->query('EXPLAIN SELECT * FROM rows_of_view()'), qr/Scan on rows_of_view/,
	'a function that looks is inlined');
is($session{looker}->query('SELECT count(*) = count(DISTINCT l::text) FROM pg_locks l'), 't', 'each row is there once');
is($session{looker}->query('SELECT count(*) = count(DISTINCT l::text) FROM zk_advisory.pg_locks l'), 't',
	'... also in the view of the extension');
for my $set ($server, $cluster)
{
	is(found_by($session{looker}, 'SELECT %rows FROM zk_advisory.pg_locks', $set), ACROSS,
		"... which shows all: $set");
}

# A plan keeps its look until the setting changes.
my $find = 'SELECT ' . $found . ' FROM pg_locks';
my $execute = join('; ', ('EXECUTE q') x 7);
is($session{looker}->query("$server; PREPARE q AS $find; $execute; $cluster; EXECUTE q; DEALLOCATE q"),
	join("\n", (LOCAL) x 7, ACROSS), 'a prepared look is planned anew after a change of the setting');

# The rows
my @columns = (qw(locktype database relation page tuple virtualxid transactionid classid objid
  objsubid virtualtransaction pid mode granted fastpath), 'waitstart IS NOT NULL');
sub row
{
	my ($condition) = @_;

	return $session{looker}->query('SELECT ' . join(', ', @columns)
		  . " FROM pg_locks WHERE locktype = 'advisory' AND $condition");
}

# PostgreSQL's own row for the virtual transaction of a process has the same number.
my $vxid = q(SELECT virtualtransaction FROM pg_locks WHERE locktype = 'virtualxid' AND pid = );
my $oid = sql(q(SELECT oid FROM pg_database WHERE datname = 'postgres'));
my ($holder, $waiter) = map { $session{$_}->pid } qw(holder waiter);
is(row("pid = $waiter"),
	"advisory|$oid||||||0|1|1|" . sql($vxid . $waiter) . "|$waiter|ExclusiveLock|f|f|t", 'the row of a waiter');
like(row("pid = $holder"), qr{^advisory\|$oid\|{6}0\|1\|1\|\d+/0\|$holder\|ExclusiveLock\|t\|f\|f$},
	'... and of an idle holder');
$session{holder}->query('BEGIN; SELECT pg_advisory_xact_lock_shared(-1, 5)');
is(row("pid = $holder AND objsubid = 2"),
	"advisory|$oid||||||4294967295|5|2|" . sql($vxid . $holder) . "|$holder|ShareLock|t|f|f",
	'... and of a holder in a transaction');
$session{holder}->query('ROLLBACK');
is(row("objsubid = 2"), '', '... until it ends');

# The locks of all databases and paths are shown; but not those of zk_lock_acquire().
sql('CREATE DATABASE other');
sql('CREATE EXTENSION zklock_advisory CASCADE', 'other');
my $other = ZkTest->new($node);
my $of_other = sql(q(SELECT oid FROM pg_database WHERE datname = 'other'));
my $keys = q(SELECT database, objid FROM pg_locks WHERE locktype = 'advisory' AND pid = %d ORDER BY objid);
$other->query("\\connect other\n$cluster; SET zklock.path_prefix = '/confined'; SELECT pg_advisory_lock(7)");
$other->{backend} = $other->query('SELECT pg_backend_pid()');
is($session{looker}->query(sprintf($keys, $other->pid)), "$of_other|7", 'a lock of another database is shown, below a prefix');
is($other->query(q(SELECT zk_lock_acquire('/confined/pg_advisory/other/8', mode => 'write'),
		zk_lock_acquire('/confined/8'))) . "\n" . $session{looker}->query(sprintf($keys, $other->pid)), "t|t\n$of_other|7",
	'a lock that zk_lock_acquire() has taken is not shown');
is($other->query('SELECT pg_try_advisory_lock(8)') . "\n" . $session{looker}->query(sprintf($keys, $other->pid)),
	"t\n$of_other|7\n$of_other|8", '... until it is also taken as an advisory lock');
$other->close;

# A view that a role looks at shows keys, as PostgreSQL's, and no paths.
sql(q(CREATE ROLE plain LOGIN; CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor;
	ALTER DATABASE postgres SET zklock.advisory_locks = 'cluster'));
my %as = map { my $role = $_; local $ENV{PGUSER} = $role; ($role => ZkTest->new($node)) } qw(plain monitor);
for my $role (qw(plain monitor))
{
	is($as{$role}->query($find), ACROSS, "role $role sees the keys");
	is($as{$role}->query("SELECT pg_blocking_pids($waiter) = ARRAY[$holder]"), 't', '... and who blocks whom');
}
sql('REVOKE EXECUTE ON FUNCTION pg_lock_status(), pg_blocking_pids(int) FROM PUBLIC');
like($as{plain}->query($_), qr/^ERROR:  42501: permission denied for function pg_(?:lock_status|blocking_pids)/,
	"REVOKE holds: $_")
  for $find, 'SELECT * FROM pg_lock_status()', 'SELECT pg_lock_status()', "SELECT pg_blocking_pids($waiter)",
  'SELECT * FROM zk_advisory.pg_locks', "SELECT zk_advisory.pg_blocking_pids($waiter)", 'SELECT count(*) FROM view';
sql('GRANT EXECUTE ON FUNCTION pg_lock_status(), pg_blocking_pids(int) TO PUBLIC');
is($as{plain}->query($find), ACROSS, '... until it is granted again');

# Whoever may call PostgreSQL's functions gets PostgreSQL's answer if it must not call those of
# the extension, also by plans from before, or of another role.
my $of_extension = 'EXECUTE ON FUNCTION zk_advisory.pg_lock_status(), zk_advisory.pg_blocking_pids(int)';
my @ways = ($find, $find =~ s/pg_locks/pg_lock_status()/r, $find =~ s/pg_locks/(SELECT (pg_lock_status()).*) l/r,
	$find =~ s/pg_locks/view/r, $find =~ s/pg_locks/rows_of_function()/r, 'SELECT plain()', 'EXECUTE q');
my $by = "SELECT by_in_plpgsql($waiter), pg_blocking_pids($waiter)";
$as{plain}->query("PREPARE q AS $find");
$as{plain}->query($execute);
$as{plain}->query($by);
sql("REVOKE $of_extension FROM PUBLIC");
is($as{plain}->query($_), LOCAL, "with REVOKE for the extension's functions: $_") for @ways;
is($as{plain}->query($by), '{}|{}', '... and who blocks whom');
like($as{plain}->query($_), qr/^ERROR:  42501: permission denied for function pg_(?:lock_status|blocking_pids)/, "... by their names: $_")
  for 'SELECT * FROM zk_advisory.pg_locks', "SELECT zk_advisory.pg_blocking_pids($waiter)";
for my $way ("PREPARE q AS $find; $execute", 'SELECT plain()', 'SELECT in_sql()', $by)
{
	my $run = $way =~ s/.*EXECUTE/EXECUTE/rs;
	my ($own, $theirs) = $way eq $by ? ("{$holder}|{$holder}", '{}|{}') : (ACROSS, LOCAL);

	$session{looker}->query($cluster);
	like($session{looker}->query($way), qr/\A\Q$own\E$/m, "a role that may call them: $way");
	is($session{looker}->query("SET ROLE plain; $run; RESET ROLE; $run"), "$theirs\n$own", '... and one that must not, in one session');
	$session{looker}->query('DEALLOCATE ALL');
}
is($as{plain}->query($execute), join("\n", (LOCAL) x 7), 'a role that is no member');
sql("GRANT $of_extension TO monitor; GRANT monitor TO plain");
is($as{plain}->query($execute), join("\n", (ACROSS) x 7), '... becomes a member of one that may call them');
sql('REVOKE monitor FROM plain');
is($as{plain}->query("$execute; $by"), join("\n", (LOCAL) x 7, '{}|{}'), '... and is none any more');
sql('REVOKE USAGE ON SCHEMA zk_advisory FROM PUBLIC');
is($as{monitor}->query("$find; $by"), ACROSS . "\n{$holder}|{$holder}", 'the schema does not matter');
sql("GRANT $of_extension TO PUBLIC; GRANT USAGE ON SCHEMA zk_advisory TO PUBLIC; REVOKE $of_extension FROM monitor");
is($as{plain}->query("EXECUTE q; $by"), ACROSS . "\n{$holder}|{$holder}", 'a privilege that is granted again');
$_->close for values %as;
sql('ALTER DATABASE postgres RESET zklock.advisory_locks');

# The wait event, and a wait for another lock
my $event = q(SELECT wait_event_type || '/' || wait_event FROM pg_stat_activity WHERE pid = %d);
is(sql(sprintf($event, $waiter)), 'Lock/advisory', 'the wait event is that of an advisory lock');
my $plain = ZkTest->new($node);
my $plain_holder = ZkTest->new($node);

# Starts a statement, and waits until its session waits for others.
sub block
{
	my ($session, $statement) = @_;

	$session->start($statement);
	$session->wait_for_lock;
	return;
}

# Waits until these sessions, or 0, block another one, and says so.
sub blocked_by
{
	my ($session, $blockers, $what) = @_;
	my $wanted = join(',', sort { $a <=> $b } map { ref $_ ? $_->pid : $_ } @$blockers);
	my $query = "SELECT array_to_string(pg_blocking_pids(${\ $session->pid}), ',')";
	my $last = '';

	eval { wait_until($what, sub { ($last = $session{looker}->query($query)) eq $wanted }); 1 }
	  or diag($@);
	is($last, $wanted, $what);
	return;
}

$plain_holder->query(q(SELECT zk_lock_acquire('/plain')));
block($plain, q(SELECT zk_lock_acquire('/plain')));
like(sql(sprintf($event, $plain->pid)), qr{^Extension/}, '... and that of another lock is as before');
blocked_by($plain, [$plain_holder], 'blocked by the holder of another lock');
is(sql("SELECT pg_blocking_pids(${\ $plain->pid})"), '{}', "... which is not shown with 'server'");
is($session{looker}->query(q(SELECT count(*) FROM pg_locks WHERE NOT granted)), '1', '... and has no row');
$plain_holder->query(q(SELECT zk_lock_release('/plain')));
is($plain->result, 't', '... until it is released');
$plain->query(q(SELECT zk_lock_release_all()));

# Who blocks whom
my @more = map { ZkTest->new($node, 'zklock.advisory_locks' => 'cluster') } 1 .. 4;
blocked_by($session{looker}, [], 'a process that does not wait');
blocked_by($session{holder}, [], '... nor a holder');
$more[0]->query("SELECT zk_lock_acquire('/rw', mode => 'shared')");
$more[1]->query("SELECT zk_lock_acquire('/rw', mode => 'shared')");
block($more[2], "SELECT zk_lock_acquire('/rw', mode => 'write')");
blocked_by($more[2], [ @more[0, 1] ], 'a writer is blocked by all readers');
block($more[3], "SELECT zk_lock_acquire('/rw', mode => 'shared')");
blocked_by($more[3], [ $more[2] ], '... and a reader by the writer ahead of it');
$_->query('SELECT zk_lock_release_all()') for @more[0, 1];
is($more[2]->result, 't', '... which then has the lock');
blocked_by($more[3], [ $more[2] ], '... and still blocks');
$more[2]->query('SELECT zk_lock_release_all()');
is($more[3]->result, 't', '... until it releases it');
$more[3]->query('SELECT zk_lock_release_all()');

for my $n (0, 1)
{
	is($more[$n]->query("SELECT zk_semaphore_acquire('/semaphore', 2)"), 't', 'a lease');
}
block($more[2], "SELECT zk_semaphore_acquire('/semaphore', 2)");
blocked_by($more[2], [ @more[0, 1] ], '... all holders of leases block a waiter');
$more[0]->query('SELECT zk_lock_release_all()');
is($more[2]->result, 't', '... which gets one');
$_->query('SELECT zk_lock_release_all()') for @more[1, 2];

$more[0]->query("SELECT zk_lock_acquire('/simple_one', mode => 'simple')");
block($more[1], "SELECT zk_lock_acquire('/simple_one', mode => 'simple')");
blocked_by($more[1], [ $more[0] ], 'the holder of a simple lock');
$more[0]->query('SELECT zk_lock_release_all()');
is($more[1]->result, 't', '... until it is released');
$more[1]->query('SELECT zk_lock_release_all()');

# Names can be found whose queues have the same number in shared memory.
my ($alike, $same) = qw(nq8wpybyiqgolAsxAEIrrAAA 0kgxt2gnkw4k0m00FA0009hg);
my $number_of = q(hashtextextended('%s', hashtextextended('', 0)));
is(sql('SELECT ' . join(' = ', map { sprintf($number_of, $_) } $alike, $same)),
	unpack('C', pack('S', 1)) ? 't' : 'f', 'two queues with the same number, if this machine is little-endian');
$more[0]->query("SELECT zk_lock_acquire('/$alike')");
$more[2]->query("SELECT zk_lock_acquire('/$same')");
block($more[1], "SELECT zk_lock_acquire('/$same')");
blocked_by($more[1], [ $more[2] ], 'the holder of a lock of that number is not taken for a blocker');
$_->query('SELECT zk_lock_release_all()') for @more[0, 2];
is($more[1]->result, 't', '... nor does it block');
$more[1]->query('SELECT zk_lock_release_all()');

# A session that has a key exclusively and shared, and so two nodes of one number
$more[0]->query('SELECT pg_advisory_lock(20), pg_advisory_lock_shared(20)');
wait_for_nodes($zk, '/pg_advisory/postgres/20', 2);
block($more[1], 'SELECT pg_advisory_lock(20)');
blocked_by($more[1], [ $more[0] ], 'a holder of both modes is the only blocker');
$more[0]->query('SELECT pg_advisory_unlock(20)');
blocked_by($more[1], [ $more[0] ], '... also of the shared one alone');
$more[0]->query('SELECT pg_advisory_unlock_shared(20)');
is($more[1]->result, '', '... until it releases both');
$more[1]->query('SELECT pg_advisory_unlock(20)');

# PostgreSQL's answer comes first.
$more[0]->query('CREATE TABLE updated (i int); INSERT INTO updated VALUES (1); BEGIN; UPDATE updated SET i = 2');
block($more[1], 'UPDATE updated SET i = 3');
blocked_by($more[1], [ $more[0] ], 'a wait for a lock of PostgreSQL');
$more[0]->query('ROLLBACK');
$more[1]->result;

# A holder on another server is 0.
my $remote = ZkTest->new($far, 'zklock.advisory_locks' => 'cluster');
is($remote->query('SELECT pg_try_advisory_lock(10)'), 't', 'a lock is held on another server');
block($more[0], 'SELECT pg_advisory_lock(10)');
blocked_by($more[0], [0], '... which blocks as process 0');
is($session{looker}->query("SELECT pid = ${\ $more[0]->pid}, granted FROM pg_locks WHERE locktype = 'advisory' AND objid = 10"),
	't|f', '... and has no row here');
block($more[1], 'SELECT pg_advisory_lock(10)');
wait_for_nodes($zk, '/pg_advisory/postgres/10', server_mode() eq 'gate' ? 2 : 3);
blocked_by($more[1], server_mode() eq 'gate' ? [ 0, $more[0] ] : [ 0, $more[0] ],
	'... and whoever waits behind is blocked by both');
is($remote->query(q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')), '1', '... the other server shows the holder');

# Without ZooKeeper, looks work.
$zk->pause;
blocked_by($more[0], [0], 'while ZooKeeper is stopped: a lock of another server');
blocked_by($session{waiter}, [ $session{holder} ], '... and one of this server');
is($session{looker}->query($find), '1, 2, 3, 1 waits, 10 waits, 10 waits', '... and rows');
$zk->resume;
$remote->query('SELECT pg_advisory_unlock(10)');
is($more[0]->result, '', 'the lock is released on the other server');
blocked_by($more[1], [ $more[0] ], '... and then the next one is blocked by its holder alone');
$more[0]->query('SELECT pg_advisory_unlock(10)');
is($more[1]->result, '', '... until that one releases it');
$more[1]->query('SELECT pg_advisory_unlock(10)');

# A try is never shown as a waiter, however many poll. With a node ahead that its server may
# only keep, a try waits a moment until that is given up.
my $pair = 'SELECT pg_advisory_lock(12), pg_advisory_unlock(12)';
my $kept = q(SELECT kept FROM zk_lock_queue('/pg_advisory/postgres/12'));
wait_until('the other server keeps a node', sub { $remote->query("$pair; $kept") =~ /\nt$/ });
$remote->query('SELECT pg_advisory_lock(12)');
sql('CREATE TABLE ends ()');
my $polls = q(DO $$ BEGIN LOOP
	PERFORM pg_try_advisory_lock(1), pg_try_advisory_lock(12); EXIT WHEN EXISTS (SELECT FROM ends); END LOOP; END $$);
my @pollers = (@more, map { ZkTest->new($node, 'zklock.advisory_locks' => 'cluster') } 1 .. 4);
my $waiting = 0;
$_->start($polls) for @pollers;
$waiting += $session{looker}->query("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> $waiter")
  for 1 .. 300;
sql('INSERT INTO ends DEFAULT VALUES');
is($waiting, 0, 'no try is shown as a waiter');
is($_->result, '', '... of tries that end') for @pollers;
$_->close for @pollers[ 4 .. $#pollers ];

# A lock that is lost has no row.
my $proxy = ZkProxy->new($zk->hosts);
my $brief = new_node('c', $proxy->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.on_loss' => 'cancel',
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '3s');
$brief->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
my ($lost, $observer) = map { ZkTest->new($brief, 'zklock.advisory_locks' => 'cluster') } 1 .. 2;
my $id = $lost->query(q(SELECT pg_advisory_lock(11); SELECT session_id FROM zk_session())) =~ s/^\n//r;
my $own = q(SELECT objid FROM pg_locks WHERE locktype = 'advisory');
is($observer->query($own), '11', 'a lock is shown');
$proxy->cut;
$proxy->hold;
wait_until('the session is over', sub { !grep { $_ eq $id } $zk->sessions });
$proxy->release;
wait_until('the loss is known', sub { $observer->query('SELECT lost FROM zk_locks') eq 't' });
is($observer->query($own), '', '... until it is lost');
$_->close for $lost, $observer;

# A session's own locks need no room in shared memory. So looks are not executed in parallel
# workers, also where the planner judges PostgreSQL's function.
my $small = new_node('d', $zk->hosts,
	shared_preload_libraries => 'zklock',
	'zklock.session_mode' => 'backend',
	'zklock.max_locks' => 16);
$small->safe_psql('postgres', q(CREATE EXTENSION zklock_advisory;
	CREATE FUNCTION inlined() RETURNS SETOF pg_locks STABLE PARALLEL SAFE LANGUAGE sql AS
		'SELECT * FROM pg_locks';
	CREATE FUNCTION safe() RETURNS SETOF pg_locks STABLE PARALLEL SAFE LANGUAGE plpgsql AS
		'BEGIN RETURN QUERY SELECT * FROM pg_locks; END'));
my $owner = ZkTest->new($small, 'zklock.advisory_path' => '/small');
my $number = q(SELECT count(*) FROM %s l WHERE locktype = 'advisory');
$owner->query("$cluster; SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 40) i");
is($owner->query('SELECT count(*) FROM zk_locks'), '40', 'a session has more locks than there is room for');
for my $from ('pg_locks', 'pg_lock_status()', 'inlined()', '(SELECT (pg_lock_status()).*)')
{
	my $look = sprintf($number, $from);

	like($owner->query("$server; SET $parallel = on; EXPLAIN $look"), qr/Gather/, "PostgreSQL's look is parallel: $from");
	unlike($owner->query("$cluster; EXPLAIN $look"), qr/Gather/, '... and one across servers is not');
	is($owner->query($look), '40', '... and shows all');
}
is($owner->query(sprintf($number, 'safe()')), '16', 'a function that is marked PARALLEL SAFE shows those that have room');
is($owner->query("SET $parallel = off; " . sprintf($number, 'safe()')), '40', '... in a parallel worker');
$owner->close;

# Without the extension, or with its first version, a look is PostgreSQL's.
sql('CREATE DATABASE without');
my $without = ZkTest->new($node);
$without->query("\\connect without\n$cluster");
is($without->query("$find; SELECT cardinality(pg_blocking_pids($waiter))"), LOCAL . "\n0",
	'without the extension, looks show locks of this server');
$without->query("PREPARE q AS $find; EXECUTE q");
sql(q(CREATE EXTENSION zklock_advisory VERSION '1.0' CASCADE), 'without');
is($without->query("$find; EXECUTE q; SELECT cardinality(pg_blocking_pids($waiter))"), LOCAL . "\n" . LOCAL . "\n0",
	'... and so with version 1.0');
is($without->query($find =~ s/pg_locks/zk_advisory.pg_locks/r), ACROSS, '... whose view has all');
is($without->query('SELECT count(*) = count(DISTINCT l::text) FROM zk_advisory.pg_locks l'), 't', '... once');
is($without->query('SELECT pg_try_advisory_lock(12), pg_advisory_unlock(12)'), 't|t', '... and locks are across servers');
sql('ALTER EXTENSION zklock_advisory UPDATE', 'without');
is($without->query("EXECUTE q; $find; SELECT pg_blocking_pids($waiter) = ARRAY[$holder]"), ACROSS . "\n" . ACROSS . "\nt",
	'... until it is updated, also with plans from before');
for my $alter ('FUNCTION zk_advisory.pg_lock_status() CALLED ON NULL INPUT', 'FUNCTION zk_advisory.pg_lock_status() RENAME TO l')
{
	sql("ALTER $alter", 'without');
	is($without->query($find), LOCAL, "a look is PostgreSQL's if it is altered: $alter");
	sql('ALTER FUNCTION zk_advisory.pg_lock_status() STRICT', 'without') if $alter =~ /CALLED/;
}
sql('DROP EXTENSION zklock_advisory', 'without');
is($without->query($find), LOCAL, '... or dropped');
$without->close;

# By search_path, without the setting
is($session{looker}->query("$server; SET search_path = zk_advisory, pg_catalog, public;
		$find; SELECT pg_blocking_pids($waiter) = ARRAY[$holder]; RESET search_path"),
	ACROSS . "\nt", 'by search_path, looks show both');

$session{holder}->query('SELECT pg_advisory_unlock(1)');
is($session{waiter}->result, '', 'the waiter has its lock');
$_->close for values %session, @more[ 0 .. 3 ], $remote;

done_testing();
