# zk_locks and zk_lock_stats: what a backend sees of other backends, with the
# library preloaded and without.

use strict;
use warnings;

use FindBin;
use List::Util qw(uniq);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant ROOM => 16;

my $zk = ZkServer->new(tick_time => 200)->start;
my %preload = (shared_preload_libraries => 'zklock');
my $node = new_node(
	'main', $zk->hosts, %preload,
	restart_after_crash => 'on',
	'zklock.max_locks' => ROOM);
my $other = new_node('other', $zk->hosts, OWN_SESSION);
my $observer = ZkTest->new($node);

# Holder and waiter have their own sessions, or share the server's session.
my $sessions = server_mode() ? 1 : 2;

my $columns = q(path, mode, granted, session_holds, transaction_holds,
	token IS NOT NULL, node LIKE '%-%', waitstart IS NOT NULL, lost);

# Returns the rows of a session in zk_locks.
sub locks_of
{
	my ($session, $viewer) = @_;

	return ($viewer // $observer)->query(
		"SELECT $columns FROM zk_locks WHERE pid = ${\ $session->pid}
		 ORDER BY path");
}

sub stats
{
	my ($viewer) = @_;

	return ($viewer // $observer)->query(
		q(SELECT acquires, immediate, contended, timeouts, cancels, errors,
			reentrant, losses, sessions, reconnects, expiries,
			wait_time > 0 FROM zk_lock_stats));
}

sub title_of
{
	my ($session) = @_;

	return `ps -o args= -p ${\ $session->pid}`;
}

# Columns of holders and waiters

my ($holder, $waiter) = map { ZkTest->new($node) } (1, 2);
is(stats(), '0|0|0|0|0|0|0|0|0|0|0|f', 'counters start at zero');
$holder->query(
	q(SELECT zk_lock_acquire('/seen/a'), zk_lock_acquire('/seen/a');
	  SELECT zk_semaphore_acquire('/seen/s', 2);
	  BEGIN;
	  SELECT zk_lock_guard('/seen/a', mode => 'exclusive');
	  SAVEPOINT s;
	  SELECT zk_lock_guard('/seen/a');
	  SELECT zk_lock_acquire('/seen/b', mode => 'shared', scope => 'transaction')));
$waiter->start(q(SELECT zk_lock_acquire('/seen/a')));
wait_for_queue($zk, '/seen/a', $holder, $waiter);
wait_until('zk_locks shows the wait',
	sub { locks_of($waiter) =~ /\|t\|f$/ && title_of($waiter) =~ /waiting/ });
is(locks_of($holder),
	"/seen/a|exclusive|t|2|2|t|t|f|f\n"
	  . "/seen/b|shared|t|0|1|t|t|f|f\n"
	  . '/seen/s|semaphore|t|1|0|t|t|f|f',
	'zk_locks shows the locks of another backend');
is(locks_of($holder, $holder), locks_of($holder),
	'... with the same rows as that backend sees');
is(locks_of($waiter), '/seen/a|exclusive|f|1|0|f|t|t|f',
	'zk_locks shows the wait of another backend');
is( $observer->query(
		qq(SELECT a.query FROM zk_locks l JOIN pg_stat_activity a USING (pid)
		   WHERE NOT l.granted)),
	q(SELECT zk_lock_acquire('/seen/a');),
	'... and can be joined with pg_stat_activity');
my ($name) = $zk->children('/seen/a');
my $owners = $zk->owners('/seen/a');
my @places = map { [ split(/\|/, $_) ] } split(
	/\n/,
	$observer->query(
		q(SELECT node, session_id FROM zk_locks WHERE path = '/seen/a')));
is(scalar(grep { $owners->{ $_->[0] } eq $_->[1] } @places),
	2, '... with the ZooKeeper session of each node');
is(scalar(uniq(map { $_->[1] } @places)),
	$sessions, "... which is the backend's or the server's");
my ($title, $event, $named_since, $before, $type) =
  slurp_file("$FindBin::RealBin/../../docs/reference.md") =~
  /process title of a waiting backend ends in\s`([^`]+)`.*?`wait_event` `(\w+)`\s\(before PostgreSQL (\d+) `(\w+)`\) of type `(\w+)`/s;
like(title_of($waiter), qr/\Q$title\E$/, 'process title shows the wait');
is( $observer->query(
		qq(SELECT wait_event_type, wait_event FROM pg_stat_activity
		   WHERE pid = ${\ $waiter->pid})),
	"$type|"
	  . ($node->safe_psql('postgres', 'SHOW server_version_num') >= 10000 * $named_since ? $event : $before),
	'pg_stat_activity shows the wait event');

# A role without privileges sees only which backends have locks.
$node->safe_psql('postgres',
	'CREATE ROLE nobody; CREATE ROLE monitor IN ROLE pg_read_all_stats');
is( $observer->query(
		qq(SET ROLE nobody; SELECT DISTINCT pid, path, mode, granted, node
		   FROM zk_locks WHERE pid = ${\ $waiter->pid})),
	$waiter->pid . '|<insufficient privilege>|||',
	'role without privileges sees only the pid');
$observer->query('SET ROLE monitor');
is(locks_of($waiter), '/seen/a|exclusive|f|1|0|f|t|t|f',
	'member of pg_read_all_stats sees all columns');
$observer->query('RESET ROLE');

# Counts of holds follow savepoints, and rows disappear with their holds.
$holder->query('ROLLBACK TO s');
is(locks_of($holder),
	"/seen/a|exclusive|t|2|1|t|t|f|f\n/seen/s|semaphore|t|1|0|t|t|f|f",
	'rollback to a savepoint removes its holds');
$holder->query('COMMIT; SELECT zk_lock_release_all()');
is(locks_of($holder), '', 'released locks are not shown');
is($waiter->result, 't', 'the waiter is granted the lock');
is(locks_of($waiter), '/seen/a|exclusive|t|1|0|t|t|f|f', '... and shown as its holder');
unlike(title_of($waiter), qr/waiting/, '... and its process title does not show a wait');
is(stats(), "4|3|1|0|0|0|3|0|$sessions|0|0|t", 'all calls are counted');

# Requests that time out
$holder->query(q(SELECT zk_lock_acquire('/seen/a', '1s')));
$holder->query(q(SELECT zk_lock_acquire('/seen/a', '0')));
$holder->query(q(SET lock_timeout = '50ms'; SELECT zk_lock_acquire('/seen/a');
	RESET lock_timeout));
$holder->query(q(SELECT zk_lock_acquire_all('{/seen/a, /seen/c}', '1s')));
$holder->query(q(SELECT zk_lock_acquire('/seen/s')));
$holder->query(q(SELECT zk_lock_acquire('/seen/s', mode => 'simple')));
is(locks_of($holder), '/seen/s|exclusive|t|1|0|t|t|f|f',
	'failed requests are not shown');
unlike(title_of($holder), qr/waiting/, '... in the process title, either');
is(stats(), "11|4|1|4|1|1|3|0|$sessions|0|0|t", '... but counted');
is( $observer->query(
		q(SELECT datname, acquires FROM zk_lock_stats_database
		  WHERE datname IS NOT NULL)),
	'postgres|11',
	'... for the database');
$node->safe_psql('postgres', 'SELECT zk_lock_stats_reset()');
is(stats(), '0|0|0|0|0|0|0|0|0|0|0|f', 'zk_lock_stats_reset() resets the counters');
like(
	$observer->query('SET ROLE nobody; SELECT zk_lock_stats_reset()'),
	qr/^ERROR:  42501/, '... but not for a role without privileges');
$holder->query(
	q(SELECT zk_lock_release_all();
	  SET SESSION AUTHORIZATION nobody;
	  SELECT zk_lock_acquire('/seen/as')));
is( $observer->query("SELECT path FROM zk_locks WHERE pid = ${\ $holder->pid}"),
	'<insufficient privilege>',
	'role does not see locks of a superuser who has assumed its name');
$observer->query('RESET ROLE');
$holder->query('RESET SESSION AUTHORIZATION; SELECT zk_lock_release_all()');

# A backend that waits for several locks has a node in one queue at a time: in
# the others, it deletes its node until it is their turn.
$holder->query(q(SELECT zk_lock_acquire_all('{/seen/b, /seen/c}')));
my $changes = $zk->get('/seen/c')->{cversion};
$waiter->query('SELECT zk_lock_release_all()');
$waiter->start(q(SELECT zk_lock_acquire_all('{/seen/b, /seen/c}')));
wait_until(
	'the waiter has left the second queue',
	sub {
		server_mode() eq 'gate'
		  ? locks_of($waiter) =~ m{^/seen/b.*\|t\|t\|f\n/seen/c.*\|f\|\|t\|f$}
		  : $zk->get('/seen/c')->{cversion} == $changes + 2;
	});
is(locks_of($waiter),
	"/seen/b|exclusive|f|1|0|f|t|t|f\n/seen/c|exclusive|f|1|0|f||t|f",
	'waiter for several locks has a node in one queue');
$holder->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... and is granted all locks after their release');
$waiter->query(
	q(SELECT zk_lock_release_all(); SELECT zk_lock_acquire('/seen/a')));

# The counters agree with the frames of a statement.
my $proxy = ZkProxy->new($zk->hosts);
my $seen = ZkTest->new($node, 'zklock.hosts' => $proxy->hosts);
$seen->query(q(SELECT zk_lock_acquire('/seen/frames'), zk_lock_release_all()));
$node->safe_psql('postgres', 'SELECT zk_lock_stats_reset()');
$proxy->mark;
$seen->query(
	q(DO $$ BEGIN FOR i IN 1 .. 20 LOOP
		PERFORM zk_lock_acquire('/seen/frames');
		PERFORM zk_lock_acquire('/seen/frames');
		PERFORM zk_lock_release_all();
	  END LOOP; END $$));
$proxy->wait_idle;
is( $observer->query('SELECT acquires, immediate, reentrant FROM zk_lock_stats'),
	join('|',
		(scalar grep { $_->{op} eq 'create2' } $proxy->requests)
		  x 2,
		20),
	'number of acquires matches the number of created nodes');
$seen->close;

# When shared memory is full, backends with their own session can still acquire
# locks, but backends that use the server's session cannot.
if (server_mode())
{
	like(
		$holder->query(
			q(SELECT zk_lock_acquire_all(array_agg('/seen/many/' || i))
			  FROM generate_series(1, 20) AS i)),
		qr/^ERROR:  53200: .*\nHINT: .*zklock\.max_locks/m,
		"acquire fails in the server's session when shared memory is full");
	wait_until('locks of the failed call are released',
		sub {
			$observer->query('SELECT listed, unlisted FROM zk_server_status') eq
			  '1|0';
		});
}
$holder->query("SET zklock.session_mode = 'backend'");
$holder->query(
	q(SELECT zk_lock_acquire_all(array_agg('/seen/many/' || i))
	  FROM generate_series(1, 20) AS i));
is($holder->query('SELECT count(*) FROM zk_locks'),
	20 + 1, 'backend sees all its own locks, and those of others');
is( $observer->query(
		'SELECT listed, max_locks, unlisted FROM zk_server_status'),
	join('|', ROOM, ROOM, 20 + 1 - ROOM),
	'... other backends see as many as there is room for, and the number of the rest');
$holder->query('SELECT zk_lock_release_all()');
is( $observer->query('SELECT listed, unlisted FROM zk_server_status'),
	'1|0', '... until they are released');

# However a backend ends, its locks disappear from the view.
$holder->query(q(SELECT zk_lock_acquire_all(array_agg('/seen/many/' || i))
	FROM generate_series(1, 20) AS i));
$node->safe_psql('postgres', "SELECT pg_terminate_backend(${\ $holder->pid})");
wait_until('the terminated backend is gone from the view',
	sub {
		$observer->query('SELECT listed, unlisted FROM zk_server_status') eq '1|0';
	});
crash_server($node, $waiter->pid);
$_->close for $observer, $holder, $waiter;
$observer = ZkTest->new($node);
is($observer->query('SELECT listed, unlisted, acquires FROM zk_server_status, zk_lock_stats'),
	'0|0|0', 'view and counters are empty after a crash');

# Lost locks and sessions. The look at zk_server_status has asked for a session of the server.
$sessions = server_mode() ? 2 : 1;
my $brief = ZkTest->new(
	$node,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '3s');
$brief->query(q(SELECT zk_lock_acquire('/seen/lost')));
my $id = $brief->query('SELECT session_id FROM zk_session()');
$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');

# The counter, because a backend that has not noticed the loss is connected, too.
wait_until(
	'the session is back',
	sub {
		$brief->query('SELECT state FROM zk_session()');
		stats() eq "1|1|0|0|0|0|0|0|$sessions|1|0|f";
	});
pass('reconnect is counted');
$proxy->hold;
wait_until('the session is over', sub { !grep { $_ eq $id } $zk->sessions });
$proxy->release;
wait_until(
	'the loss is reported',
	sub { $brief->query('SELECT 1') =~ /^ERROR:  40001/m });
wait_until('the session is known to have expired',
	sub { stats() eq "1|1|0|0|0|0|0|1|$sessions|1|1|f" });
pass('lost lock and expired session are counted');
is(locks_of($brief), '', '... and the lost lock is not shown');
$brief->close;

# Without preloading, each backend sees only its own locks.
($holder, $waiter) = map { ZkTest->new($other) } (1, 2);
$holder->query(q(SELECT zk_lock_acquire('/seen/mine'), zk_lock_acquire('/seen/mine')));
is(locks_of($holder, $holder), '/seen/mine|exclusive|t|2|0|t|t|f|f',
	'backend sees its own locks without preloading');
is(locks_of($holder, $waiter), '', '... and no locks of other backends');
is(stats($holder), '1|1|0|0|0|0|1|0|1|0|0|f',
	"counters include the backend's own calls without preloading");
is(stats($waiter), '0|0|0|0|0|0|0|0|0|0|0|f', '... and no calls of other backends');
is( $holder->query('SELECT listed, max_locks, unlisted FROM zk_server_status'),
	'||', 'there is no shared table without preloading');

done_testing();
