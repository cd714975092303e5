# Revocation: a holder that has agreed is told of each request, whatever it
# does, and keeps the lock until it releases it; a holder that has not agreed
# is not disturbed.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $main = new_node('main', $proxy->hosts);
my $other = new_node('other', $zk->hosts);
my @revocable = ('zklock.revocable' => 'on', 'zklock.session_timeout' => '40s');

my $revoker = ZkTest->new($other);

# Requests a lock from another server; returns the number of holders that were
# asked.
sub revoke
{
	my ($path) = @_;

	return $revoker->query("SELECT zk_lock_revoke('$path')");
}

sub revoked
{
	my ($path) = @_;

	return
	  qr{^ERROR:  57014: canceling statement because lock on "$path" was revoked\nDETAIL:  It is held until its transaction ends, or it is released\.$}m;
}

sub warning
{
	my ($path) = @_;

	return qr{^WARNING:  01000: lock on "$path" was revoked\nDETAIL:  It is held until}m;
}

# Waits until a holder that runs no statement has noticed the first request:
# its node has its former data again.
sub wait_until_heard
{
	my ($session, $path) = @_;

	wait_until(
		"the holder has noticed the request for $path",
		sub {
			my ($node) = $zk->children($path);
			my $stat = $zk->get("$path/$node");

			return $stat->{version} == 2
			  && $stat->{data} =~ / revocable=t$/
			  && ( !server_mode()
				|| $main->safe_psql('postgres',
					"SELECT revoked FROM zk_locks
					 WHERE pid = ${\ $session->pid} AND path = '$path'")
				eq 't');
		});
	return;
}

# Any running statement is cancelled, and the end of its transaction gives the
# lock to the next waiter.

my $mine = 'FROM zk_locks WHERE pid = pg_backend_pid()';
my $do = q(DO $$ BEGIN %s EXCEPTION WHEN OTHERS THEN NULL; END $$);
my $sleep = 'PERFORM pg_sleep(1000);';
my %statements = (
	'a query' => 'SELECT pg_sleep(1000)',
	'a function that catches all errors' => sprintf($do, $sleep),
	'one that acquires the lock itself' =>
	  sprintf($do, "PERFORM zk_lock_guard('/revoke/running'); $sleep"),
	'one that then releases it' => sprintf($do,
		"BEGIN PERFORM zk_lock_guard('/revoke/running'); $sleep
		 EXCEPTION WHEN query_canceled THEN RAISE; END;"),
	'a wait for another lock' => q(SELECT zk_lock_acquire('/revoke/taken')));

my $rival = ZkTest->new($other);
$revoker->query(q(SELECT zk_lock_acquire('/revoke/taken')));
for my $what (sort keys %statements)
{
	my $session = ZkTest->new($main, @revocable);

	$session->query(q(LOAD 'zklock'; BEGIN));
	$session->query(q(SELECT zk_lock_guard('/revoke/running')))
	  if $statements{$what} !~ /running/;
	$session->start($statements{$what});
	wait_for_queue($zk, '/revoke/running', $session);
	$rival->start(q(SELECT zk_lock_acquire('/revoke/running')));
	wait_for_queue($zk, '/revoke/running', $session, $rival);
	$session->wait_for_event('PgSleep') if $statements{$what} =~ /sleep/;
	is(revoke('/revoke/running'),
		1, "lock is requested from a backend that runs $what");
	like($session->result, revoked('/revoke/running'),
		'... and its statement is cancelled');
	is($rival->result, 't', '... and the waiter is granted the lock');
	is($session->query("ROLLBACK; SELECT count(*) $mine"),
		'0', '... and the backend does not hold it any more');
	$rival->query('SELECT zk_lock_release_all()');
	$session->close;
	wait_for_queue($zk, '/revoke/running');
}

# After a rollback to a savepoint, the backend still has a lock that it
# acquired before the savepoint.
my $session = ZkTest->new($main, @revocable);
$session->query(q(BEGIN; SELECT zk_lock_guard('/revoke/saved'); SAVEPOINT s));
$session->start('SELECT pg_sleep(1000)');
$session->wait_for_event('PgSleep');
is(revoke('/revoke/saved'), 1, 'lock is requested from a backend with a savepoint');
like($session->result, revoked('/revoke/saved'), '... and its statement is cancelled');
is($session->query("ROLLBACK TO s; SELECT transaction_holds, revoked $mine"),
	'1|t', '... and it still has the lock after ROLLBACK TO');
is($session->query('COMMIT'), '', '... until the transaction ends');
wait_for_queue($zk, '/revoke/saved');

# A backend that waits for one of several locks can already hold others.
for my $holds ('no other lock', 'another lock')
{
	$session->query(q(SELECT zk_lock_acquire('/revoke/another')))
	  if $holds eq 'another lock';
	$rival->query(q(SELECT zk_lock_acquire('/revoke/several/b')));
	$session->start(
		q(SELECT zk_lock_acquire_all('{/revoke/several/a, /revoke/several/b}')));
	wait_for_queue($zk, '/revoke/several/a', $session);
	wait_for_queue($zk, '/revoke/several/b', $rival, $session);
	is(revoke('/revoke/several/a'), 1,
		"first lock is requested from a backend that waits for the second and holds $holds");
	like($session->result, revoked('/revoke/several/a'), '... and its wait is cancelled');
	wait_for_queue($zk, '/revoke/several/a');
	$_->query('SELECT zk_lock_release_all()') for $session, $rival;
	wait_for_queue($zk, '/revoke/several/b');
}

# A backend that has given up the other locks of a list, to wait for the first, misses no
# message about the first.  The first is released while it gives up the others, after each
# of which it reads the state of its session, because it holds another lock.
my $list = q(SELECT array_agg('/revoke/list/' || n ORDER BY n) FROM generate_series(1000, 1199) AS n);
$session->query(q(SELECT zk_lock_acquire('/revoke/another')));
for my $round (1 .. server_mode() ? 1 : 8)
{
	$rival->query(q(SELECT zk_lock_acquire('/revoke/list/1000')));
	$rival->start(
		q(DO $$ BEGIN
			WHILE clock_timestamp() < now() + '500ms'
				AND NOT EXISTS (SELECT FROM zk_lock_queue('/revoke/list/1199'))
			LOOP END LOOP;
			PERFORM zk_lock_release('/revoke/list/1000');
		  END $$));
	$session->start("SELECT zk_lock_acquire_all(($list), '20s')");
	is($rival->result, '', "first of many locks is released ($round)");
	is($session->result, 't', '... and its waiter gets all of them');
	$session->query("SELECT zk_lock_release(path) FROM unnest(($list)) AS path");
	wait_for_queue($zk, '/revoke/list/1199');
}
$session->query('SELECT zk_lock_release_all()');

# A lock is granted and requested before its backend wakes.
for my $holds ('no other lock', 'another lock')
{
	$session->query(q(SELECT zk_lock_acquire('/revoke/another')))
	  if $holds eq 'another lock';
	$rival->query(q(SELECT zk_lock_acquire('/revoke/asleep')));
	$session->start(
		q(DO $$ BEGIN PERFORM zk_lock_guard('/revoke/asleep'); PERFORM pg_sleep(1000); END $$));
	wait_for_queue($zk, '/revoke/asleep', $rival, $session);
	kill('STOP', $session->pid);
	$rival->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, '/revoke/asleep', $session);
	is(revoke('/revoke/asleep'),
		1, "lock is requested from a suspended backend that holds $holds");
	wait_until_heard($session, '/revoke/asleep') if server_mode();
	kill('CONT', $session->pid);
	like($session->result, revoked('/revoke/asleep'),
		'... and its statement is cancelled when it is resumed');
	$session->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, '/revoke/asleep');
}

# A request for an earlier node of the backend does not count for a later one.
# The backend gave the node of the second lock up while it waited for the
# first.
$rival->query(q(SELECT zk_lock_acquire('/revoke/several/a')));
$session->start(
	q(SELECT zk_lock_acquire_all('{/revoke/several/a, /revoke/several/b}')));
wait_for_queue($zk, '/revoke/several/a', $rival, $session);
wait_for_queue($zk, '/revoke/several/b');
$rival->query('SELECT zk_lock_release_all()');
is($session->result, 't', 'waiter for the first of two locks gets both');
is($session->query("SELECT count(*) FILTER (WHERE revoked) $mine"),
	'0', '... and none of them is marked as revoked');
$session->query('SELECT zk_lock_release_all()');

# A session-level lock is kept, and each request cancels a statement.
$session->query(q(SELECT zk_lock_acquire('/revoke/held')));
is($session->query("SELECT revoked $mine"),
	'f', 'lock is not marked as revoked before the first request');
for my $time ('once', 'once more')
{
	$session->start('SELECT pg_sleep(1000)');
	$session->wait_for_event('PgSleep');
	is(revoke('/revoke/held'), 1, "session-level lock is requested $time");
	like($session->result, revoked('/revoke/held'), '... and the statement is cancelled');
	is($session->query("SELECT session_holds, revoked, lost $mine"),
		'1|t|f', '... and the lock is still held');
}
is($session->query(q(SELECT zk_lock_release('/revoke/held'))),
	't', '... until it is released');
wait_for_queue($zk, '/revoke/held');

# A request comes between statements: the next statement of the transaction
# fails, unless it ends the transaction.
for my $next ('SELECT pg_sleep(1000)', 'SET work_mem = 1000', 'COMMIT')
{
	$session->query(q(BEGIN; SELECT zk_lock_guard('/revoke/idle')));
	is(revoke('/revoke/idle'), 1, 'lock is requested between two statements');
	wait_until_heard($session, '/revoke/idle');
	if ($next eq 'COMMIT')
	{
		is($session->query($next), '', '... COMMIT succeeds');
	}
	else
	{
		like($session->query($next), revoked('/revoke/idle'),
			"... $next fails");
		$session->query('ROLLBACK');
	}
	wait_for_queue($zk, '/revoke/idle');
	is($session->query("SELECT count(*) $mine"), '0', '... and no second error follows');
}

# A request for a session-level lock between statements is reported as a
# warning.
$session->query(q(SELECT zk_lock_acquire('/revoke/idle')));
revoke('/revoke/idle');
wait_until_heard($session, '/revoke/idle');
like($session->query('SELECT 1'), qr/${\ warning('\/revoke\/idle')}(?s:.*)^1$/m,
	'next statement warns the holder of a session-level lock');
is($session->query("SELECT revoked $mine"), 't', '... once');
is($session->query(q(SELECT zk_lock_release('/revoke/idle'))), 't',
	'... and the lock can be released');
$session->query(q(SELECT zk_lock_acquire('/revoke/early')));
revoke('/revoke/early');
wait_until_heard($session, '/revoke/early');
like($session->query(q(SELECT zk_lock_release('/revoke/early'))),
	qr/${\ warning('\/revoke\/early')}(?s:.*)^t$/m,
		'... the release can be the statement that warns');

# A procedure is one statement, even if it commits.
$main->safe_psql('postgres', q(
	CREATE PROCEDURE rounds() LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			PERFORM pg_sleep(0.001);
			COMMIT;
		END LOOP;
	END $$));
$session->query(q(SELECT zk_lock_acquire('/revoke/procedure')));
$session->start('CALL rounds()');
$session->wait_for_event('PgSleep');
is(revoke('/revoke/procedure'), 1, 'lock is requested during a procedure');
like($session->result, revoked('/revoke/procedure'), '... which is cancelled');
$session->query('SELECT zk_lock_release_all()');

# A holder that has not agreed is not disturbed, and its node is not changed.
my $silent = ZkTest->new($main);
$silent->query(
	q(SELECT zk_lock_acquire('/revoke/silent'); SET zklock.revocable = on;
	  SELECT zk_lock_acquire('/revoke/silent')));
wait_for_queue($zk, '/revoke/silent', $silent);
my ($name) = $zk->children('/revoke/silent');
my $said = $zk->get("/revoke/silent/$name");
unlike($said->{data}, qr/revocable/,
	'node of a lock acquired without zklock.revocable is not revocable');
is(revoke('/revoke/silent'), 0, '... and its holder is not asked');
is_deeply($zk->get("/revoke/silent/$name"), $said, '... its node is not changed');
is($silent->query("SELECT revoked $mine"), 'f', '... and its row is not marked');
is(revoke('/revoke/nobody'), 0, 'no holder is asked on a free path');
$silent->query('SELECT zk_lock_release_all(); SET zklock.revocable = off');

# All shared holders and lease holders that have agreed are asked; waiters are
# not.
$session->query(q(SELECT zk_lock_acquire('/revoke/shared', mode => 'shared')));
my $sharer = ZkTest->new($main, @revocable);
$sharer->query(q(SELECT zk_lock_acquire('/revoke/shared', mode => 'shared')));
$silent->query(q(SELECT zk_lock_acquire('/revoke/shared', mode => 'shared')));
my $waiter = ZkTest->new($main, @revocable);
$waiter->start(q(SELECT zk_lock_acquire('/revoke/shared')));
wait_for_queue($zk, '/revoke/shared', $session, $sharer, $silent, $waiter);
$_->start('SELECT pg_sleep(1000)') for $session, $sharer;
$_->wait_for_event('PgSleep') for $session, $sharer;

# Readers of one server may share a node, which is asked once.
my $asked = $zk->children('/revoke/shared') - 2;
is(revoke('/revoke/shared'), $asked, 'shared holders that have agreed are asked');
like($_->result, revoked('/revoke/shared'), '... and their statements are cancelled')
  for $session, $sharer;
ok(!$waiter->is_done, '... and the waiter still waits');
$_->query('SELECT zk_lock_release_all()') for $session, $sharer, $silent;
is($waiter->result, 't', '... and is granted the lock after its release');
$waiter->query('SELECT zk_lock_release_all()');

$_->query(q(SELECT zk_semaphore_acquire('/revoke/semaphore', 2))) for $session, $sharer;
$waiter->start(q(SELECT zk_semaphore_acquire('/revoke/semaphore', 2)));
wait_until('a session waits for a lease',
	sub { $zk->children('/revoke/semaphore/leases') == 3 });
$_->start('SELECT pg_sleep(1000)') for $session, $sharer;
$_->wait_for_event('PgSleep') for $session, $sharer;
is(revoke('/revoke/semaphore'), 2, 'holders of leases are asked');
like($_->result, revoked('/revoke/semaphore'), '... and their statements are cancelled')
  for $session, $sharer;
ok(!$waiter->is_done, '... and the waiter still waits');
$session->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... and is granted a lease after its release');
$_->query('SELECT zk_lock_release_all()') for $sharer, $waiter;

# A waiter that gives up removes its watches on the holder's node, but not the
# watch for revocation.
$session->query(q(SELECT zk_lock_acquire('/revoke/behind', mode => 'shared')));
is($waiter->query(q(SELECT zk_lock_acquire('/revoke/behind', '1s', 'write'))),
	'f', 'another session waits for the lock and gives up');
$proxy->wait_idle;
$session->start('SELECT pg_sleep(1000)');
$session->wait_for_event('PgSleep');
is(revoke('/revoke/behind'), 1, '... the lock can be requested after that');
like($session->result, revoked('/revoke/behind'),
	"... and the holder's statement is cancelled");
$session->query('SELECT zk_lock_release_all()');

# The data of a simple lock's node identifies its owner, so a request cannot
# replace it.
$session->query(q(SELECT zk_lock_acquire('/revoke/simple', mode => 'simple')));
like(revoke('/revoke/simple'),
	qr{^ERROR:  0A000: cannot revoke simple lock on "/revoke/simple"\nDETAIL:  Revocation would overwrite}m,
	'simple lock cannot be revoked');
is($session->query(q(SELECT zk_lock_release('/revoke/simple', 'simple'))),
	't', '... and can be released');

# The request can arrive before the watch is set ...
for my $dir (qw(c2s s2c))
{
	$proxy->wait_idle;
	$proxy->mark;
	$proxy->rule(dir => $dir, op => 'getData', path => '/revoke/before', action => 'hold',
		pings => 1);
	$session->query(q(BEGIN; SELECT zk_lock_guard('/revoke/before')));
	$proxy->wait_frame(dir => $dir, op => 'getData');
	$session->start('SELECT pg_sleep(1000)');
	$session->wait_for_event('PgSleep');
	is(revoke('/revoke/before'),
		1, "lock is requested while the watch is on its way ($dir)");
	$proxy->reset;
	like($session->result, revoked('/revoke/before'), '... and the statement is cancelled');
	$session->query('ROLLBACK');
	wait_for_queue($zk, '/revoke/before');

	# ... or after the watch was lost with its connection ...
	$proxy->wait_idle;
	$proxy->mark;
	$proxy->rule(dir => $dir, op => 'getData', path => '/revoke/before', action => 'drop');
	$session->query(q(BEGIN; SELECT zk_lock_guard('/revoke/before')));
	$proxy->wait_frame(dir => 's2c', op => 'connect');
	$proxy->wait_idle;
	$session->start('SELECT pg_sleep(1000)');
	$session->wait_for_event('PgSleep');
	is(revoke('/revoke/before'),
		1, "lock is requested after its first watch was lost ($dir)");
	like($session->result, revoked('/revoke/before'), '... and the statement is cancelled');
	$session->query('ROLLBACK');
	wait_for_queue($zk, '/revoke/before');
}

# ... or while there is no connection.
$session->query(q(BEGIN; SELECT zk_lock_guard('/revoke/away')));
$proxy->wait_idle;
$session->start('SELECT pg_sleep(1000)');
$session->wait_for_event('PgSleep');
$proxy->refuse;
$proxy->cut;
is(revoke('/revoke/away'), 1, 'lock is requested while its holder has no connection');
ok(!$session->is_done, '... and the holder does not notice');
$proxy->accept;
like($session->result, revoked('/revoke/away'), '... until it reconnects');
$session->query('ROLLBACK');

# A connection is lost when the lock is granted, and back before the thread that sets the watch
# goes on, wherever it was.
my $library = build_module('lost_watch');
my $watched = new_node('watched', $zk->hosts, shared_preload_libraries => "zklock,$library");
$watched->safe_psql('postgres', qq(
	CREATE FUNCTION lost_watch(pid int, n int) RETURNS void AS '$library' LANGUAGE C STRICT));
my $losing = ZkTest->new($watched, @revocable)->connect;
for my $n (1 .. 4)
{
	my $began = time();
	my $reconnects = 'SELECT reconnects FROM zk_lock_stats';
	my $before = $watched->safe_psql('postgres', $reconnects);

	# After a short connection, the next one counts only after a request: see zksession.c.
	wait_until('the connection has lasted for a second', sub { time() > $began + 1.1 });
	$watched->safe_psql('postgres', "SELECT lost_watch(${\ keeper_of($losing, $watched)}, $n)");
	is($losing->query(qq(BEGIN; SELECT zk_lock_guard('/revoke/lost') > 0)),
		't', "lock is granted, and the connection lost and back before step $n");
	$losing->start('SELECT pg_sleep(1000)');
	$losing->wait_for_event('PgSleep');
	is(revoke('/revoke/lost'), 1, '... and requested');
	like($losing->result, revoked('/revoke/lost'), '... and the statement is cancelled');
	$losing->query('ROLLBACK');
	is($watched->safe_psql('postgres', $reconnects), $before + 1, '... after a reconnect');
}

# Revocation requires a privilege, and a path within zklock.path_prefix.
$other->safe_psql('postgres', q(
	CREATE ROLE plain LOGIN;
	CREATE ROLE signaller LOGIN IN ROLE pg_signal_backend;
	ALTER ROLE signaller SET zklock.path_prefix = '/revoke'));
for my $case (
	[ 'plain', '/revoke/x', qr/^ERROR:  42501: permission denied for function/m ],
	[ 'signaller', '/revoke/x', qr/^0$/ ],
	[
		'signaller', '/elsewhere',
		qr/^ERROR:  42501: permission denied for lock path/m
	])
{
	my ($role, $path, $answer) = @$case;
	local $ENV{PGUSER} = $role;
	my $confined = ZkTest->new($other);

	like($confined->query("SELECT zk_lock_revoke('$path')"),
		$answer, "role $role requests $path");
	$confined->close;
}
like($revoker->query('SELECT zk_lock_revoke(NULL)'),
	qr/^ERROR:  22004:/m, 'NULL cannot be revoked');

# A node whose access control list forbids writing
my $closed =
  ZkTest->new($other, OWN_SESSION, 'zklock.acl' => 'world:anyone:cdra', @revocable);
$closed->query(q(SELECT zk_lock_acquire('/revoke/closed')));
like(
	revoke('/revoke/closed'),
	qr{^ERROR:  28000: could not revoke lock on "/revoke/closed"\nDETAIL:  ZooKeeper refused to write to "/revoke/closed/}m,
	'error for a node that may not be written to');
$closed->close;

# A holder whose zklock.hosts ends with a path
$zk->create('/below', '', 0);
my $below = ZkTest->new(
	with_settings($main, 'zklock.hosts' => $zk->hosts . '/below', @revocable));
$below->query(q(BEGIN; SELECT zk_lock_guard('/revoke')));
$below->start('SELECT pg_sleep(1000)');
wait_until('the lock is held', sub { $zk->children('/below/revoke') == 1 });
is(revoke('/below/revoke'), 1, 'lock is requested from a holder with another root');
like($below->result, revoked('/revoke'), '... and the statement is cancelled');
$below->close;

# Backends of one server do not hand over a lock that another client has
# requested.
my $shared = new_node(
	'shared', $zk->hosts,
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '40s',
	'zklock.handover_time' => '1h');
my ($first, $second) = map { ZkTest->new($shared, @revocable) } (1, 2);

$first->query(q(BEGIN; SELECT zk_lock_guard('/revoke/gate')));
$second->start(q(SELECT zk_lock_acquire('/revoke/gate')));
wait_for_queue($zk, '/revoke/gate', $first, $second);
$rival->start(q(SELECT zk_lock_acquire('/revoke/gate')));
wait_for_queue($zk, '/revoke/gate', $first, $second, $rival);
$first->start('SELECT pg_sleep(1000)');
$first->wait_for_event('PgSleep');
is(revoke('/revoke/gate'), 1, 'lock is requested from a server with another waiter');
like($first->result, revoked('/revoke/gate'),
	'... and the statement of the holder is cancelled');
$first->query('ROLLBACK');
is($rival->result, 't', '... and the other server is granted the lock');
ok(!$second->is_done, '... and not the waiter of the same server');
$rival->query('SELECT zk_lock_release_all()');
is($second->result, 't', '... which is granted the lock after that');

# The same when a backend that has not agreed holds the lock on the node of one
# that has; but that holder is not disturbed.
my ($third, $fourth) = map { ZkTest->new($shared) } (1, 2);

$third->start(q(SELECT zk_lock_acquire('/revoke/gate')));
wait_for_queue($zk, '/revoke/gate', $second, $third);
$second->query('SELECT zk_lock_release_all()');
is($third->result, 't', 'lock is handed over to a backend that has not agreed');
$fourth->start(q(SELECT zk_lock_acquire('/revoke/gate')));
wait_for_queue($zk, '/revoke/gate', $third, $fourth);
is(revoke('/revoke/gate'), 1, '... and requested from its server');
($name) = $zk->children('/revoke/gate');
wait_until('the request is noticed',
	sub { $zk->get("/revoke/gate/$name")->{version} == 2 });
$first->query(q(SELECT zk_lock_acquire('/revoke/next')));    # now the worker has noticed, too
$rival->start(q(SELECT zk_lock_acquire('/revoke/gate')));
wait_for_queue($zk, '/revoke/gate', $third, $fourth, $rival);
is($third->query("SELECT revoked, lost $mine"), 'f|f', '... the holder is not disturbed');
is($third->query(q(SELECT zk_lock_release('/revoke/gate'))),
	't', '... and can release the lock');
is($rival->result, 't', '... the other server is granted the lock');
$rival->query('SELECT zk_lock_release_all()');
is($fourth->result, 't', '... and the waiter of the same server after that');

# A session must not set too many watches: a new connection sends all of them
# in one request.
$session = ZkTest->new($main, @revocable);
my $many = q(
	SELECT zk_lock_acquire_all(ARRAY(SELECT format('/%s-%s', i, repeat('x', 1017))
		FROM generate_series(1000, 1000 + $n - 1) i)));
like($session->query($many =~ s/\$n/600/r),
	qr/^ERROR:  53200: too many ZooKeeper watches /,
		'error for too many revocable locks with long names');
# Watches count until ZooKeeper has confirmed their removal.
ok( wait_until('the removal is confirmed',
		sub { $session->query($many =~ s/\$n/400/r) eq 't' }),
	'... fewer locks succeed');
$proxy->wait_idle;
$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$session->start('SELECT pg_sleep(1000)');
$session->wait_for_event('PgSleep');
my $long = '/1000-' . 'x' x 1017;
is(revoke($long), 1, '... the watches are set again after a reconnect');
like($session->result, revoked($long), '... and a request cancels the statement');
is($session->query('SELECT zk_lock_release_all()'),
	'400', '... and all locks can be released');

done_testing();
