# Locks that are asked back: who has agreed to that is told, whatever he does, and
# keeps the lock until he gives it back; who has not is left alone.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $main = new_node('main', $proxy->hosts);
my $other = new_node('other', $zk->hosts);
my @agreed = ('zklock.revocable' => 'on', 'zklock.session_timeout' => '40s');

my $asker = ZkTest->new($other);

# Asks for a lock from another server; returns how many were asked.
sub ask
{
	my ($path) = @_;

	return $asker->query("SELECT zk_lock_revoke('$path')");
}

sub asked_back
{
	my ($path) = @_;

	return
	  qr{^ERROR:  57014: canceling statement because lock on "$path" was asked back\nDETAIL:  It is held until its transaction ends, or it is released\.$}m;
}

sub warned
{
	my ($path) = @_;

	return qr{^WARNING:  01000: lock on "$path" was asked back\nDETAIL:  It is held until}m;
}

# Waits until a holder who runs no statement has heard the first request: his node
# says again what it said.
sub wait_until_heard
{
	my ($session, $path) = @_;

	wait_until(
		"it is heard that $path is asked back",
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

sub sleeps
{
	my ($session) = @_;

	$main->poll_query_until('postgres',
		"SELECT wait_event = 'PgSleep' FROM pg_stat_activity
		 WHERE pid = ${\ $session->pid}");
	return;
}

# A statement that runs is cancelled, whatever it does, and the end of its
# transaction gives the lock to who waits for it.

my $mine = 'FROM zk_locks WHERE pid = pg_backend_pid()';
my $do = q(DO $$ BEGIN %s EXCEPTION WHEN OTHERS THEN NULL; END $$);
my $sleep = 'PERFORM pg_sleep(1000);';
my %statements = (
	'a query' => 'SELECT pg_sleep(1000)',
	'a function that catches all errors' => sprintf($do, $sleep),
	'one that takes the lock itself' =>
	  sprintf($do, "PERFORM zk_lock_guard('/ask/running'); $sleep"),
	'one that gives it back then' => sprintf($do,
		"BEGIN PERFORM zk_lock_guard('/ask/running'); $sleep
		 EXCEPTION WHEN query_canceled THEN RAISE; END;"),
	'a wait for another lock' => q(SELECT zk_lock_acquire('/ask/taken')));

my $rival = ZkTest->new($other);
$asker->query(q(SELECT zk_lock_acquire('/ask/taken')));
for my $what (sort keys %statements)
{
	my $session = ZkTest->new($main, @agreed);

	$session->query(q(LOAD 'zklock'; BEGIN));
	$session->query(q(SELECT zk_lock_guard('/ask/running')))
	  if $statements{$what} !~ /running/;
	$session->start($statements{$what});
	wait_for_queue($zk, '/ask/running', $session);
	$rival->start(q(SELECT zk_lock_acquire('/ask/running')));
	wait_for_queue($zk, '/ask/running', $session, $rival);
	sleeps($session) if $statements{$what} =~ /sleep/;
	is(ask('/ask/running'), 1, "one is asked, who is in $what");
	like($session->result, asked_back('/ask/running'), '... and is cancelled');
	is($rival->result, 't', '... which gives the lock to who waits');
	is($session->query("ROLLBACK; SELECT count(*) $mine"), '0', '... at once');
	$rival->query('SELECT zk_lock_release_all()');
	$session->close;
	wait_for_queue($zk, '/ask/running');
}

# A savepoint after the lock saves it.
my $session = ZkTest->new($main, @agreed);
$session->query(q(BEGIN; SELECT zk_lock_guard('/ask/saved'); SAVEPOINT s));
$session->start('SELECT pg_sleep(1000)');
sleeps($session);
is(ask('/ask/saved'), 1, 'one is asked who has a savepoint');
like($session->result, asked_back('/ask/saved'), '... and is cancelled');
is($session->query("ROLLBACK TO s; SELECT transaction_holds, revoked $mine"),
	'1|t', '... but has the lock');
is($session->query('COMMIT'), '', '... until the transaction ends');
wait_for_queue($zk, '/ask/saved');

# Who waits for one of several locks may have others already.
for my $holds ('no other lock', 'another lock')
{
	$session->query(q(SELECT zk_lock_acquire('/ask/another')))
	  if $holds eq 'another lock';
	$rival->query(q(SELECT zk_lock_acquire('/ask/several/b')));
	$session->start(
		q(SELECT zk_lock_acquire_all('{/ask/several/a, /ask/several/b}')));
	wait_for_queue($zk, '/ask/several/a', $session);
	wait_for_queue($zk, '/ask/several/b', $rival, $session);
	is(ask('/ask/several/a'), 1,
		"one is asked who waits for the second of two, and holds $holds");
	like($session->result, asked_back('/ask/several/a'), '... and is cancelled');
	wait_for_queue($zk, '/ask/several/a');
	$_->query('SELECT zk_lock_release_all()') for $session, $rival;
	wait_for_queue($zk, '/ask/several/b');
}

# Who was granted a lock, and asked for it, before he woke
for my $holds ('no other lock', 'another lock')
{
	$session->query(q(SELECT zk_lock_acquire('/ask/another')))
	  if $holds eq 'another lock';
	$rival->query(q(SELECT zk_lock_acquire('/ask/asleep')));
	$session->start(
		q(DO $$ BEGIN PERFORM zk_lock_guard('/ask/asleep'); PERFORM pg_sleep(1000); END $$));
	wait_for_queue($zk, '/ask/asleep', $rival, $session);
	kill('STOP', $session->pid);
	$rival->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, '/ask/asleep', $session);
	is(ask('/ask/asleep'), 1, "one is asked who stands still, and holds $holds");
	wait_until_heard($session, '/ask/asleep') if server_mode();
	kill('CONT', $session->pid);
	like($session->result, asked_back('/ask/asleep'), '... and is cancelled');
	$session->query('SELECT zk_lock_release_all()');
	wait_for_queue($zk, '/ask/asleep');
}

# What was asked for is not what is had now: it was given up to wait for one before it.
$rival->query(q(SELECT zk_lock_acquire('/ask/several/a')));
$session->start(
	q(SELECT zk_lock_acquire_all('{/ask/several/a, /ask/several/b}')));
wait_for_queue($zk, '/ask/several/a', $rival, $session);
wait_for_queue($zk, '/ask/several/b');
$rival->query('SELECT zk_lock_release_all()');
is($session->result, 't', 'one who waited for the first of two gets both');
is($session->query("SELECT count(*) FILTER (WHERE revoked) $mine"),
	'0', '... and nobody has asked for them');
$session->query('SELECT zk_lock_release_all()');

# What the session holds it holds on, and each request is told.
$session->query(q(SELECT zk_lock_acquire('/ask/held')));
is($session->query("SELECT revoked $mine"), 'f', 'nobody has asked yet');
for my $time ('once', 'once more')
{
	$session->start('SELECT pg_sleep(1000)');
	sleeps($session);
	is(ask('/ask/held'), 1, "a session that holds a lock is asked $time");
	like($session->result, asked_back('/ask/held'), '... and is cancelled');
	is($session->query("SELECT session_holds, revoked, lost $mine"),
		'1|t|f', '... and holds it on');
}
is($session->query(q(SELECT zk_lock_release('/ask/held'))),
	't', '... until it releases it');
wait_for_queue($zk, '/ask/held');

# Between statements: the next one of a transaction does not begin, unless it is
# the last.
for my $next ('SELECT pg_sleep(1000)', 'SET work_mem = 1000', 'COMMIT')
{
	$session->query(q(BEGIN; SELECT zk_lock_guard('/ask/idle')));
	is(ask('/ask/idle'), 1, 'one is asked between two statements');
	wait_until_heard($session, '/ask/idle');
	if ($next eq 'COMMIT')
	{
		is($session->query($next), '', '... who can commit');
	}
	else
	{
		like($session->query($next), asked_back('/ask/idle'),
			"... who cannot go on with $next");
		$session->query('ROLLBACK');
	}
	wait_for_queue($zk, '/ask/idle');
	is($session->query("SELECT count(*) $mine"), '0', '... and is not told again');
}

# What the session holds it is to release: it is warned.
$session->query(q(SELECT zk_lock_acquire('/ask/idle')));
ask('/ask/idle');
wait_until_heard($session, '/ask/idle');
like($session->query('SELECT 1'), qr/${\ warned('\/ask\/idle')}(?s:.*)^1$/m,
	'who holds a lock as a session is warned at the next statement');
is($session->query("SELECT revoked $mine"), 't', '... once');
is($session->query(q(SELECT zk_lock_release('/ask/idle'))), 't',
	'... and can release it');
$session->query(q(SELECT zk_lock_acquire('/ask/early')));
ask('/ask/early');
wait_until_heard($session, '/ask/early');
like($session->query(q(SELECT zk_lock_release('/ask/early'))),
	qr/${\ warned('\/ask\/early')}(?s:.*)^t$/m, '... also at once');

# A procedure is one statement, whatever it commits.
$main->safe_psql('postgres', q(
	CREATE PROCEDURE rounds() LANGUAGE plpgsql AS $$
	BEGIN
		LOOP
			PERFORM pg_sleep(0.001);
			COMMIT;
		END LOOP;
	END $$));
$session->query(q(SELECT zk_lock_acquire('/ask/procedure')));
$session->start('CALL rounds()');
$main->poll_query_until('postgres',
	"SELECT wait_event = 'PgSleep' FROM pg_stat_activity
	 WHERE pid = ${\ $session->pid}");
is(ask('/ask/procedure'), 1, 'one is asked who is in a procedure');
like($session->result, asked_back('/ask/procedure'), '... and is cancelled');
$session->query('SELECT zk_lock_release_all()');

# Who has not agreed is left alone, and so is what his node says.
my $silent = ZkTest->new($main);
$silent->query(
	q(SELECT zk_lock_acquire('/ask/silent'); SET zklock.revocable = on;
	  SELECT zk_lock_acquire('/ask/silent')));
wait_for_queue($zk, '/ask/silent', $silent);
my ($name) = $zk->children('/ask/silent');
my $said = $zk->get("/ask/silent/$name");
unlike($said->{data}, qr/revocable/, 'who takes a lock without has not agreed');
is(ask('/ask/silent'), 0, '... and is not asked');
is_deeply($zk->get("/ask/silent/$name"), $said, '... nor is his node changed');
is($silent->query("SELECT revoked $mine"), 'f', '... nor he');
is(ask('/ask/nobody'), 0, 'nobody is asked where nobody is');
$silent->query('SELECT zk_lock_release_all(); SET zklock.revocable = off');

# All who share it and have agreed, or have a lease; not who waits.
$session->query(q(SELECT zk_lock_acquire('/ask/shared', mode => 'shared')));
my $sharer = ZkTest->new($main, @agreed);
$sharer->query(q(SELECT zk_lock_acquire('/ask/shared', mode => 'shared')));
$silent->query(q(SELECT zk_lock_acquire('/ask/shared', mode => 'shared')));
my $waiter = ZkTest->new($main, @agreed);
$waiter->start(q(SELECT zk_lock_acquire('/ask/shared')));
wait_for_queue($zk, '/ask/shared', $session, $sharer, $silent, $waiter);
$_->start('SELECT pg_sleep(1000)') for $session, $sharer;
sleeps($_) for $session, $sharer;
is(ask('/ask/shared'), 2, 'who share a lock are asked, but for those who have not agreed');
like($_->result, asked_back('/ask/shared'), '... and cancelled')
  for $session, $sharer;
ok(!$waiter->is_done, '... and who waits is not');
$_->query('SELECT zk_lock_release_all()') for $session, $sharer, $silent;
is($waiter->result, 't', '... who is granted the lock then');
$waiter->query('SELECT zk_lock_release_all()');

$_->query(q(SELECT zk_semaphore_acquire('/ask/semaphore', 2))) for $session, $sharer;
$waiter->start(q(SELECT zk_semaphore_acquire('/ask/semaphore', 2)));
wait_until('one waits for a lease',
	sub { $zk->children('/ask/semaphore/leases') == 3 });
$_->start('SELECT pg_sleep(1000)') for $session, $sharer;
sleeps($_) for $session, $sharer;
is(ask('/ask/semaphore'), 2, 'who have leases are asked');
like($_->result, asked_back('/ask/semaphore'), '... and cancelled')
  for $session, $sharer;
ok(!$waiter->is_done, '... and who waits is not');
$session->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... who is granted one then');
$_->query('SELECT zk_lock_release_all()') for $sharer, $waiter;

# Who waits for his node's sake gives up his watches, and not those of the holder.
$session->query(q(SELECT zk_lock_acquire('/ask/behind', mode => 'shared')));
is($waiter->query(q(SELECT zk_lock_acquire('/ask/behind', '1s', 'write'))),
	'f', 'somebody else waits for a lock, and gives up');
$proxy->wait_idle;
$session->start('SELECT pg_sleep(1000)');
sleeps($session);
is(ask('/ask/behind'), 1, '... who holds it can be asked');
like($session->result, asked_back('/ask/behind'), '... and is cancelled');
$session->query('SELECT zk_lock_release_all()');

# A simple lock's node is known by what it says.
$session->query(q(SELECT zk_lock_acquire('/ask/simple', mode => 'simple')));
like(ask('/ask/simple'),
	qr{^ERROR:  0A000: cannot revoke simple lock on "/ask/simple"\nDETAIL:  What}m,
	'a simple lock cannot be asked back');
is($session->query(q(SELECT zk_lock_release('/ask/simple', 'simple'))),
	't', '... and can be released');

# All the same if the request came before the watch,
for my $dir (qw(c2s s2c))
{
	$proxy->wait_idle;
	$proxy->mark;
	$proxy->rule(dir => $dir, op => 'getData', path => '/ask/before', action => 'hold',
		pings => 1);
	$session->query(q(BEGIN; SELECT zk_lock_guard('/ask/before')));
	$proxy->wait_frame(dir => $dir, op => 'getData');
	$session->start('SELECT pg_sleep(1000)');
	sleeps($session);
	is(ask('/ask/before'), 1, "one is asked while the watch is on its way ($dir)");
	$proxy->reset;
	like($session->result, asked_back('/ask/before'), '... and is cancelled');
	$session->query('ROLLBACK');
	wait_for_queue($zk, '/ask/before');

	# ... that was lost with its connection,
	$proxy->wait_idle;
	$proxy->mark;
	$proxy->rule(dir => $dir, op => 'getData', path => '/ask/before', action => 'drop');
	$session->query(q(BEGIN; SELECT zk_lock_guard('/ask/before')));
	$proxy->wait_frame(dir => 's2c', op => 'connect');
	$proxy->wait_idle;
	$session->start('SELECT pg_sleep(1000)');
	sleeps($session);
	is(ask('/ask/before'), 1, "one is asked whose watch was lost at first ($dir)");
	like($session->result, asked_back('/ask/before'), '... and is cancelled');
	$session->query('ROLLBACK');
	wait_for_queue($zk, '/ask/before');
}

# ... or comes while there is no connection.
$session->query(q(BEGIN; SELECT zk_lock_guard('/ask/away')));
$proxy->wait_idle;
$session->start('SELECT pg_sleep(1000)');
sleeps($session);
$proxy->refuse;
$proxy->cut;
is(ask('/ask/away'), 1, 'one is asked who has no connection');
ok(!$session->is_done, '... and does not know it');
$proxy->accept;
like($session->result, asked_back('/ask/away'), '... until he has one');
$session->query('ROLLBACK');

# Not everyone may ask, nor for what is elsewhere.
$other->safe_psql('postgres', q(
	CREATE ROLE plain LOGIN;
	CREATE ROLE signaller LOGIN IN ROLE pg_signal_backend;
	ALTER ROLE signaller SET zklock.path_prefix = '/ask'));
for my $case (
	[ 'plain', '/ask/x', qr/^ERROR:  42501: permission denied for function/m ],
	[ 'signaller', '/ask/x', qr/^0$/ ],
	[
		'signaller', '/elsewhere',
		qr/^ERROR:  42501: permission denied for lock path/m
	])
{
	my ($role, $path, $answer) = @$case;
	local $ENV{PGUSER} = $role;
	my $confined = ZkTest->new($other);

	like($confined->query("SELECT zk_lock_revoke('$path')"),
		$answer, "$role asks for $path");
	$confined->close;
}
like($asker->query('SELECT zk_lock_revoke(NULL)'),
	qr/^ERROR:  22004:/m, 'nobody can be asked for nothing');

# A node that may not be written to
my $closed =
  ZkTest->new($other, OWN_SESSION, 'zklock.acl' => 'world:anyone:cdra', @agreed);
$closed->query(q(SELECT zk_lock_acquire('/ask/closed')));
like(
	ask('/ask/closed'),
	qr{^ERROR:  28000: could not revoke lock on "/ask/closed"\nDETAIL:  ZooKeeper refused to write to "/ask/closed/}m,
	'who may not write to the node cannot ask');
$closed->close;

# Below a path at the end of zklock.hosts
$zk->create('/below', '', 0);
my $below = ZkTest->new(
	with_settings($main, 'zklock.hosts' => $zk->hosts . '/below', @agreed));
$below->query(q(BEGIN; SELECT zk_lock_guard('/ask')));
$below->start('SELECT pg_sleep(1000)');
wait_until('it is in line', sub { $zk->children('/below/ask') == 1 });
is(ask('/below/ask'), 1, 'one is asked whose root is elsewhere');
like($below->result, asked_back('/ask'), '... and is cancelled');
$below->close;

# Backends of one server do not hand over what somebody has asked for.
my $shared = new_node(
	'shared', $zk->hosts,
	'zklock.session' => 'server',
	'zklock.session_timeout' => '40s',
	'zklock.local_handover' => '1h');
my ($first, $second) = map { ZkTest->new($shared, @agreed) } (1, 2);

$first->query(q(BEGIN; SELECT zk_lock_guard('/ask/gate')));
$second->start(q(SELECT zk_lock_acquire('/ask/gate')));
wait_for_queue($zk, '/ask/gate', $first, $second);
$rival->start(q(SELECT zk_lock_acquire('/ask/gate')));
wait_for_queue($zk, '/ask/gate', $first, $second, $rival);
$first->start('SELECT pg_sleep(1000)');
$shared->poll_query_until('postgres',
	"SELECT wait_event = 'PgSleep' FROM pg_stat_activity
	 WHERE pid = ${\ $first->pid}");
is(ask('/ask/gate'), 1, 'a server is asked, where somebody else waits');
like($first->result, asked_back('/ask/gate'), '... who holds the lock is cancelled');
$first->query('ROLLBACK');
is($rival->result, 't', '... and it goes to another server');
ok(!$second->is_done, '... and not to who waits there');
$rival->query('SELECT zk_lock_release_all()');
is($second->result, 't', '... whose turn comes then');

# So it is if who holds the lock on the node of one who has agreed has not himself;
# but he is left alone.
my ($third, $fourth) = map { ZkTest->new($shared) } (1, 2);

$third->start(q(SELECT zk_lock_acquire('/ask/gate')));
wait_for_queue($zk, '/ask/gate', $second, $third);
$second->query('SELECT zk_lock_release_all()');
is($third->result, 't', 'a lock is handed over to one who has not agreed');
$fourth->start(q(SELECT zk_lock_acquire('/ask/gate')));
wait_for_queue($zk, '/ask/gate', $third, $fourth);
is(ask('/ask/gate'), 1, '... its server is asked');
($name) = $zk->children('/ask/gate');
wait_until('it is heard',
	sub { $zk->get("/ask/gate/$name")->{version} == 2 });
$first->query(q(SELECT zk_lock_acquire('/ask/next')));    # the worker knows, too
$rival->start(q(SELECT zk_lock_acquire('/ask/gate')));
wait_for_queue($zk, '/ask/gate', $third, $fourth, $rival);
is($third->query("SELECT revoked, lost $mine"), 'f|f', '... he is left alone');
is($third->query(q(SELECT zk_lock_release('/ask/gate'))), 't', '... until he releases it');
is($rival->result, 't', '... when it goes to another server');
$rival->query('SELECT zk_lock_release_all()');
is($fourth->result, 't', '... and then to who waits there');

# ZooKeeper must not be told of too many watches at once, as a new connection does.
$session = ZkTest->new($main, @agreed);
my $many = q(
	SELECT zk_lock_acquire_all(ARRAY(SELECT format('/%s-%s', i, repeat('x', 1017))
		FROM generate_series(1000, 1000 + $n - 1) i)));
like($session->query($many =~ s/\$n/600/r),
	qr/^ERROR:  53200: too many ZooKeeper watches /, 'too many locks with long names');
# Those count until ZooKeeper has confirmed that they have gone.
ok( wait_until('they have gone', sub { $session->query($many =~ s/\$n/400/r) eq 't' }),
	'... but many');
$proxy->wait_idle;
$proxy->mark;
$proxy->cut;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$session->start('SELECT pg_sleep(1000)');
sleeps($session);
my $long = '/1000-' . 'x' x 1017;
is(ask($long), 1, '... which are known to another connection');
like($session->result, asked_back($long), '... that hears what is asked');
is($session->query('SELECT zk_lock_release_all()'), '400', '... to the end');

done_testing();
