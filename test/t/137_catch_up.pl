# A standby that takes a lock reads what earlier holders have committed on the primary, if it
# catches up, and old data otherwise. How a wait for replay ends: in time or not, with an
# error if it cannot end, and with a promotion. Copies of the primary do not answer for it.
#
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use Docs;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

use constant {
	ROUNDS => 10,
	PROMPT => 5, # s within which an error must come that does not depend on a timeout
};

my $zk = ZkServer->new(tick_time => 200)->start;
my $primary = new_primary(
	'primary', $zk->hosts,
	max_standby_streaming_delay => -1,
	max_standby_archive_delay => -1);

my $writer = ZkTest->new($primary);
$writer->query('CREATE TABLE stock AS SELECT 0 AS n; CREATE TABLE old AS SELECT 1 AS n');
my $standby = new_standby('standby', $primary, recovery_min_apply_delay => '200ms');
my $reader = ZkTest->new($standby);

# Takes the lock on the primary and commits; returns what the next holder reads on the standby.
sub read_next
{
	my ($session, $catch_up, $guard) = @_;

	$writer->query(q(BEGIN; SELECT zk_lock_guard('/stock'); UPDATE stock SET n = n + 1; COMMIT));
	$session->query('BEGIN');
	$session->query($guard // q(SELECT zk_lock_guard('/stock')));
	$session->query($catch_up) if $catch_up;
	my $seen = $session->query('SELECT n FROM stock');
	$session->query('COMMIT');
	return $seen;
}

wait_until('the standby has the table',
	sub { ZkTest->new($standby)->query('SELECT n FROM stock') eq '0' });
for my $mode (qw(server backend))
{
	my $session = ZkTest->new($standby, 'zklock.session_mode' => $mode);
	my $before = $writer->query('SELECT n FROM stock');
	my (@stale, @fresh);

	push @stale, read_next($session) for 1 .. ROUNDS;
	push @fresh, read_next($session, 'CALL zk_catch_up()') for 1 .. ROUNDS;
	push @fresh, read_next($session, 'SELECT zk_caught_up()') for 1 .. ROUNDS;
	cmp_ok($stale[-1], '<', $before + ROUNDS, "mode $mode: without, the last holder reads old data");
	is("@fresh", join(' ', $before + ROUNDS + 1 .. $before + 3 * ROUNDS),
		"mode $mode: with it, each reads what all have written");

	$session->query(q(SET zklock.catch_up = 'guard'));
	$before = $writer->query('SELECT n FROM stock');
	@fresh = map { read_next($session, undef, $_) } (
		q(SELECT zk_lock_guard('/stock')),
		q(SELECT zk_lock_guard('/stock', '0')),
		q(CALL zk_lock_wait('/stock', scope => 'transaction')),
		q(CALL zk_lock_wait('/stock', scope => 'session')));
	is("@fresh", join(' ', $before + 1 .. $before + 4), "mode $mode: the setting \"guard\" does it");
	is($session->query(q(SELECT mode || ' ' || session_holds || ' ' || transaction_holds FROM zk_locks)),
		'exclusive 1 0', '... and a lock of session scope is one then');

	# Nor before it is taken again, if somebody's wait has failed meanwhile. Before another lock,
	# only if that wait had time to succeed.
	for my $case ([ 'stock', '60ms', 0 ], [ 'other', '60ms', 2 ], [ 'other', '0', 1 ])
	{
		my ($lock, $time, $asked) = @$case;
		my $count = q(SELECT catch_ups + failures FROM zk_sources);

		wait_until('a wait fails', sub {
			$writer->query('INSERT INTO old VALUES (1)');
			return $reader->query("SELECT zk_caught_up('$time')") eq 'f';
		});
		my $before = $session->query($count);
		$session->query("BEGIN; SELECT zk_lock_guard('/$lock'); COMMIT");
		is($session->query($count) - $before, $asked,
			"... with $lock, after a wait of $time that has failed, it asks $asked times");
	}
	$session->close;
}

# The example of the page
my ($example) = code_blocks('docs/high-availability.md', 'sql');
$writer->query('ALTER TABLE stock ADD product int DEFAULT 42, ADD units int DEFAULT 7');
like($reader->query($example), qr/^7$/m, 'the example of the page');

# It waits for the end of the time, not longer.
change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('UPDATE stock SET n = n + 1');
is($reader->query(q(SELECT zk_caught_up('100ms'))), 'f', 'not in time: false');
like($reader->query(q(CALL zk_catch_up('100ms'))),
	qr/^ERROR:  55P03: could not catch up in time\nDETAIL:  Replay has reached .*, which is [1-9]\d* bytes further\./m,
	'... or an error that says by how much');
$reader->query(q(SET zklock.catch_up_timeout = '100ms'));
is($reader->query('SELECT zk_caught_up()'), 'f', '... also that of the setting');
$reader->query('RESET zklock.catch_up_timeout');

# So does a lock that catches up.  It is given back, and is not waited for after that.
my $guarding = ZkTest->new($standby,
	'zklock.catch_up' => 'guard', 'zklock.catch_up_timeout' => '100ms');
for my $lock (q(SELECT zk_lock_guard('/stock')), q(CALL zk_lock_wait('/stock', scope => 'session')))
{
	$guarding->query('BEGIN; SAVEPOINT s');
	like($guarding->query($lock), qr/^ERROR:  55P03: could not catch up in time$/m, "$lock, not in time");
	$guarding->query('ROLLBACK TO s');
	is($writer->query(q(SELECT zk_lock_acquire('/stock', '0', 'exclusive', 'session'))), 't', '... is given back');
	like($guarding->query($lock), qr/^ERROR:  55P03: could not catch up in time$/m,
		'... and does not wait for another holder before the standby has caught up');
	$guarding->query('ROLLBACK');
	$writer->query(q(SELECT zk_lock_release('/stock')));
}

# A wait can be cancelled.
$reader->start('SELECT zk_caught_up()');
$reader->wait_for_event('Extension');
kill('INT', $reader->pid);
like($reader->result, qr/^ERROR:  57014/m, 'a wait can be cancelled');

# Replay that is paused does not go on by itself.
$reader->query('SELECT pg_wal_replay_pause()');
my $begun = time();
like($reader->query('CALL zk_catch_up()'), qr/^ERROR:  55000: replay is paused$/m, 'replay is paused');
cmp_ok(time() - $begun, '<', PROMPT, '... which is told at once');
$reader->query('SELECT pg_wal_replay_resume()');
change_setting($standby, 'recovery_min_apply_delay', 0, $reader);
is($reader->query('SELECT zk_caught_up()'), 't', '... and goes on');

# Replay that waits for the transaction that waits for replay
my %conflicts = (
	'a snapshot' => {
		holds => [ 'BEGIN', 'DECLARE c CURSOR FOR SELECT n FROM stock', 'FETCH c' ],
		replays => [ 'DELETE FROM old', 'VACUUM old', 'INSERT INTO old VALUES (1)' ],
	},
	'a cursor' => {
		holds => [ 'BEGIN', 'DECLARE c CURSOR FOR SELECT n FROM old', 'FETCH c' ],
		replays => [ 'DELETE FROM old', 'VACUUM (FREEZE) old', 'INSERT INTO old VALUES (1)' ],
	},
	'a relation' => {
		holds => [ 'BEGIN', 'SELECT n FROM old' ],
		replays => ['TRUNCATE old', 'INSERT INTO old VALUES (1)' ],
	});
for my $what (sort keys %conflicts)
{
	for my $wait ('SELECT zk_caught_up()', 'CALL zk_catch_up()')
	{
		$reader->query($_) for @{ $conflicts{$what}{holds} };
		$writer->query($_) for @{ $conflicts{$what}{replays} };
		$begun = time();
		like($reader->query($wait),
			qr/^ERROR:  40001: canceling the wait for replay, which waits for this transaction$/m,
			"$wait: replay that waits for $what");
		cmp_ok(time() - $begun, '<', PROMPT, '... is an error at once');
		$reader->query('ROLLBACK');
		is($reader->query('SELECT zk_caught_up()'), 't', '... then it goes on');
	}
}

# A transaction whose snapshot does not change would read old data all the same.
$reader->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
like($reader->query($_), qr/^ERROR:  25001/m, "$_ at REPEATABLE READ")
  for 'CALL zk_catch_up()', 'ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT zk_caught_up()';
$reader->query('ROLLBACK');

# CALL has no snapshot while it waits.
change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('UPDATE stock SET n = n + 1');
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
my $other = ZkTest->new($standby);
is($other->query("SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE pid = ${\ $reader->pid}"),
	't', 'CALL waits without a snapshot');
change_setting($standby, 'recovery_min_apply_delay', 0, $other);
is($reader->result, '', '... and returns');

# A session that guards a transaction is warned once, and not the log.
my $careless = ZkTest->new($standby, 'zklock.catch_up' => 'warn');
my $guard = q(SELECT zk_lock_guard('/careless') > 0);
my $logged = -s $standby->logfile;
like($careless->query($guard), qr/^WARNING:  01000: the lock is held, but this standby/m, 'a warning');
is($careless->query($guard), 't', '... once');
unlike(slurp_file($standby->logfile, $logged), qr/this standby may not show/, '... not in the log');
my $careful = ZkTest->new($standby, 'zklock.catch_up' => 'warn');
$careful->query('CALL zk_catch_up()');
is($careful->query($guard), 't', 'none after zk_catch_up()');
is(ZkTest->new($primary, 'zklock.catch_up' => 'warn')->query($guard), 't', 'none on the primary');
like($careful->query(q(SET zklock.catch_up = 'all')), qr/^ERROR:  0A000/m, 'not with each lock yet');

# On a server that is not in recovery it does nothing.
is($writer->query('CALL zk_catch_up()'), '', 'nothing to do on the primary');
is($writer->query('SELECT zk_caught_up()'), 't', '... for the function, too');

# Copies of the primary are no primary, whether they are ahead or behind.
my $copy = new_standby('copy', $primary);
$primary->wait_for_catchup($copy, 'replay', $primary->lsn('insert'));
$copy->promote;
my $in_copy = ZkTest->new($copy);
my $more = 'INSERT INTO old SELECT generate_series(1, 10000)';    # 600 kB of WAL
$writer->query($more);
is($reader->query('SELECT zk_caught_up()'), 't', 'with a copy that was promoted');
change_setting($primary, 'zklock.answer_positions', 'off', $writer);
like($reader->query(q(CALL zk_catch_up())),
	qr/^ERROR:  55000: the server whose WAL is replayed here does not answer$/m,
	'a copy does not answer for the primary');
$in_copy->query($more) for 1 .. 5;
is($reader->query(q(SELECT zk_caught_up('1s'))), 'f', '... nor one that is ahead');
change_setting($primary, 'zklock.answer_positions', 'on', $writer);
wait_until('the primary answers again',
	sub { $reader->query(q(SELECT zk_caught_up())) eq 't' });
pass('the primary answers beside it');
$copy->stop;
change_setting($primary, 'zklock.answer_positions', 'off', $writer);
wait_until(
	'nobody answers',
	sub {
		$reader->query('CALL zk_catch_up()') =~
		  /^ERROR:  55000: the server whose WAL is replayed here does not answer\nDETAIL:  In ZooKeeper, no server/m;
	});
pass('nobody answers: an error at once');
change_setting($primary, 'zklock.answer_positions', 'on', $writer);

# A cascade: a standby of a standby asks the primary.
my $second = new_standby('second', $standby);
$writer->query('UPDATE stock SET n = n + 1');
my $on_second = ZkTest->new($second);
wait_until('the primary answers', sub { $on_second->query('SELECT zk_caught_up()') eq 't' });
is($on_second->query('SELECT n FROM stock'), $writer->query('SELECT n FROM stock'), 'a cascade');

# Without the library in the postmaster, nobody asks.
my $plain = new_standby('plain', $primary, shared_preload_libraries => '');
like(ZkTest->new($plain)->query('CALL zk_catch_up()'),
	qr/^ERROR:  55000: zklock cannot ask the primary$/m, 'not preloaded');

# ZooKeeper is down.
$zk->stop;
like($reader->query(q(CALL zk_catch_up('3s'))),
	qr/^ERROR:  08001: could not connect to ZooKeeper$/m, 'without ZooKeeper');
$zk->start;
wait_until('the primary answers after an outage',
	sub { $reader->query(q(SELECT zk_caught_up())) eq 't' });
pass('ZooKeeper is back');

# A promotion ends the wait.
change_setting($standby, 'recovery_min_apply_delay', '1h', $reader);
$writer->query('UPDATE stock SET n = n + 1');
$reader->start('CALL zk_catch_up()');
$reader->wait_for_event('Extension');
$standby->promote;
is($reader->result, '', 'a promotion ends the wait');

# The former primary's answers are not those of the new one, which answers.
$on_second->close;
$on_second = ZkTest->new($second);
ZkTest->new($standby)->query('UPDATE stock SET n = -1');
wait_until('the promoted server answers',
	sub { $on_second->query('SELECT zk_caught_up()') eq 't' });
is($on_second->query('SELECT n FROM stock'), '-1', '... and its standby shows its data');

done_testing();
