# What one backend sees of the others: zk_locks and zk_lock_stats with the library
# preloaded, and without.

use strict;
use warnings;

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

# Holder and waiter have a session each, or both the server's.
my $sessions = server_mode() ? 1 : 2;

my $columns = q(path, mode, granted, session_holds, transaction_holds,
	token IS NOT NULL, node LIKE '%-%', waitstart IS NOT NULL, lost);

# What is to be seen of a session
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

# All there is to see of holders and waiters

my ($holder, $waiter) = map { ZkTest->new($node) } (1, 2);
is(stats(), '0|0|0|0|0|0|0|0|0|0|0|f', 'nothing has been done yet');
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
wait_until('the queue is known',
	sub { locks_of($waiter) =~ /\|t\|f$/ && title_of($waiter) =~ /waiting/ });
is(locks_of($holder),
	"/seen/a|exclusive|t|2|2|t|t|f|f\n"
	  . "/seen/b|shared|t|0|1|t|t|f|f\n"
	  . '/seen/s|semaphore|t|1|0|t|t|f|f',
	'what another backend holds');
is(locks_of($holder, $holder), locks_of($holder), '... as it sees that itself');
is(locks_of($waiter), '/seen/a|exclusive|f|1|0|f|t|t|f',
	'what another backend waits for');
is( $observer->query(
		qq(SELECT a.query FROM zk_locks l JOIN pg_stat_activity a USING (pid)
		   WHERE NOT l.granted)),
	q(SELECT zk_lock_acquire('/seen/a');),
	'... and with which statement');
my ($name) = $zk->children('/seen/a');
my $owners = $zk->owners('/seen/a');
my @places = map { [ split(/\|/, $_) ] } split(
	/\n/,
	$observer->query(
		q(SELECT node, session_id FROM zk_locks WHERE path = '/seen/a')));
is(scalar(grep { $owners->{ $_->[0] } eq $_->[1] } @places),
	2, '... in which session their nodes are');
is(scalar(uniq(map { $_->[1] } @places)),
	$sessions, '... of their own, or the server\'s');
like(title_of($waiter), qr/waiting for ZooKeeper lock$/,
	'... as the title of its process says');
is( $observer->query(
		qq(SELECT wait_event_type, wait_event FROM pg_stat_activity
		   WHERE pid = ${\ $waiter->pid})),
	$node->safe_psql('postgres', 'SHOW server_version_num') >= 170000 ? 'Extension|ZooKeeper' : 'Extension|Extension',
	'... and its wait event');

# Who may not see all of a session sees that it has locks.
$node->safe_psql('postgres',
	'CREATE ROLE nobody; CREATE ROLE monitor IN ROLE pg_read_all_stats');
is( $observer->query(
		qq(SET ROLE nobody; SELECT DISTINCT pid, path, mode, granted, node
		   FROM zk_locks WHERE pid = ${\ $waiter->pid})),
	$waiter->pid . '|<insufficient privilege>|||',
	'a role without privileges sees who has locks');
$observer->query('SET ROLE monitor');
is(locks_of($waiter), '/seen/a|exclusive|f|1|0|f|t|t|f',
	'... one that reads all statistics sees which');
$observer->query('RESET ROLE');

# Counts follow savepoints, and claims go with what they are for.
$holder->query('ROLLBACK TO s');
is(locks_of($holder),
	"/seen/a|exclusive|t|2|1|t|t|f|f\n/seen/s|semaphore|t|1|0|t|t|f|f",
	'a savepoint takes back what was taken since');
$holder->query('COMMIT; SELECT zk_lock_release_all()');
is(locks_of($holder), '', 'what was given back is not shown any more');
is($waiter->result, 't', 'the next in line has the lock');
is(locks_of($waiter), '/seen/a|exclusive|t|1|0|t|t|f|f', '... as all can see');
unlike(title_of($waiter), qr/waiting/, '... and its title does not say it waits');
is(stats(), "4|3|1|0|0|0|3|0|$sessions|0|0|t", 'all of that was counted');

# Waits that are given up
$holder->query(q(SELECT zk_lock_acquire('/seen/a', '1s')));
$holder->query(q(SELECT zk_lock_acquire('/seen/a', '0')));
$holder->query(q(SET lock_timeout = '50ms'; SELECT zk_lock_acquire('/seen/a');
	RESET lock_timeout));
$holder->query(q(SELECT zk_lock_acquire_all('{/seen/a, /seen/c}', '1s')));
$holder->query(q(SELECT zk_lock_acquire('/seen/s')));
$holder->query(q(SELECT zk_lock_acquire('/seen/s', mode => 'simple')));
is(locks_of($holder), '/seen/s|exclusive|t|1|0|t|t|f|f',
	'what was given up is not shown');
unlike(title_of($holder), qr/waiting/, '... nor in the title');
is(stats(), "11|4|1|4|1|1|3|0|$sessions|0|0|t", '... but counted');
is( $observer->query(
		q(SELECT datname, acquires FROM zk_lock_stats_database
		  WHERE datname IS NOT NULL)),
	'postgres|11',
	'... for the database');
$node->safe_psql('postgres', 'SELECT zk_lock_stats_reset()');
is(stats(), '0|0|0|0|0|0|0|0|0|0|0|f', 'the counters can be reset');
like(
	$observer->query('SET ROLE nobody; SELECT zk_lock_stats_reset()'),
	qr/^ERROR:  42501/, '... but not by everybody');
$holder->query(
	q(SELECT zk_lock_release_all();
	  SET SESSION AUTHORIZATION nobody;
	  SELECT zk_lock_acquire('/seen/as')));
is( $observer->query("SELECT path FROM zk_locks WHERE pid = ${\ $holder->pid}"),
	'<insufficient privilege>',
	'a role does not see what one who has taken its name has');
$observer->query('RESET ROLE');
$holder->query('RESET SESSION AUTHORIZATION; SELECT zk_lock_release_all()');

# One who waits for many stands in one queue at a time: nothing is left of the
# node that he made where it is not his turn to wait yet.
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
	'one who waits for many has a node in one queue');
$holder->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... until it is his turn');
$waiter->query(
	q(SELECT zk_lock_release_all(); SELECT zk_lock_acquire('/seen/a')));

# A statement's frames are what the counters say.
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
		(scalar grep { $_->{dir} eq 'c2s' && $_->{op} eq 'create2' } $proxy->trace)
		  x 2,
		20),
	'as many locks are counted as nodes were made');
$seen->close;

# There is no room for more, but locks for all; not in the server's session.
if (server_mode())
{
	like(
		$holder->query(
			q(SELECT zk_lock_acquire_all(array_agg('/seen/many/' || i))
			  FROM generate_series(1, 20) AS i)),
		qr/^ERROR:  53200: .*\nHINT: .*zklock\.max_locks/m,
		'without room there is no lock in the session of the server');
	wait_until('what was taken is given back',
		sub {
			$observer->query('SELECT listed, unlisted FROM zk_lock_stats') eq
			  '1|0';
		});
}
$holder->query("SET zklock.session = 'backend'");
$holder->query(
	q(SELECT zk_lock_acquire_all(array_agg('/seen/many/' || i))
	  FROM generate_series(1, 20) AS i));
is($holder->query('SELECT count(*) FROM zk_locks'),
	20 + 1, 'one sees all locks of one\'s own, and those of others');
is( $observer->query(
		'SELECT listed, max_locks, unlisted FROM zk_lock_stats'),
	join('|', ROOM, ROOM, 20 + 1 - ROOM),
	'... others what there is room for, and how many there are besides');
$holder->query('SELECT zk_lock_release_all()');
is( $observer->query('SELECT listed, unlisted FROM zk_lock_stats'),
	'1|0', '... until they are given back');

# However a session ends, nothing is left of it.
$holder->query(q(SELECT zk_lock_acquire_all(array_agg('/seen/many/' || i))
	FROM generate_series(1, 20) AS i));
$node->safe_psql('postgres', "SELECT pg_terminate_backend(${\ $holder->pid})");
wait_until('the terminated backend is gone from the view',
	sub {
		$observer->query('SELECT listed, unlisted FROM zk_lock_stats') eq '1|0';
	});
kill('KILL', $waiter->pid);
wait_for_server($node);
$_->close for $observer, $holder, $waiter;
$observer = ZkTest->new($node);
is($observer->query('SELECT listed, unlisted, acquires FROM zk_lock_stats'),
	'0|0|0', 'all begins anew after a crash');

# Lost locks and sessions
my $brief = ZkTest->new(
	$node,
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '3s');
$brief->query(q(SELECT zk_lock_acquire('/seen/lost')));
my $id = $brief->query('SELECT session_id FROM zk_session()');
$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
wait_until('the session is back',
	sub { $brief->query('SELECT state FROM zk_session()') eq 'connected' });
is(stats(), '1|1|0|0|0|0|0|0|1|1|0|f', 'a connection that came back is counted');
$proxy->hold;
wait_until('the session is over', sub { !grep { $_ eq $id } $zk->sessions });
$proxy->release;
wait_until(
	'the loss is told',
	sub { $brief->query('SELECT 1') =~ /^ERROR:  40001/m });
wait_until('the session is known to have expired',
	sub { stats() eq '1|1|0|0|0|0|0|1|1|1|1|f' });
pass('... and so are a loss and its reason');
is(locks_of($brief), '', '... and the lost lock is gone');
$brief->close;

# Without preloading everybody sees their own.
($holder, $waiter) = map { ZkTest->new($other) } (1, 2);
$holder->query(q(SELECT zk_lock_acquire('/seen/mine'), zk_lock_acquire('/seen/mine')));
is(locks_of($holder, $holder), '/seen/mine|exclusive|t|2|0|t|t|f|f',
	'without preloading one sees what one holds');
is(locks_of($holder, $waiter), '', '... and nothing of others');
is(stats($holder), '1|1|0|0|0|0|1|0|1|0|0|f', '... so it is with the counters');
is(stats($waiter), '0|0|0|0|0|0|0|0|0|0|0|f', '... of each backend');
is( $holder->query('SELECT listed, max_locks, unlisted FROM zk_lock_stats'),
	'||', '... and there is no room for others');

done_testing();
