# CALL zk_lock_wait() waits without a snapshot where it can: VACUUM and CREATE
# INDEX CONCURRENTLY do not wait for it, and what follows reads new data. Where
# it cannot, it waits with one. However the wait ends, the statement, its
# transaction and its procedure can continue as PostgreSQL expects.

use strict;
use warnings;

use Docs;
use Module;
use PgBouncer;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $library = build_module('portals');
my $node = new_node(
	'main', $zk->hosts,
	autovacuum => 'off',
	deadlock_timeout => '100ms',
	session_preload_libraries => $library,
	shared_preload_libraries => 'zklock',
	'zklock.default_scope' => 'transaction',
	max_wal_senders => 2,
	wal_level => 'replica');
my ($holder, $admin) = map { ZkTest->new($node) } 1 .. 2;
my $waiter = ZkTest->new($node);
my $wait = q(CALL zk_lock_wait('/w'));

# The query of the page that shows which waiters hold back VACUUM
my ($culprits) = code_blocks('docs/troubleshooting.md', 'sql');

$admin->query(qq(
	CREATE TABLE stock AS SELECT 10 AS n;
	CREATE TABLE seen (n int);
	CREATE TABLE fires (n int);
	CREATE FUNCTION in_portal(text) RETURNS void AS '$library' LANGUAGE C;
	CREATE FUNCTION waits() RETURNS int LANGUAGE plpgsql AS
		'BEGIN $wait; RETURN (SELECT n FROM stock); END';
	CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN $wait; RETURN NEW; END';
	CREATE TRIGGER fire BEFORE INSERT ON fires
		FOR EACH ROW EXECUTE FUNCTION fire();
	CREATE PROCEDURE reads() LANGUAGE plpgsql AS
		'BEGIN PERFORM n FROM stock; $wait; INSERT INTO seen SELECT n FROM stock; END';
	CREATE PROCEDURE calls() LANGUAGE plpgsql AS
		'BEGIN CALL reads(); PERFORM n FROM stock; END';
	CREATE PROCEDURE atomic() LANGUAGE plpgsql SET work_mem = '4MB' AS
		'BEGIN $wait; END') =~ s/'(BEGIN .*? END)'/\$\$$1\$\$/gsr);

sub has_snapshot
{
	my ($session) = @_;

	return $admin->query("SELECT backend_xmin IS NOT NULL FROM pg_stat_activity
		WHERE pid = ${\ $session->pid}") eq 't';
}

sub hold
{
	$holder->query(q(SELECT zk_lock_acquire('/w', scope => 'session')));
	return;
}

# Starts SQL, and waits until it waits for the lock of the holder.
sub block
{
	my ($session, $sql) = @_;

	hold();
	$session->start($sql);
	wait_for_queue($zk, '/w', $holder, $session);
	return;
}

sub release
{
	$holder->query('SELECT zk_lock_release_all()');
	return;
}

# Checks whether SQL waits with a snapshot, and that it then succeeds. (For a
# moment, a lookup in the catalogs can make any wait have one.)
sub waits_ok
{
	my ($what, $sql, $with, $session) = @_;

	$session //= $waiter;
	block($session, $sql);
	if ($with)
	{
		ok(has_snapshot($session), "$what: waits with a snapshot");
		like($admin->query($culprits), qr{^${\ $session->pid}\|/w\|t\|f\|}, '... and is found');
	}
	else
	{
		wait_until("$what: no snapshot", sub { !has_snapshot($session) });
		is($admin->query($culprits), '', "$what: waits without a snapshot");
	}
	release();
	unlike($session->result, qr/^(ERROR|WARNING|FATAL):/m, '... and ends');
	return;
}

waits_ok(@$_, 0)
  for [ 'at the top level', $wait ],
  [ 'between statements of one query', qq(SELECT 1\\; $wait\\; SELECT n FROM stock) ],
  [ 'in a transaction block', "BEGIN; SELECT n FROM stock; $wait; SELECT n FROM stock; COMMIT" ],
  [ 'after a savepoint',
	"BEGIN; SELECT 1; SAVEPOINT s; $wait; SELECT 1; ROLLBACK TO s; $wait; SELECT 1; COMMIT" ],
  [ 'in DO', "DO \$\$BEGIN PERFORM n FROM stock; $wait; PERFORM n FROM stock; END\$\$" ],
  [ 'in DO, with a commit',
	"DO \$\$BEGIN $wait; COMMIT; $wait; PERFORM n FROM stock; $wait; ROLLBACK; END\$\$" ],
  [ 'in a procedure', 'CALL reads()' ],
  [ 'in a procedure that is called by another', 'CALL calls()' ];

waits_ok(@$_, 1)
  for [ 'in SELECT of a function', q(SELECT zk_lock_acquire('/w')) ],
  [ 'in a function', 'SELECT waits()' ],
  [ 'in a trigger', 'INSERT INTO fires VALUES (1)' ],
  [ 'in an exception block', "DO \$\$BEGIN
		BEGIN $wait; PERFORM n FROM stock; EXCEPTION WHEN division_by_zero THEN END;
		PERFORM n FROM stock; END\$\$" ],
  [ 'in EXECUTE',
	"DO \$\$BEGIN EXECUTE 'CALL zk_lock_wait(\$1)' USING '/w'::text; PERFORM 1; END\$\$" ],
  [ 'with an open cursor',
	"BEGIN; DECLARE c CURSOR FOR SELECT n FROM stock; FETCH c; $wait; FETCH c; COMMIT" ],
  [ 'in a loop over rows', "DO \$\$DECLARE r record;
		BEGIN FOR r IN SELECT n FROM stock LOOP $wait; END LOOP; END\$\$" ],
  [ 'in a portal in a function', "SELECT in_portal(\$\$$wait\$\$), n FROM stock" ];

# Older minor releases, such as 16.2, give CALL no snapshot of its own where PL/pgSQL cannot
# commit. There, the wait drops that of the whole statement.
my %fixed = (13 => 16, 14 => 13, 15 => 8, 16 => 4);
my $version = $admin->query(q(SELECT current_setting('server_version_num')));
my $own = $version % 10_000 >= ($fixed{ int($version / 10_000) } // 0);

for (
	[ 'in a procedure with a setting', 'CALL atomic()' ],
	[ 'in DO in a transaction block', "BEGIN; DO \$\$BEGIN $wait; END\$\$; COMMIT" ])
{
	waits_ok(@$_, $own);
}

# VACUUM truncates a table without rows.
for my $case ([ $wait, 'can' ], [ q(SELECT zk_lock_acquire('/w')), 'cannot' ])
{
	my ($sql, $can) = @$case;

	$admin->query('DROP TABLE IF EXISTS dead;
		CREATE TABLE dead AS SELECT generate_series(1, 1000) AS n');
	block($waiter, "BEGIN; SELECT n FROM stock; $sql; COMMIT");
	wait_until('there is no snapshot', sub { !has_snapshot($waiter) }) if $can eq 'can';
	$admin->query('DELETE FROM dead; VACUUM dead');
	is($admin->query(q(SELECT pg_relation_size('dead') = 0)),
		$can eq 'can' ? 't' : 'f', "VACUUM $can remove rows during: $sql");
	release();
	$waiter->result;
}

# A transaction that has written has an xid, which holds back VACUUM, too.
$admin->query('CREATE TABLE written AS SELECT generate_series(1, 1000) AS n');
block($waiter, "BEGIN; INSERT INTO seen VALUES (0); $wait; COMMIT");
wait_until('there is no snapshot', sub { !has_snapshot($waiter) });
$admin->query('DELETE FROM written; VACUUM written');
is($admin->query(q(SELECT pg_relation_size('written') = 0)),
	'f', 'VACUUM cannot remove rows after the waiter has written');
like($admin->query($culprits), qr{^${\ $waiter->pid}\|/w\|f\|t\|}, '... and the waiter is found');
release();
$waiter->result;

# The holder of the lock makes an index.
my $index = 'CREATE INDEX CONCURRENTLY ON stock (n)';

sub waits_for_waiter_ok
{
	my ($what, $sql) = @_;

	block($waiter, $sql);
	$holder->start($index);
	like($waiter->result, qr/^ERROR:  40P01:/m, $what);
	$waiter->query('ROLLBACK');
	$holder->result;
	release();
	return;
}

block($waiter, "BEGIN; SELECT 1; $wait; COMMIT");
is($holder->query($index), '', "$index ends while CALL waits");
release();
$waiter->result;
waits_for_waiter_ok('... and would wait for ever for a SELECT', q(SELECT zk_lock_acquire('/w')));
waits_for_waiter_ok('... or for a CALL in a transaction that has written the table',
	"BEGIN; UPDATE stock SET n = n; $wait");

# What follows reads data that is newer than the grant.
sub reads_new_ok
{
	my ($what, $sql) = @_;

	block($waiter, "TRUNCATE seen; $sql");
	$holder->query('UPDATE stock SET n = n - 1');
	release();
	$waiter->result;
	is($waiter->query('SELECT n FROM seen'),
		$admin->query('SELECT n FROM stock'), "$what reads new data");
	return;
}

my $sees = 'INSERT INTO seen SELECT n FROM stock';

reads_new_ok(@$_)
  for [ 'a transaction', "BEGIN; SELECT n FROM stock; $wait; $sees; COMMIT" ],
  [ 'DO', "DO \$\$BEGIN PERFORM n FROM stock; $wait; $sees; END\$\$" ],
  [ 'an expression in DO',
	"DO \$\$DECLARE i int;
		BEGIN $wait; i := (SELECT n FROM stock); INSERT INTO seen VALUES (i); END\$\$" ],
  [ 'a procedure', 'CALL reads()' ],
  [ 'a function', 'INSERT INTO seen VALUES (waits())' ];

# How a wait can end: the statement before it, what ends it, and the error.
# After the error, the transaction, and a procedure that commits, are in order.
my $other = ZkTest->new($node);
my $signal = sub { $admin->query("SELECT pg_$_[0]_backend(${\ $waiter->pid})") };

sub is_in_order
{
	my ($what) = @_;

	release();
	is( $waiter->query("ROLLBACK TO s; RESET lock_timeout; RESET statement_timeout;
			SELECT n IS NOT NULL FROM stock; $wait; SELECT 2; COMMIT"),
		"t\n2", "$what: its transaction can continue");
	is( $waiter->query("DO \$\$BEGIN $wait; COMMIT; PERFORM n FROM stock; $wait; COMMIT;
			CALL zk_lock_wait('/w', scope => 'session'); COMMIT;
			PERFORM zk_lock_release('/w'); END\$\$"),
		'', '... and a procedure can commit');
	return;
}

for my $case (
	[ lock_timeout => q(SET lock_timeout = '200ms'),
		'55P03: canceling statement due to lock timeout' ],
	[ statement_timeout => q(SET statement_timeout = '200ms'),
		'57014: canceling statement due to statement timeout' ],
	[ 'a cancellation' => '', '57014: canceling statement due to user request',
		sub { $signal->('cancel') } ],
	[ 'its timeout' => '', '55P03: could not obtain lock on "/w" in time', undef, q(, '1s') ],
	[ 'a deadlock' => q(SELECT zk_lock_acquire('/d', scope => 'transaction')),
		'40P01: deadlock detected',
		sub { $holder->start(q(SET deadlock_timeout = '1h'; SELECT zk_lock_acquire('/d'))) } ])
{
	my ($what, $before, $error, $end, $timeout) = @$case;

	for my $where ('at the top level', 'in DO', 'in an exception block')
	{
		my $call = "CALL zk_lock_wait('/w'" . ($timeout // '') . ')';
		my $sql = $where eq 'at the top level' ? "BEGIN; SAVEPOINT s; $before; $call" :
			$where eq 'in DO' ? "$before; DO \$\$BEGIN PERFORM 1; $call; END\$\$; BEGIN; SAVEPOINT s" :
			"$before; DO \$\$BEGIN BEGIN PERFORM 1; $call; EXCEPTION WHEN others THEN
				RAISE NOTICE '%', sqlstate; END; PERFORM n FROM stock; END\$\$; BEGIN; SAVEPOINT s";

		next if $what eq 'a deadlock' && $where ne 'at the top level';
		if ($end)
		{
			block($waiter, $sql);
			$end->();
		}
		else
		{
			hold();
			$waiter->start($sql);
		}
		like($waiter->result,
			$where eq 'in an exception block' && $what !~ /cancel|statement/ ?
			  qr/^NOTICE:  00000: @{[ substr($error, 0, 5) ]}$/m : qr/^ERROR:  \Q$error\E/m,
			"$what ends a wait $where");
		is_in_order("$what $where");
		$holder->result if $what eq 'a deadlock';
	}
}

# The message is the same as that of the function.
block($other, $wait);
my @messages = map { $waiter->query($_) =~ s/process \d+|pid \d+|^LOCATION:.*//gmr }
  q(SELECT zk_lock_guard('/w', '1s')), q(CALL zk_lock_wait('/w', '1s'));
like($messages[0], qr/^ERROR:  55P03:/, 'zk_lock_guard() raises an error at its timeout');
is($messages[1], $messages[0], '... and zk_lock_wait() the same');
release();
$other->result;

# A lost session
my $loser = ZkTest->new($node, OWN_SESSION,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '3s');
for my $held ('', q(SELECT zk_lock_acquire('/held', scope => 'transaction');))
{
	block($loser, "BEGIN; $held $wait; SELECT n IS NOT NULL FROM stock; COMMIT");
	$proxy->hold;
	wait_for_queue($zk, '/w', $holder);
	$proxy->release;
	if ($held eq '')
	{
		wait_for_queue($zk, '/w', $holder, $loser);
		wait_until('no snapshot in the new session', sub { !has_snapshot($loser) });
		release();
		is($loser->result, 't', 'waiter begins again in a new session');
	}
	else
	{
		like($loser->result, qr/^ERROR:  40001:.*"\/held" was lost/m,
			'... unless it has lost a lock with its session');
		release();
		is($loser->query("$wait; SELECT n IS NOT NULL FROM stock"), 't', '... and continues then');
	}
}

# The check of a commit, after a lookup in the catalogs
$loser->query(q(SET zklock.confirm_commit = 'always'));
$holder->query(q(SELECT pg_advisory_lock(1)));
$loser->start(q(DO $$BEGIN
	PERFORM zk_lock_acquire('/commit');
	PERFORM pg_advisory_xact_lock(1);
	PERFORM to_regclass('pg_ts_parser');
	END$$));
wait_until('it waits for the advisory lock',
	sub {
		$admin->query("SELECT wait_event FROM pg_stat_activity
			WHERE pid = ${\ $loser->pid}") eq 'advisory';
	});
$proxy->hold;
$holder->query(q(SELECT pg_advisory_unlock(1)));
wait_until('a commit waits without a snapshot for a confirmation',
	sub {
		$admin->query("SELECT wait_event_type = 'Extension' AND backend_xmin IS NULL
			FROM pg_stat_activity WHERE pid = ${\ $loser->pid}") eq 't';
	});
ok(!$loser->is_done, 'a commit waits without a snapshot');
$proxy->release;
is($loser->result, '', '... and ends');

# Termination
block($waiter, "BEGIN; $wait");
$signal->('terminate');
like($waiter->result, qr/^FATAL:  57P01:/m, 'a termination ends a wait');
wait_for_queue($zk, '/w', $holder);
release();

# A pooler
SKIP:
{
	$ENV{PATH} .= ':/usr/sbin';
	skip 'there is no PgBouncer', 2 if !grep { -x "$_/pgbouncer" } split(/:/, $ENV{PATH});
	my $pool = PgBouncer->new($node, pool_mode => 'transaction');

	waits_ok('behind PgBouncer', "BEGIN; SELECT 1; $wait; SELECT n FROM stock; COMMIT",
		0, ZkTest->new($pool));
	$pool->stop;
}

# The standby replays at once what a waiter's snapshot would delay: it cancels
# the SELECT, and not the CALL.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
$standby->start;
$node->safe_psql('postgres', 'CREATE TABLE far AS SELECT generate_series(1, 1000) AS n');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
my ($held, $called, $selected) =
  map { ZkTest->new($standby, 'zklock.catch_up' => 'off') } 1 .. 3;
$held->query(q(SELECT zk_lock_acquire('/standby', scope => 'session')));
$called->start(q(BEGIN; SELECT 1; CALL zk_lock_wait('/standby'); SELECT count(*) FROM far; COMMIT));
$selected->start(q(SELECT zk_lock_acquire('/standby')));
for my $waits ($called, $selected)
{
	wait_until('it waits',
		sub {
			$held->query("SELECT node IS NOT NULL FROM zk_locks
				WHERE pid = ${\ $waits->pid} AND NOT granted") eq 't';
		});
}
$node->safe_psql('postgres', 'DELETE FROM far');
$node->safe_psql('postgres', 'VACUUM (TRUNCATE false) far');
like($selected->result, qr/^ERROR:  40001: canceling statement due to conflict with recovery/m,
	'standby cancels a SELECT that waits');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
ok(!$called->is_done, '... and not a CALL');
$held->query('SELECT zk_lock_release_all()');
is($called->result, "1\n0", '... which reads new data when it has the lock');
$_->close for $held, $called, $selected;
$standby->stop;

done_testing();
