# A standby that takes a lock reads what earlier holders have committed on the primary, if it
# catches up, and old data otherwise; so does each function that takes one, if it is told to. How
# a wait for replay ends: in time or not, with an error if it cannot end, and with a promotion.
# Copies of the primary do not answer for it.
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
$writer->query(q(CREATE EXTENSION zklock_advisory; SELECT zk_shared_count_set('/count', 2)));
my $standby = new_standby('standby', $primary, recovery_min_apply_delay => '200ms');
my $reader = ZkTest->new($standby);

# Takes the lock on the primary and commits; returns what the next holder reads on the standby.
sub read_next
{
	my ($session, $catch_up, $guard) = @_;

	$writer->query(q(BEGIN; SELECT zk_lock_guard('/stock'); UPDATE stock SET n = n + 1; COMMIT));
	wait_for_queue($zk, '/stock');
	$session->query('BEGIN');
	$session->query($guard // q(SELECT zk_lock_guard('/stock')));
	$session->query($catch_up) if $catch_up;
	my $seen = $session->query('SELECT n FROM stock');
	$session->query('COMMIT');
	return $seen;
}

# All calls that take locks, what zklock.advisory_locks is then, and how many locks it are
my @calls = (
	[ q(SELECT zk_lock_guard('/stock')) ],
	[ q(CALL zk_lock_wait('/stock', scope => 'session')) ],
	[ q(SELECT zk_lock_acquire('/stock', scope => 'transaction')) ],
	[ q(SELECT zk_lock_acquire('/stock', scope => 'session')) ],
	[ q(SELECT zk_lock_acquire('/stock', '0', 'shared')) ],
	[ q(SELECT zk_lock_acquire('/stock', '1min', 'write')) ],
	[ q(SELECT zk_lock_acquire('/simple', mode => 'simple')) ],
	[ q(SELECT zk_lock_acquire_all('{/one,/two}', scope => 'session')), 'server', 2 ],
	[ q(SELECT zk_semaphore_acquire('/semaphore', 2)) ],
	[ q(SELECT zk_semaphore_acquire_counted('/counted', '/count', scope => 'transaction')) ],
	(map { [ 'SELECT pg_advisory_lock(1)', $_ ], [ 'SELECT pg_try_advisory_xact_lock_shared(1)', $_ ],
		[ 'SELECT pg_try_advisory_lock(1, 2)', $_ ] } qw(cluster both)));

# Returns how often these statements have asked the primary.
sub asks
{
	my ($session, $sql) = @_;
	my $count = q(SELECT catch_ups + failures FROM zk_sources);
	my $before = $session->query($count);
	my $answer = $session->query($sql);

	return $answer =~ /^ERROR/m ? $answer : $session->query($count) - $before;
}

# Returns how many locks a session has, in ZooKeeper and of PostgreSQL.
sub locks_of
{
	my ($session) = @_;

	return $reader->query(sprintf(q(SELECT
		(SELECT count(*) FROM zk_locks WHERE pid = %1$d) +
		(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %1$d)), $session->pid));
}

# Replay is paused, and the last wait for it was successful, so that a lock is waited for.
sub pause_replay
{
	is($reader->query('SELECT zk_caught_up()'), 't', 'the standby has caught up');
	$reader->query('SELECT pg_wal_replay_pause()');
	return;
}

# The last wait for replay was successful, and the next one has to wait for an hour.
sub delay_replay
{
	my ($session) = @_;

	change_setting($standby, 'recovery_min_apply_delay', 0, $reader);
	is($reader->query('SELECT zk_caught_up()'), 't', 'the standby has caught up');
	change_setting($standby, 'recovery_min_apply_delay', '1h', $reader, $session);
	wait_until('replay is delayed', sub {
		$writer->query('UPDATE stock SET n = n + 1');
		return $reader->query(q(SELECT wait_event FROM pg_stat_activity
			WHERE backend_type = 'startup')) eq 'RecoveryApplyDelay';
	});
	return;
}

sub resume_replay
{
	$reader->query('SELECT pg_wal_replay_resume()');
	return;
}

# With the setting "all"
sub check_call
{
	my ($session, $call, $advisory, $n) = @_;
	my $what = "$call, with $advisory";

	$session->query("SET zklock.advisory_locks = '$advisory'");
	is(read_next($session, undef, $call), $writer->query('SELECT n FROM stock'), "$what: fresh");
	$session->query('SELECT zk_lock_release_all()');
	is( join(' ', map { asks($session, $_) }
			"BEGIN; SET LOCAL zklock.catch_up = 'off'; $call",
			"SET LOCAL zklock.catch_up = 'all'; $call", $call, 'COMMIT; SELECT zk_lock_release_all()'),
		'0 1 0 0', '... it asks once for a lock, and if it has not, when that is taken again');

	my $granted = 'SELECT immediate + contended FROM zk_lock_stats';
	my $before = $session->query($granted);
	pause_replay();
	$session->query('BEGIN; SAVEPOINT s');
	like($session->query($call), qr/^ERROR:  55000: replay is paused$/m, '... it fails');
	$session->query('ROLLBACK TO s');
	is(locks_of($session), 0, '... gives back what it has taken');
	$session->query('ROLLBACK');
	is($session->query($granted) - $before, $n, "... of $n");
	resume_replay();
	return;
}

wait_until('the standby has the table',
	sub { ZkTest->new($standby)->query('SELECT n FROM stock') eq '0' });
for my $mode (qw(server backend))
{
	my $session = ZkTest->new($standby, 'zklock.session_mode' => $mode);
	my $before = $writer->query('SELECT n FROM stock');
	my (@stale, @fresh);

	pause_replay();
	push @stale, read_next($session) for 1 .. ROUNDS;
	resume_replay();
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

	$session->query(q(SELECT zk_lock_release_all(); SET zklock.catch_up = 'all'));
	check_call($session, $_->[0], $_->[1] // 'server', $_->[2] // 1) for @calls;
	$session->close;
}

# A node that is kept, handed over or shared on this server: each grant asks.
change_setting($standby, "zklock.$_", '1min', $reader) for qw(handover_time keep_time);
my %all = ('zklock.session_mode' => 'server', 'zklock.catch_up' => 'all');
my ($first, $next) = map { ZkTest->new($standby, %all) } 1, 2;
for my $case ([ kept => 'exclusive', '0|1' ], [ handed => 'exclusive', '1|0' ], [ joined => 'shared', '1|0' ])
{
	my ($what, $mode, $expected) = @$case;
	my $take = "BEGIN; SELECT zk_lock_acquire('/$what', mode => '$mode', scope => 'transaction')";
	my $grants = 'SELECT handovers, kept_grants FROM zk_lock_stats';

	if ($what eq 'kept')
	{
		wait_until('it is kept', sub {
			$first->query("$take; COMMIT");
			return $reader->query('SELECT kept FROM zk_server_state()') eq '1';
		});
	}
	else
	{
		is($first->query($take), 't', "$what: the first one");
	}
	my @before = split(/\|/, $reader->query($grants));
	my $wrote = $writer->query('UPDATE stock SET n = n + 1 RETURNING n');
	$next->start($take);
	if ($what eq 'handed')
	{
		$next->wait_for_lock;
		$first->query('COMMIT');
	}
	is($next->result, 't', "$what: the next one");
	is($next->query('SELECT n FROM stock'), $wrote, '... reads what is new');
	my @after = split(/\|/, $reader->query($grants));
	is(join('|', map { $after[$_] - $before[$_] } 0, 1), $expected, "... under a lock that is $what");
	$_->query('ROLLBACK') for $first, $next;
}
change_setting($standby, 'zklock.keep_time', 0, $reader);

# A downgrade is not asked for: nobody else was there meanwhile.
is( join(' ', map { asks($first, "SELECT zk_lock_acquire('/downgrade', mode => '$_')") } qw(exclusive shared)),
	'1 0', 'a downgrade');
$first->query('SELECT zk_lock_release_all()');
is(asks($first, q(SELECT zk_lock_acquire_all('{}'))), 0, 'no lock at all');

# The snapshot of a transaction that is REPEATABLE READ does not change, but that of later ones.
is($first->query(q(BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT zk_lock_acquire('/old', scope => 'session'))),
	't', 'a lock of session scope at REPEATABLE READ');
like($first->query(q(SELECT zk_lock_acquire('/new', scope => 'transaction'))),
	qr/^ERROR:  25001: cannot catch up for a transaction whose snapshot is older$/m, '... one of transaction scope');
$first->query('ROLLBACK; SELECT zk_lock_release_all()');

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

# So does a lock that catches up. It is not waited for before the standby has caught up if replay
# is delayed for longer than it may last, or after a wait that has failed.
my %waits = (
	guard => [ q(SELECT zk_lock_guard('/stock')), q(CALL zk_lock_wait('/stock', scope => 'session')) ],
	all => [ q(SELECT zk_lock_acquire('/stock')), 'SELECT pg_advisory_lock(1)' ]);
$writer->query(q(SELECT zk_lock_acquire('/stock'); SET zklock.advisory_locks = 'both'; SELECT pg_advisory_lock(1)));
my $replay = $reader->query(q(SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'));
for my $value (sort keys %waits)
{
	for my $lock (@{ $waits{$value} })
	{
		my $waiting = ZkTest->new($standby, 'zklock.advisory_locks' => 'both',
			'zklock.catch_up' => $value, 'zklock.catch_up_timeout' => '100ms');

		delay_replay($waiting);
		like($waiting->query($lock), qr/^ERROR:  55P03: could not catch up in time$/m,
			"$lock does not wait for another holder if replay is delayed");
		change_setting($standby, 'recovery_min_apply_delay', 0, $reader, $waiting);
		is($reader->query('SELECT zk_caught_up()'), 't', 'the standby has caught up');
		kill('STOP', $replay);
		$writer->query('UPDATE stock SET n = n + 1');
		is($reader->query(q(SELECT zk_caught_up('100ms'))), 'f', 'a wait that fails');
		like($waiting->query($lock), qr/^ERROR:  55P03: could not catch up in time$/m,
			"$lock does not wait for another holder after that");
		kill('CONT', $replay);
		$waiting->close;
	}
}
$writer->query('SELECT zk_lock_release_all(); RESET zklock.advisory_locks');

# A lock that catches up can be cancelled, and is given back.
$first->query(q(SET zklock.catch_up_timeout = '2h'));
for my $case (grep { $_->[0] =~ /session|(?:try_)?advisory_lock/ } @calls)
{
	my ($call, $advisory, $n) = @$case;

	$first->query("SET zklock.advisory_locks = '${\ ($advisory // 'server') }'");
	delay_replay($first);
	$first->start($call);
	wait_until('it has its locks', sub {
		$reader->query("SELECT count(*) FROM zk_locks WHERE granted AND pid = ${\ $first->pid}") eq ($n // 1);
	});
	kill('INT', $first->pid);
	like($first->result, qr/^ERROR:  57014/m, "$call, cancelled");
	is(locks_of($first), 0, '... gives back what it has taken');
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
