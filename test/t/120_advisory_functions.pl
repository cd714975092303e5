# The functions of zklock_advisory: they are declared as PostgreSQL's, and what
# PostgreSQL's functions return, warn of and refuse is the same for locks on one
# server and across servers, with the exceptions that docs/advisory-locks.md lists.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	max_prepared_transactions => 2,
	deadlock_timeout => '10ms');

sub sql
{
	my ($sql, $database) = @_;

	return $node->safe_psql($database // 'postgres', $sql);
}

# The extension
sql('CREATE EXTENSION zklock_advisory');
my $declared = q(
	SELECT proname, oidvectortypes(proargtypes), prorettype::regtype, proretset,
		proisstrict, provolatile, proparallel, procost, proleakproof, prosecdef,
		prokind, proargnames IS NULL, proargdefaults IS NULL, proconfig IS NULL,
		(SELECT array_agg(p.privilege_type ORDER BY 1)
			FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) p
			WHERE p.grantee = 0)
	FROM pg_proc
	WHERE (proname ~ 'advisory' OR proname IN ('pg_lock_status', 'pg_blocking_pids'))
		AND pronamespace = '%s'::regnamespace
	ORDER BY 1, 2);
my $of_server = sql(sprintf($declared, 'pg_catalog'));
is(() = $of_server =~ /^\w*advisory/mg, 21, 'PostgreSQL has 21 functions for advisory locks');
is(() = $of_server =~ /^pg_(?:lock_status|blocking_pids)\b/mg, 2, '... and two that show locks');

# PostgreSQL's pg_lock_status() has columns, and that of the extension the row type of the view.
# That also needs the session's table of its own locks, which a parallel worker does not have.
is(sql(sprintf($declared, 'zk_advisory')),
	$of_server =~ s/^(pg_lock_status\|\|)record(\|t\|t\|v\|)s(\|.*\|f\|)f(\|t\|t\|)/$1pg_locks$2r$3t$4/mr,
	'those of the extension are declared in the same way');
is(sql(q(SELECT (SELECT array_agg(n || ' ' || t::regtype ORDER BY o)
				FROM unnest(proargnames, proallargtypes) WITH ORDINALITY AS u (n, t, o))
			= (SELECT array_agg(attname || ' ' || atttypid::regtype ORDER BY attnum)
				FROM pg_attribute WHERE attrelid = 'pg_catalog.pg_locks'::regclass AND attnum > 0)
		FROM pg_proc WHERE oid = 'pg_catalog.pg_lock_status()'::regprocedure)),
	't', '... whose columns are the same');
is(sql(q(SELECT proname FROM pg_proc WHERE pronamespace = 'zk_advisory'::regnamespace
		AND proname ~ '^zk_')), '', '... and it has no others');
is(sql(q(SELECT count(*) FROM pg_depend d
		JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
		WHERE e.extname = 'zklock_advisory' AND d.deptype = 'e'
			AND obj_description(d.objid, d.classid::regclass::name) IS NULL
			AND d.classid <> 'pg_type'::regclass)),
	0, 'each object of the extension has a comment');
my $columns = q(
	SELECT attname, atttypid::regtype FROM pg_attribute
	WHERE attrelid = '%s.pg_locks'::regclass AND attnum > 0 ORDER BY attnum);
is(sql(sprintf($columns, 'zk_advisory')), sql(sprintf($columns, 'pg_catalog')),
	'the view has the columns of pg_locks');
is(sql(q(SELECT pg_relation_is_updatable('zk_advisory.pg_locks', true),
			has_table_privilege('public', 'zk_advisory.pg_locks', 'select'),
			has_schema_privilege('public', 'zk_advisory', 'create'))),
	'0|t|f', '... and can be read by all');

# The statements run in three sessions, first on one server, then across servers.
# "%locks" is the view.
my @steps = map { /^\s*(\w)(\??): (.*?);?\s*$/ ? [ $1, $2, $3 ] : () } split(/\n/, <<'EOF_STEPS');
	a: SELECT pg_advisory_lock(1);
	a: SELECT pg_advisory_lock(1), pg_try_advisory_lock(1);
	b: SELECT pg_try_advisory_lock(1), pg_try_advisory_lock_shared(1), pg_try_advisory_lock(2);
	a: SELECT pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(1);
	a: SELECT pg_advisory_unlock(1);
	b: SELECT pg_try_advisory_lock(1);
	a: SELECT pg_advisory_unlock(1), pg_advisory_unlock_shared(1);
	b: SELECT pg_advisory_unlock_all();
	b: SELECT pg_advisory_unlock_all();
	b: SELECT pg_advisory_unlock(1), pg_advisory_unlock(2);

	a: SELECT pg_advisory_lock_shared(3), pg_advisory_lock_shared(3);
	b: SELECT pg_try_advisory_lock_shared(3), pg_try_advisory_lock(4);
	a: SELECT pg_try_advisory_lock(4), pg_try_advisory_lock_shared(4);
	a: SELECT pg_advisory_unlock(3), pg_advisory_unlock_shared(3), pg_advisory_unlock_shared(3), pg_advisory_unlock_shared(3);
	b: SELECT pg_advisory_unlock(3), pg_advisory_unlock_shared(3), pg_advisory_unlock(4);
	a: SELECT pg_advisory_lock(3), pg_advisory_lock_shared(3), pg_advisory_unlock(3);
	b: SELECT pg_try_advisory_lock(3), pg_try_advisory_lock_shared(3), pg_advisory_unlock_shared(3);
	a: SELECT pg_advisory_unlock_all();

	a: SELECT pg_advisory_lock(1, 2), pg_advisory_lock(4294967298), pg_try_advisory_lock(-1), pg_try_advisory_lock(-1, -1);
	b: SELECT pg_try_advisory_lock(1, 2), pg_try_advisory_lock(2, 1), pg_try_advisory_lock(4294967298), pg_try_advisory_lock(-1), pg_try_advisory_lock(-1, -1), pg_try_advisory_lock(4294967295);
	a: SELECT pg_advisory_lock(-9223372036854775808), pg_advisory_lock(9223372036854775807), pg_advisory_lock_shared(-2147483648, 2147483647), pg_advisory_lock_shared(0), pg_try_advisory_lock_shared(0, 0);
	c: SELECT locktype, d.datname, relation, classid, objid, objsubid, mode, granted, fastpath FROM %locks.pg_locks l JOIN pg_database d ON d.oid = l.database WHERE locktype = 'advisory' ORDER BY classid, objid, objsubid;
	c: SELECT count(*) > 0 FROM %locks.pg_locks WHERE locktype <> 'advisory';
	a: SELECT pg_advisory_unlock(1, 2), pg_advisory_unlock(1, 2), pg_advisory_unlock(4294967298), pg_advisory_unlock_shared(-2147483648, 2147483647);
	a: DISCARD ALL;
	b: DISCARD ALL;
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';

	a: SELECT pg_advisory_lock(NULL), pg_advisory_lock(1, NULL), pg_try_advisory_lock(NULL), pg_advisory_unlock(NULL), pg_try_advisory_xact_lock(NULL, 1);
	a: SELECT pg_advisory_lock(9223372036854775808);
	a: SELECT pg_advisory_lock(1, 2147483648);
	a: SELECT pg_advisory_lock('7'), pg_typeof(pg_advisory_lock(7)), pg_advisory_unlock('7'), pg_advisory_unlock(7);
	a: SELECT pg_advisory_lock('x');
	a: SELECT pg_advisory_lock();

	a: SELECT pg_advisory_xact_lock(5);
	b: SELECT pg_try_advisory_xact_lock(5);
	a: SELECT pg_try_advisory_xact_lock(5), pg_try_advisory_xact_lock_shared(6), pg_try_advisory_xact_lock(5, 5), pg_try_advisory_xact_lock_shared(6, 6);
	b: SELECT pg_try_advisory_xact_lock(5), pg_try_advisory_xact_lock(6), pg_try_advisory_xact_lock(5, 5), pg_try_advisory_xact_lock(6, 6);
	a: BEGIN;
	a: SELECT pg_advisory_xact_lock(5), pg_advisory_xact_lock_shared(6), pg_advisory_xact_lock(5, 5), pg_advisory_xact_lock_shared(6, 6);
	a: SELECT pg_try_advisory_xact_lock(5), pg_try_advisory_xact_lock_shared(6), pg_try_advisory_xact_lock(5, 5), pg_try_advisory_xact_lock_shared(6, 6);
	b: SELECT pg_try_advisory_xact_lock(5), pg_try_advisory_xact_lock_shared(6), pg_try_advisory_xact_lock(5, 5), pg_try_advisory_xact_lock_shared(6, 6);
	a: SELECT pg_advisory_unlock(5), pg_advisory_unlock_shared(6), pg_advisory_unlock_all();
	b: SELECT pg_try_advisory_lock(5);
	a: SAVEPOINT s;
	a: SELECT pg_advisory_xact_lock(7), pg_advisory_lock(8);
	b: SELECT pg_try_advisory_lock(7), pg_try_advisory_lock(8);
	a: ROLLBACK TO s;
	b: SELECT pg_try_advisory_lock(7), pg_try_advisory_lock(8), pg_advisory_unlock(7);
	a: SELECT pg_advisory_unlock(8), pg_advisory_unlock(8);
	a: SELECT 1/0;
	a: SELECT pg_advisory_unlock_all();
	a: ROLLBACK;
	b: SELECT pg_try_advisory_lock(5), pg_advisory_unlock(5);
	a: BEGIN;
	a: SELECT pg_advisory_lock(5), pg_advisory_xact_lock(5);
	a: COMMIT;
	b: SELECT pg_try_advisory_lock(5);
	a: SELECT pg_advisory_unlock(5);
	b: SELECT pg_try_advisory_lock(5), pg_advisory_unlock(5);

	a: BEGIN;
	a: SELECT pg_advisory_xact_lock(21), pg_advisory_xact_lock_shared(22, 22), pg_advisory_xact_lock(21), pg_advisory_unlock_all();
	a: SELECT pg_advisory_lock(21), pg_advisory_lock(21), pg_advisory_lock_shared(22, 22);
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: ROLLBACK;
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: SELECT pg_advisory_unlock(21), pg_advisory_unlock(21), pg_advisory_unlock(21), pg_advisory_unlock_shared(22, 22), pg_advisory_unlock_shared(22, 22);
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';
	a: BEGIN;
	a: SELECT pg_advisory_lock(21), pg_advisory_lock_shared(22, 22), pg_advisory_xact_lock(21), pg_advisory_xact_lock_shared(22, 22);
	a: SELECT pg_advisory_unlock_all();
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: SELECT pg_advisory_unlock(21), pg_advisory_unlock_shared(22, 22);
	a: COMMIT;
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';

	a: BEGIN;
	a: SELECT pg_advisory_xact_lock(31), pg_advisory_xact_lock(31), pg_advisory_xact_lock_shared(32), pg_advisory_xact_lock_shared(32), pg_advisory_xact_lock(33, 33), pg_advisory_xact_lock(33, 33), pg_advisory_xact_lock_shared(34, 34), pg_advisory_xact_lock_shared(34, 34);
	a: SELECT pg_advisory_unlock_all(), pg_advisory_unlock(31), pg_advisory_unlock_shared(32), pg_advisory_unlock(33, 33), pg_advisory_unlock_shared(34, 34);
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: COMMIT;
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';
	a: BEGIN;
	a: SELECT pg_advisory_lock(31), pg_advisory_lock_shared(32), pg_advisory_lock(33, 33), pg_advisory_lock_shared(34, 34), pg_advisory_xact_lock(31), pg_advisory_xact_lock_shared(32), pg_advisory_xact_lock(33, 33), pg_advisory_xact_lock_shared(34, 34);
	a: ROLLBACK;
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: SELECT pg_advisory_unlock_all();
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';
	a: BEGIN;
	a: SELECT pg_advisory_xact_lock(31), pg_advisory_xact_lock_shared(32), pg_advisory_xact_lock(33, 33), pg_advisory_xact_lock_shared(34, 34), pg_advisory_lock(31), pg_advisory_lock(31), pg_advisory_lock_shared(32), pg_advisory_lock_shared(32), pg_advisory_lock(33, 33), pg_advisory_lock(33, 33), pg_advisory_lock_shared(34, 34), pg_advisory_lock_shared(34, 34);
	a: COMMIT;
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: SELECT pg_advisory_unlock(31), pg_advisory_unlock(31), pg_advisory_unlock(31), pg_advisory_unlock_shared(32), pg_advisory_unlock_shared(32), pg_advisory_unlock_shared(32), pg_advisory_unlock(33, 33), pg_advisory_unlock(33, 33), pg_advisory_unlock(33, 33), pg_advisory_unlock_shared(34, 34), pg_advisory_unlock_shared(34, 34), pg_advisory_unlock_shared(34, 34);
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';
	a: SELECT pg_advisory_lock(31), pg_advisory_lock(31), pg_advisory_lock_shared(32), pg_advisory_lock_shared(32), pg_advisory_lock(33, 33), pg_advisory_lock(33, 33), pg_advisory_lock_shared(34, 34), pg_advisory_lock_shared(34, 34);
	c: SELECT classid, objid, objsubid, mode, granted FROM %locks.pg_locks WHERE locktype = 'advisory' ORDER BY objid;
	a: SELECT pg_advisory_unlock_all();
	c: SELECT count(*) FROM %locks.pg_locks WHERE locktype = 'advisory';

	a: BEGIN ISOLATION LEVEL REPEATABLE READ;
	a: SELECT pg_advisory_lock(9), pg_advisory_xact_lock(10);
	a: COMMIT;
	a: BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
	a: SELECT pg_advisory_unlock(9), pg_advisory_xact_lock(10);
	a: COMMIT;

	a: SELECT pg_advisory_lock(11);
	b?: SELECT pg_advisory_lock(11);
	c: SELECT mode, granted, waitstart IS NOT NULL FROM %locks.pg_locks WHERE locktype = 'advisory' AND objid = 11 ORDER BY granted;
	a: SELECT pg_advisory_unlock(11);
	b: SELECT pg_advisory_unlock(11);
	a: SELECT pg_advisory_lock_shared(11);
	b?: SELECT pg_advisory_xact_lock(11);
	a: SELECT pg_advisory_unlock_shared(11);
	b: SELECT pg_try_advisory_lock(11), pg_advisory_unlock(11);
	a: SELECT pg_advisory_lock(11);
	b: SET lock_timeout = '50ms';
	b: SELECT pg_advisory_lock(11);
	b: SELECT pg_try_advisory_lock(11), pg_advisory_unlock(11);
	b: SET lock_timeout = 0;
	b: SET statement_timeout = '100ms';
	b: SELECT pg_advisory_lock_shared(11);
	b: SET statement_timeout = 0;
	a: SELECT pg_advisory_unlock_all();
EOF_STEPS

# Plays the steps with this option, which DISCARD ALL does not undo. Returns the
# results, each with its step. A session with "?" waits, and continues after the next step
# of another session than "c". The context of an error is not compared: since 19,
# PostgreSQL names its lock there.
sub play
{
	my ($locks, $option) = @_;
	local $ENV{PGOPTIONS} = $option;
	my %session = map { $_ => ZkTest->new($node) } qw(a b c);
	my (@results, $waiting);

	for my $step (@steps)
	{
		my ($name, $waits, $sql) = @$step;

		wait_until_released($zk, $session{c}) if $sql =~ /_try_/;
		$session{$name}->start($sql =~ s/%locks/$locks/r);
		if ($waits)
		{
			$waiting = $name;
			wait_until('a session waits',
				sub { count_locks($locks, 'NOT granted') eq '1' });
			next;
		}
		push @results, "$name: $sql\n" . $session{$name}->result =~ s/^(?:LOCATION|CONTEXT): .*\n?//gmr;
		next if $name eq 'c' || !defined $waiting;
		push @results, "$waiting goes on\n" . $session{$waiting}->result;
		undef $waiting;
	}
	$_->close for values %session;
	wait_until('no lock is left', sub { count_locks($locks, 'true') eq '0' });
	return @results;
}

sub count_locks
{
	my ($locks, $condition) = @_;

	return sql("SELECT count(*) FROM $locks.pg_locks
		WHERE locktype = 'advisory' AND $condition");
}

my $search_path = 'search_path=zk_advisory,pg_catalog,public';
my @server = play('pg_catalog', '');
my %across = (
	'search_path' => [ play('zk_advisory', "-c $search_path") ],
	"'cluster'" => [ play('zk_advisory', '-c zklock.advisory_locks=cluster') ],
	"'both'" => [ play('zk_advisory', '-c zklock.advisory_locks=both') ]);
for my $way (sort keys %across)
{
	is($across{$way}[$_], $server[$_],
		"the same on one server and by $way: " . substr($server[$_] =~ s/\n.*//sr, 0, 70))
	  for 0 .. $#server;
}

# The differences: statements, the result on one server, and that across servers
my $refresh = q(CREATE MATERIALIZED VIEW m AS SELECT pg_try_advisory_xact_lock(1) WITH NO DATA;
	REFRESH MATERIALIZED VIEW m; DROP MATERIALIZED VIEW m);
my $prepare = q(BEGIN; SELECT pg_advisory_xact_lock(1); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p');
my $one = ZkTest->new($node);
sub first_line { return $_[0] =~ s/\n.*//sr }

for ([ 'a stronger lock of the same key',
		'SELECT pg_advisory_lock_shared(1); SELECT pg_try_advisory_lock(1)',
		'' => qr/^\nt$/,
		qr/^\nERROR:  40P01: cannot take write lock on "\S+" while holding shared lock/ ],
	[ 'PREPARE TRANSACTION', $prepare,
		'' => qr/^$/, qr/^\nERROR:  0A000: cannot PREPARE .*^ERROR:/ms ],
	[ 'the query of a materialized view', $refresh,
		'' => qr/^$/, qr/^ERROR:  42501: cannot use ZooKeeper locks within security-restricted operation/ ])
{
	my ($what, $statements, undef, $server, $cluster) = @$_;

	$one->query('RESET search_path');
	like($one->query("$statements; SELECT pg_advisory_unlock_all()") =~ s/\s+\z//r,
		$server, "$what: works on one server");
	$one->query("SET $search_path");
	like($one->query($statements), $cluster, '... is refused across servers');
	$one->query('ROLLBACK; SELECT pg_advisory_unlock_all(); DROP MATERIALIZED VIEW IF EXISTS m');
}
$one->close;

my ($holder, $other) = map { ZkTest->new($node) } 1 .. 2;
$_->query("SET $search_path") for $holder, $other;
is($holder->query('SELECT pg_advisory_lock(1), pg_catalog.pg_advisory_lock(2)'),
	'|', 'both kinds of locks are held at once');
is($other->query('SELECT pg_try_advisory_lock(1), pg_catalog.pg_try_advisory_lock(1),
		pg_try_advisory_lock(2), pg_catalog.pg_try_advisory_lock(2)'),
	'f|t|t|f', '... and exclude nobody of the other kind');
$other->query('SELECT pg_advisory_unlock_all(); SELECT pg_catalog.pg_advisory_unlock_all()');

# The result of a lost lock is that of any other.
my $client = ZkClient->new($zk->hosts);
$holder->query('SET zklock.confirm_commit = always;
		SELECT pg_advisory_unlock_all(); BEGIN; SELECT pg_advisory_xact_lock(3)');
$client->delete("/pg_advisory/postgres/3/$_") for $client->children('/pg_advisory/postgres/3');
like($holder->query('COMMIT'), qr/^ERROR:  40001: lock on "\S+" was lost/,
	'a lost lock fails the commit');

# A deadlock
my @deadlocked = ($holder, $other);
$deadlocked[$_]->query("BEGIN; SELECT pg_advisory_xact_lock($_)") for 0, 1;
$deadlocked[$_]->start('SELECT pg_advisory_xact_lock(' . (1 - $_) . ')') for 0, 1;
my ($none, $error) = sort map { $_->result } @deadlocked;
is($none, '', 'of two sessions in a deadlock, one has its lock');
like($error, qr/^ERROR:  40P01: /, '... and the other fails');
$_->query('ROLLBACK') for @deadlocked;

# pg_advisory_unlock_all() releases no other locks.
$holder->query(q(SELECT pg_advisory_unlock_all(),
		zk_lock_acquire('/other'), zk_lock_acquire('/pg_advisory/postgres/9', mode => 'write'),
		zk_lock_acquire('/pg_advisory/postgres/08', mode => 'write'), zk_lock_acquire('/pg_advisory/postgres/8')));
my $try = 'SELECT pg_try_advisory_lock(9), pg_catalog.pg_try_advisory_lock(2)';
is($other->query($try), 'f|f', 'a lock at the path of a key is that advisory lock');
is($holder->query('SELECT pg_advisory_unlock_all()'), '', 'all advisory locks are released');
wait_until_released($zk, $other);
is($other->query($try), 't|f', '... with that one, but without those of one server');
is($holder->query(q(SELECT string_agg(path, ' ' ORDER BY path) FROM zk_locks
		WHERE pid = pg_backend_pid())),
	'/other /pg_advisory/postgres/08 /pg_advisory/postgres/8', '... and without other locks');
is($holder->query(q(SELECT objid FROM pg_locks
		WHERE locktype = 'advisory' AND pid = pg_backend_pid())),
	'2', '... which the view does not show');
$_->close for $holder, $other;

# Paths
sub path_of_key
{
	my ($database, %settings) = @_;
	my $set = join('', map { "SET $_ = '$settings{$_}';" } sort keys %settings);

	return sql(qq($set BEGIN;
			DO 'BEGIN PERFORM zk_advisory.pg_advisory_xact_lock(-5); END';
			SELECT path || ' ' || mode FROM zk_locks WHERE pid = pg_backend_pid()), $database);
}
for my $name ('a/b', 'Ä %é', 'leases', 'my-lock-7', '__READ__1', 'Ab_9-x', 'x' x 63)
{
	my $encoded = $name =~ /lease|lock-|READ/ ? join('', map { sprintf('%%%02X', ord) } split(//, $name)) :
	  $name =~ s/([^A-Za-z0-9_-])/sprintf('%%%02X', ord($1))/ger;

	sql(qq(CREATE DATABASE "$name" TEMPLATE template0));
	sql('CREATE EXTENSION zklock_advisory CASCADE', $name);
	is(path_of_key($name), "/pg_advisory/$encoded/-5 write", "path in the database $name");
}
is(path_of_key('postgres', 'zklock.path_prefix' => '/teams/one'),
	'/teams/one/pg_advisory/postgres/-5 write', 'path below zklock.path_prefix');
is(path_of_key('postgres', 'zklock.advisory_path' => '/shop/keys'),
	'/shop/keys/-5 write', 'path below zklock.advisory_path');
is(path_of_key('postgres', 'zklock.advisory_path' => '/keys', 'zklock.path_prefix' => '/shop'),
	'/shop/keys/-5 write', '... and below both');
my $c = ZkTest->new($node);
$c->query('BEGIN; SELECT zk_advisory.pg_advisory_xact_lock(1, -2)');
is($c->query(q(SET zklock.advisory_path = '/x'; SELECT zk_advisory.pg_advisory_xact_lock_shared(3, 4);
		RESET zklock.advisory_path; SET zklock.path_prefix = '/y';
		SELECT zk_advisory.pg_try_advisory_xact_lock(5);
		SELECT path, mode FROM zk_locks WHERE pid = pg_backend_pid() ORDER BY path)),
	"\nt\n/pg_advisory/postgres/1.-2|write\n/x/3.4|shared\n/y/pg_advisory/postgres/5|write",
	'a change of these settings takes effect at once');
is(sql(q(SELECT classid, objid FROM zk_advisory.pg_locks WHERE locktype = 'advisory'
		ORDER BY objsubid DESC, classid)),
	"1|4294967294\n3|4\n0|5", '... and the view shows all, by their keys');

# The longest path, with the longest key
my ($longest, $longer) = map { '/' . 'x' x $_ } 999, 1000;
is($c->query(qq(ROLLBACK; BEGIN; SET LOCAL zklock.advisory_path = '$longest';
		SELECT zk_advisory.pg_try_advisory_xact_lock(-2147483648, -2147483648),
			zk_advisory.pg_try_advisory_xact_lock(-9223372036854775808);
		SELECT max(length(path)) FROM zk_locks WHERE pid = pg_backend_pid();
		SELECT count(*) FROM zk_advisory.pg_locks WHERE locktype = 'advisory'; ROLLBACK)),
	"t|t\n1024\n2", 'a path of 1,000 bytes has room for each key');
my $too_long = qr/^ERROR:  22023: invalid value for parameter "zklock.advisory_path": .*^DETAIL:  With zklock.path_prefix, the path of advisory locks must not be longer than 1000 bytes/ms;
like($c->query("RESET zklock.path_prefix; $_"), $too_long, 'a longer one is refused: ' . s/\x2fx+/.../r)
  for "SET zklock.advisory_path = '$longer'",
  "SET zklock.path_prefix = '/y'; SET zklock.advisory_path = '$longest'",
  "ALTER DATABASE postgres SET zklock.advisory_path = '$longer'";
is($c->query("SET zklock.advisory_path = '$longest'; SET zklock.path_prefix = '/y';
		SELECT count(*) FROM zk_advisory.pg_locks WHERE locktype = 'advisory'"),
	'0', 'with a prefix that is set later, the view works');
like($c->query('SELECT zk_advisory.pg_advisory_lock(1)'),
	qr/^ERROR:  22023: invalid lock path .*^DETAIL:  The path is longer than 1024 bytes/ms,
	'... and a lock is refused');
is($c->query("RESET zklock.path_prefix; SELECT zk_advisory.pg_try_advisory_lock(1);
		SELECT zk_advisory.pg_advisory_unlock(1); RESET zklock.advisory_path"),
	"t\nt", '... until the prefix is gone');
like($c->query("SET zklock.advisory_path = 'x'"),
	qr/^ERROR:  22023: invalid value for parameter "zklock.advisory_path": "x"/,
	'a path that is none is refused');

# Locks that are held do not follow a change of the settings.
my %changes = (
	'zklock.advisory_locks' => [qw(cluster server)],
	'zklock.advisory_path' => [qw(/one /two)],
	'zklock.path_prefix' => [qw(/one /two)]);
my $held = q(SELECT count(*) FROM zk_advisory.pg_locks
	WHERE locktype = 'advisory' AND pid = pg_backend_pid());

for my $name (sort keys %changes)
{
	for my $values ($changes{$name}, [ reverse @{ $changes{$name} } ])
	{
		my ($before, $after) = @$values;
		my $s = ZkTest->new($node);

		$s->query("SET zklock.advisory_locks = 'cluster'; SET $name = '$before'");
		$s->query('SELECT pg_advisory_lock(1), pg_advisory_lock(2), pg_advisory_lock(2)');
		like($s->query("SET $name = '$after'; SELECT pg_advisory_unlock(1)"),
			qr/^WARNING:  \w+: you don't own a lock of type ExclusiveLock\n(?:LOCATION:.*\n)?f$/,
			"$name, $before to $after: a lock from before is not found");
		is($s->query("SELECT pg_advisory_unlock_all(); $held"), "\n2", '... nor by pg_advisory_unlock_all()');
		is($s->query("SET $name = '$before'; SELECT pg_advisory_unlock(1); $held"), "t\n1",
			'... unless the setting is back');
		is($s->query("SET $name = '$after'; DISCARD ALL; $held"), '0', 'DISCARD ALL releases all');
		$s->close;
	}
}

# A dump has the extensions, and not their objects.
my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump.sql";
$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'the database can be dumped');
sql('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'restored' ],
	'... and restored');
is(sql('SELECT zk_advisory.pg_try_advisory_lock(77)', 'restored'), 't', '... with the functions');
is(sql(q(DROP EXTENSION zklock_advisory; SELECT to_regnamespace('zk_advisory') IS NULL), 'restored'),
	't', 'the extension is dropped with its schema');

# Without ZooKeeper. A call fails in time, and no lock is taken on this server instead.
my ($cut_off, @short) = with_settings($node, 'zklock.hosts' => $zk->hosts,
	'zklock.session_timeout' => '2s', 'zklock.connect_timeout' => '5s');
$cut_off->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS zklock_advisory');
my $waiter = ZkTest->new($cut_off, @short);
my $set = q(SET zklock.advisory_locks = 'cluster');
is($c->query("$set; SELECT pg_try_advisory_lock(4)"), 't', 'a lock is taken');
$waiter->start("$set; SELECT pg_advisory_lock(4)");
wait_for_queue($zk, '/pg_advisory/postgres/4', $c, $waiter);
$zk->stop;
like($waiter->result, qr/^ERROR:  08006: /, 'a wait fails when ZooKeeper is away');
$waiter->query(q(SET zklock.connect_timeout = '1s'));
like($waiter->query($_), qr/^ERROR:  08001: /, "... and so does $_")
  for 'SELECT pg_try_advisory_lock(5)', 'SELECT pg_advisory_xact_lock(6)';
is($cut_off->safe_psql('postgres', q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')),
	'0', '... without a lock of this server');
$_->close for $waiter, $c;

done_testing();
