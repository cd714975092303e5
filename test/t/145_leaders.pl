# A server that leads: the functions, what they refuse, what other clients see of it, and each
# end of a term on purpose, with a commit that is under way.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

use constant PATH => '/leaders/cron';

my $zk = ZkServer->new(tick_time => 200)->start;
my %conf = (
	shared_preload_libraries => 'zklock',
	'zklock.leaders' => PATH . ', /leaders/mail',
	'zklock.session_timeout' => '4s',
	max_wal_senders => 1,
	max_prepared_transactions => 2,
	wal_level => 'replica',
	synchronous_commit => 'local');
my $main = new_node('main', $zk->hosts, %conf, synchronous_standby_names => 'nobody');
my ($one, $two, $observer) = map { ZkTest->new($main) } 1 .. 3;
my $lost = qr{^ERROR:  40001: lock on "/leaders/cron" was lost$}m;
my $ended = qr/^DETAIL:  The term in which this server led there has ended\.$/m;
my $not_leading = qr{^ERROR:  55000: this server does not lead "/leaders/cron"$}m;

sub state_of
{
	my ($session, $path) = @_;

	return $session->query(sprintf(q(SELECT state FROM zk_leaders WHERE path = '%s'), $path // PATH));
}

sub wait_for_state
{
	my ($session, $state, $path) = @_;

	return wait_until("the state is $state", sub { state_of($session, $path) eq $state });
}

# Begins a transaction with a guard.  Returns its token.
sub guard
{
	my ($session, $path) = @_;

	return $session->query(sprintf(q(BEGIN; SELECT zk_leader_guard('%s')), $path // PATH));
}

$observer->query('CREATE TABLE done (n int)');
wait_for_state($observer, 'leads');
is($observer->query(q(SELECT zk_leads('/leaders/cron'), zk_leads('/leaders/other'))), 't|f',
	'the server leads at a path of the setting only');
is($observer->query('SELECT count(*) FROM zk_leaders WHERE token > 0 AND since <= now()'), 2,
	'... as the view shows');
is($observer->query(q(SELECT state, mode, port = current_setting('port')::int
	FROM zk_lock_queue('/leaders/cron'))), 'holder|exclusive|t', '... and the queue');
my ($node) = $zk->children(PATH);
like($zk->get(PATH . "/$node")->{data}, qr/^host=\S+ port=\d+ leader=t$/, '... and the node');
is($observer->query(q(SELECT a.backend_type, l.granted FROM zk_locks l
	JOIN pg_stat_activity a USING (pid) WHERE path = '/leaders/cron')), 'zklock worker|t',
	'... and it holds a lock');

# Guards

my $token = guard($one);
is($token, $observer->query(q(SELECT token FROM zk_leaders WHERE path = '/leaders/cron')),
	'a guard returns the token of the term');
is(guard($two), $token, '... to transactions at the same time');
is($one->query(q(SELECT zk_leader_guard('/leaders/cron'))), $token, '... and again');
is($one->query(q(SELECT zk_lock_fence('/leaders/cron'))), $token, '... which the fence records');
is($one->query('INSERT INTO done VALUES (1)') . $one->query('COMMIT'), '', '... and it commits');
guard($one);
my $fences = 'SELECT xmin, ctid FROM zk_lock_fences';
my $row = $observer->query($fences);
is($_->query(q(SELECT zk_lock_fence('/leaders/cron'))), $token, '... and others at the same time')
	for $one, $two;
is($_->query('COMMIT'), '', '... which commit, too') for $one, $two;
is($observer->query($fences), $row, '... and write no row');
is($one->query(q(BEGIN; SELECT zk_lock_fence('/leaders/cron'))) =~ s/\n.*//sr,
	'ERROR:  55000: no exclusive lock on "/leaders/cron" is held', 'no fence without a guard');
like($one->query('ROLLBACK; ' . q(BEGIN ISOLATION LEVEL REPEATABLE READ;
	SELECT zk_leader_guard('/leaders/cron'))), qr/^ERROR:  25001: zk_leader_guard\(\) cannot guard/m,
	'... nor a guard with an old snapshot');
like($one->query('ROLLBACK; ' . q(BEGIN; SELECT zk_leader_guard('/leaders/cron');
	PREPARE TRANSACTION 'p')), qr/^ERROR:  0A000: cannot PREPARE/m, '... nor of a prepared transaction');
like($one->query(q(SELECT zk_leader_guard('/leaders/other'))),
	qr{^ERROR:  55000: this server does not lead "/leaders/other"\nDETAIL:  The path is not in}m,
	'... nor at another path');
like($one->query('SET ROLE pg_monitor; ' . q(SELECT zk_leader_resign('/leaders/cron'))),
	qr/^ERROR:  42501: permission denied for function zk_leader_resign/m, 'others cannot resign');
$one->query('RESET ROLE');

# What would take a lock

$one->query('CREATE EXTENSION zklock_advisory');
for my $call (
	q(zk_lock_acquire('/leaders/cron')), q(zk_lock_acquire('/leaders/cron', '0')),
	q(zk_lock_acquire('/leaders/cron', mode => 'shared')),
	q(zk_lock_acquire('/leaders/cron', mode => 'simple')),
	q(zk_lock_acquire_all('{/free,/leaders/cron}')), q(zk_lock_guard('/leaders/cron')),
	q(zk_semaphore_acquire('/leaders/cron', 2)))
{
	like($one->query("SELECT $call"),
		qr{^ERROR:  55000: cannot take a lock on "/leaders/cron" on this server$}m, "$call");
}
like($one->query(q(CALL zk_lock_wait('/leaders/cron'))), qr/^ERROR:  55000: cannot take/m, 'a wait');
is($one->query(q(SELECT zk_lock_held('/leaders/cron'), count(*) FROM zk_lock_queue('/leaders/cron'))),
	'f|1', 'what only reads works');
is($one->query(q(SELECT zk_lock_acquire('/free'), zk_lock_release('/free'))), 't|t',
	'... and other paths');
change_setting($main, 'zklock.leaders', PATH . ', /leaders/mail, /semaphore/locks, /pg_advisory/postgres/7',
	$one, $observer);
like($one->query(q(SELECT zk_semaphore_acquire('/semaphore', 2))), qr/^ERROR:  55000: cannot take/m,
	'the mutex of a semaphore');
like($one->query(q(SET zklock.advisory_locks = 'cluster'; SELECT pg_advisory_lock(7))),
	qr/^ERROR:  55000: cannot take/m, '... and the key of an advisory lock');
$one->query('RESET zklock.advisory_locks');

# Another server waits behind, and each end of the term on purpose is its beginning there.

my $other = new_node('other', $zk->hosts, %conf, 'zklock.leaders' => PATH);
my $there = ZkTest->new($other);
wait_for_state($there, 'waits');
is($there->query(q(SELECT (SELECT count(*) FROM zk_locks), (SELECT count(*) FROM zk_lock_blockers))), '0|0',
	'to stand behind another server is no wait for a lock');
is($there->query(q(SELECT zk_leads('/leaders/cron'))), 'f', 'another server does not lead');
like(guard($there), $not_leading, '... which guards nothing');
$there->query('ROLLBACK');

# Begins a commit that waits for its standby.
sub begin_late
{
	my $late = ZkTest->new($main, synchronous_commit => 'on');

	guard($late);
	$late->query('INSERT INTO done VALUES (2)');
	$late->start('COMMIT');
	$late->wait_for_event('SyncRep');
	return $late;
}

sub end_late
{
	my ($late) = @_;

	$main->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $late->pid})");
	unlike($late->result, qr/ERROR/, '... and the commit that was under way is done');
	$late->close;
	return;
}

# The other server leads, and gives that back.
sub lead
{
	wait_for_state($there, 'leads');
	wait_for_state($observer, 'waits');
	$there->query(q(SELECT zk_leader_resign('/leaders/cron')));
	wait_for_state($observer, 'leads');
	wait_for_state($there, 'waits');
	return;
}

# Has the server end its term with $end, and begin another one after $again.
sub check_end
{
	my ($what, $end, $again) = @_;
	my $late = begin_late();
	my $running = ZkTest->new($main);
	my $idle = ZkTest->new($main);

	guard($running);
	$running->start('SELECT pg_sleep(1000)');
	guard($idle);
	$end->();
	like($running->result, $lost, "$what: a running statement is cancelled");
	like($running->result, $ended, '... with the reason');
	like($idle->query('INSERT INTO done VALUES (3)'), $lost, '... a later one does not begin');
	$idle->query('ROLLBACK');
	is(state_of($observer), 'ends', '... the server waits for a commit that was under way');
	is(state_of($there) . $there->query(q(SELECT zk_leads('/leaders/cron'))), 'waitsf',
		'... and no other server leads');
	like($observer->query(q(SELECT zk_leader_guard('/leaders/cron'))), $not_leading,
		'... nor does it guard anything');
	end_late($late);
	wait_for_state($there, 'leads');
	is($observer->query('SELECT count(*) FROM done WHERE n = 3'), 0, "$what: another server leads");
	$again->();
	lead();
	$_->close for $running, $idle;
	return;
}

check_end('resigned', sub { $two->start(q(SELECT zk_leader_resign('/leaders/cron'))) }, sub {
	is($two->result, 't', '... which who has asked for is told then');
});
is($there->query(q(SELECT zk_leader_resign('/leaders/cron'))), 'f', 'who does not lead cannot resign');
check_end('the setting', sub { change_setting($main, 'zklock.leaders', '/leaders/mail', $observer) },
	sub { change_setting($main, 'zklock.leaders', PATH . ', /leaders/mail', $observer) });
check_end('other hosts',
	sub { change_setting($main, 'zklock.hosts', $zk->hosts . ',' . $zk->hosts, $observer) },
	sub { });

my $worker = worker_of($main);
check_end('a worker that is terminated', sub { kill('TERM', $worker) },
	sub { isnt(wait_for_other_worker($main, $worker), $worker, '... by another worker') });

# The guard of a commit is checked, not only that of a statement.

guard($one);
$one->query('INSERT INTO done VALUES (4)');
$observer->query(q(SELECT zk_leader_resign('/leaders/cron')));
like($one->query('COMMIT'), $lost, 'a commit after the end of the term fails');
lead();
guard($one);
$observer->query(q(SELECT zk_leader_resign('/leaders/cron')));
lead();
like($one->query('COMMIT'), $lost, '... also if the server leads again');

# A guard in a subtransaction, in a procedure, and beside a lock of the backend's

guard($one, '/leaders/mail');
$one->query(q(SAVEPOINT s; SELECT zk_leader_guard('/leaders/cron'); ROLLBACK TO s));
is($one->query(q(SELECT zk_lock_guard('/beside') > 0)), 't', 'a lock beside a guard');
is($one->query('COMMIT'), '', '... with one of a subtransaction');
is($one->query(q(DO $$ BEGIN
	FOR i IN 1 .. 3 LOOP
		PERFORM zk_leader_guard('/leaders/cron');
		INSERT INTO done VALUES (5);
		COMMIT;
	END LOOP; END $$; SELECT count(*) FROM done WHERE n = 5)), 3, 'a procedure commits with guards');
like($one->query(q(DO $$ BEGIN
	PERFORM zk_leader_guard('/leaders/cron');
	PERFORM zk_leader_resign('/leaders/cron');
	EXCEPTION WHEN OTHERS THEN NULL; END $$)), $lost,
	'who resigns loses its own guard, whatever it catches');

# A node that is deleted by hand

lead();
guard($one);
($node) = sort { substr($a, -10) <=> substr($b, -10) } $zk->children(PATH);
$one->start('SELECT pg_sleep(1000)');
$zk->delete(PATH . "/$node");
like($one->result, $lost, 'a node that is deleted by hand ends the term');
lead();

# A commit that is to ask for the nodes does so.

$one->query(q(ROLLBACK; SET zklock.confirm_commit = 'always'));
guard($one);
is($one->query('COMMIT'), '', 'a commit asks for the node');
guard($one);
($node) = sort { substr($a, -10) <=> substr($b, -10) } $zk->children(PATH);
$zk->delete(PATH . "/$node");
like($one->query('COMMIT'), $lost, '... and fails without it');

# At SERIALIZABLE, fences of different locks do not conflict.

$_->query('ROLLBACK; RESET zklock.confirm_commit') for $one, $two;
$one->query(q(INSERT INTO zk_lock_fences VALUES ('/own/1', 1, 0, 0), ('/own/2', 1, 0, 0)));
$observer->query('ANALYZE zk_lock_fences');
my $n = 0;
for my $session ($one, $two)
{
	$n++;
	is($session->query(qq(BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT zk_fence('/own/$n', 1))), 1,
		'a fence at SERIALIZABLE');
}
is($_->query('COMMIT'), '', '... which commits') for $one, $two;

done_testing();
