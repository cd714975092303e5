# A lock is lost while its holder is busy: the running statement is cancelled,
# the transaction cannot commit, here or on another server, and a fence refuses
# it even without these checks.
#
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $main = new_node('main', $zk->hosts);
my $other = new_node('other', $zk->hosts);

# The table is on one server, and both servers sell.
$main->safe_psql('postgres', q(
	CREATE TABLE stock (n int);
	INSERT INTO stock VALUES (10)));
create_fence($main);
import_tables($other, $main, qw(stock fence));

# Settings of sessions with a short timeout that are not shared, directly and
# through the proxy
my @brief = (OWN_SESSION, 'zklock.session_timeout' => '1s');
my @proxied = (@brief, 'zklock.hosts' => $proxy->hosts);

# After ZooKeeper has ended the session of a backend that receives no messages,
# the backend assumes for two thirds of the timeout that it is alive. That must
# be enough for the checks in between, even on a busy machine.
my @unaware = (@proxied, 'zklock.session_timeout' => '3s',
	'zklock.confirm_commit' => 'off');
my $rival = ZkTest->new($other);

sub stock
{
	return $main->safe_psql('postgres', 'SELECT n FROM stock');
}

# Ends the session of a lock's holder without its notice, and gives the lock to
# the rival.
sub take_over
{
	my ($path) = @_;

	$proxy->hold;
	is($rival->query("SELECT zk_lock_acquire('$path')"),
		't', '... another backend acquires the lock');
	return;
}

# Lets the former holder learn of the loss, and the rival give the lock back.
sub settle
{
	my ($path) = @_;

	$proxy->release;
	$rival->query("SELECT zk_lock_release('$path')");
	wait_for_queue($zk, $path);
	return;
}

# Any running statement is cancelled.

my $do = q(DO $$ BEGIN %s EXCEPTION WHEN OTHERS THEN NULL; END $$);
my $sleep = 'PERFORM pg_sleep(1000);';
my %statements = (
	'a query' => 'SELECT pg_sleep(1000)',
	'a function that catches all errors' => sprintf($do, $sleep),
	'one that gives its lock back when it does' =>
	  sprintf($do, "PERFORM zk_lock_guard('/loss/early'); $sleep"),
	'a wait for another lock' => q(SELECT zk_lock_acquire('/loss/taken')),
	'a trigger' => 'INSERT INTO slow VALUES (1)');

$main->safe_psql('postgres', qq(
	CREATE TABLE slow (n int);
	CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN $sleep RETURN NULL; END';
	CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow
		FOR EACH ROW EXECUTE FUNCTION slow()));
$rival->query(q(SELECT zk_lock_acquire('/loss/taken')));

for my $what (sort keys %statements)
{
	my $session = ZkTest->new($main, @proxied);

	# Load zklock first: a library that is loaded during a statement sees only
	# the rest of that statement.
	$session->query(q(LOAD 'zklock'; BEGIN));
	$session->query(q(SELECT zk_lock_guard('/loss/early')))
	  if $what !~ /gives/;
	$session->start($statements{$what});
	wait_for_queue($zk, '/loss/early', $session);
	$session->wait_for_event('PgSleep')
	  if $what =~ /gives/;
	take_over('/loss/early');
	$proxy->release;
	like(
		$session->result,
		qr{^ERROR:  40001: lock on "/loss/early" was lost\nDETAIL:  (The Zoo|ZooKeeper has not)}m,
		"... $what is cancelled with a reason");
	is($session->query('ROLLBACK; SELECT count(*) FROM zk_locks'),
		'0', '... and the backend can run more statements');
	settle('/loss/early');
	$session->close;
}

# The statement is also cancelled if the connection is away for as long as the
# session's timeout.
my $session = ZkTest->new($main, @proxied);
$session->query(q(SELECT zk_lock_acquire('/loss/early')));
$session->start('SELECT pg_sleep(1000)');
$proxy->refuse;
$proxy->cut;
like(
	$session->result,
	qr{^ERROR:  40001: lock on "/loss/early" was lost\nDETAIL:  ZooKeeper has not confirmed}m,
	'statement is cancelled when the connection stays away');
wait_for_queue($zk, '/loss/early');
$proxy->accept;
wait_until('the session has forgotten the lock',
	sub { $session->query('SELECT count(*) FROM zk_locks') eq '0' });
$session->close;

# In a transaction, each statement fails after the loss, also one that only asks.
$session = ZkTest->new($main, @proxied);
$session->query(q(LOAD 'zklock'; BEGIN; SELECT zk_lock_guard('/loss/held')));
is($session->query(q(SELECT zk_lock_held('/loss/held'))),
	't', 'zk_lock_held() returns true for a lock that is held');
take_over('/loss/held');
$proxy->release;
my $answer;
wait_until('the session knows of the loss',
	sub { ($answer = $session->query(q(SELECT zk_lock_held('/loss/held')))) ne 't' });
like($answer, qr{^ERROR:  40001: lock on "/loss/held" was lost}m,
	'... and fails after the loss, as any statement');
is($session->query(q(COMMIT; SELECT zk_lock_held('/loss/held'))),
	'f', '... and returns false after the transaction');
settle('/loss/held');
$session->close;

# A statement continues if its backend holds no lock or has lost none.
for my $what ('holds nothing', 'has lost nothing')
{
	my $loses = $what eq 'holds nothing';
	my $session = ZkTest->new($main, @proxied,
		$loses ? () : ('zklock.session_timeout' => '30s'));
	my $key = ZkTest->new($main);

	$key->query('SELECT pg_advisory_lock(1)');
	$session->query(q(SELECT zk_lock_acquire('/loss/early')));
	$session->query(q(SELECT zk_lock_release('/loss/early'))) if $loses;
	my $id = $session->query('SELECT session_id FROM zk_session()');
	$session->start('SELECT pg_advisory_lock(1)');
	if ($loses)
	{
		$proxy->hold;
		wait_until('the session is over',
			sub { !grep { $_ eq $id } $zk->sessions });
	}
	else
	{
		$proxy->mark;
		$proxy->cut;
		$proxy->wait_frame(dir => 's2c', op => 'connect');
	}
	$proxy->release;
	$proxy->wait_idle;
	$key->query('SELECT pg_advisory_unlock(1)');
	is($session->result, '', "statement of a backend that $what continues");

	# The worker may have begun another session already.
	my $expected =
	  $loses
	  ? "state = 'expired' OR session_id <> '$id'"
	  : "state = 'connected' AND session_id = '$id'";
	wait_until("this is seen of the session: $expected",
		sub { $session->query("SELECT $expected FROM zk_session()") eq 't' });
	pass('... whose session has ' . ($loses ? 'ended' : 'survived'));

	$session->start('SELECT pg_sleep(1000)');
	$main->poll_query_until('postgres',
		"SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		 WHERE pid = ${\ $session->pid} AND wait_event = 'PgSleep'");
	like($session->result, qr/^ERROR:  57014:/m, '... and a statement can be cancelled');
	$_->close for $session, $key;
	wait_for_queue($zk, '/loss/early');
}

# A backend is suspended while another server takes the lock and sells. The
# backend has read outdated data and cannot commit changes based on it.
my $sell = q(
	BEGIN;
	SELECT zk_lock_guard('/loss/stock') AS token \gset
	INSERT INTO fence VALUES ('/loss/stock', :token);
	SELECT n AS seen FROM stock \gset
	UPDATE stock SET n = :seen - 1;
	COMMIT);
my $read = q(
	BEGIN;
	SELECT zk_lock_guard('/loss/stock') AS token \gset
	SELECT n AS seen FROM stock \gset
	\echo :seen
	);

$session = ZkTest->new($main, @brief);
is($session->query($read), '10', 'backend reads the stock under the lock');
kill('STOP', $session->pid);
is($rival->query($sell), '', '... and is suspended while another backend sells');
is(stock(), 9, '... whose sale is committed');
kill('CONT', $session->pid);
like(
	$session->query('UPDATE stock SET n = :seen - 1; COMMIT'),
	qr{^ERROR:  40001: lock on "/loss/stock" was lost}m,
	'... the resumed backend cannot commit');
is(stock(), 9, '... and no sale is lost');
$session->close;

# The same without the check at commit, and without notice of the loss.
for my $fenced (0, 1)
{
	$session = ZkTest->new($main, @unaware);
	$session->query($read);
	$proxy->hold;
	is($rival->query($sell),
		'', 'another backend sells while the first does not know of its loss');
	my $now = stock();
	if ($fenced)
	{
		like(
			$session->query(q(SELECT zk_lock_fence('/loss/stock'))),
			qr{^ERROR:  40001: lock on "/loss/stock" was lost\nDETAIL:  Its fen}m,
			'... the fence refuses the former holder');
		$session->query('COMMIT');
		is(stock(), $now, '... and no sale is lost');
	}
	else
	{
		is($session->query('UPDATE stock SET n = :seen - 1; COMMIT'),
			'', '... the former holder commits without a fence');
		is(stock(), $now, '... and a sale is lost');
	}
	$proxy->release;
	$session->close;
}

# A backend that fences first can commit, and the next one waits for its end.
$session = ZkTest->new($main, @unaware);
my $before = $session->query($read);
is($session->query(q(SELECT zk_lock_fence('/loss/stock') = :token)),
	't', 'backend fences before it loses the lock');
$proxy->hold;
$rival->start($sell);
$main->poll_query_until('postgres',
	q(SELECT count(*) > 0 FROM pg_stat_activity
	  WHERE wait_event_type = 'Lock' AND application_name = 'postgres_fdw'));
is($session->query('UPDATE stock SET n = :seen - 1; COMMIT'),
	'', '... and commits, although the lock is lost meanwhile');
like($rival->result, qr{^ERROR:  40001: could not serialize access}m,
	'... the next holder has waited, but its snapshot is too old (postgres_fdw)');
is($rival->query($sell), '', '... it succeeds when it retries');
is(stock(), $before - 2, '... and no sale is lost');
$proxy->release;
$session->close;

# A lock is also lost when its node is deleted by hand.
$session = ZkTest->new($main, 'zklock.confirm_commit' => 'always');
$session->query(q(SELECT zk_lock_acquire('/loss/deleted')));
$zk->delete("/loss/deleted/$_") for $zk->children('/loss/deleted');
like(
	$session->query('SELECT 1'),
	qr{^ERROR:  40001: lock on "/loss/deleted" was lost\nDETAIL:  Its node}m,
	'lock is lost when its node is deleted');
is($session->query('SELECT count(*) FROM zk_locks'),
	'0', '... and the loss is reported once');
$session->close;

# A release in the middle of a transaction checks the lock, because the commit
# does not check it any more.
my %releases = (
	q(zk_lock_release('/loss/early')) => q(zk_lock_acquire('/loss/early')),
	q(zk_semaphore_release('/loss/semaphore')) =>
	  q(zk_semaphore_acquire('/loss/semaphore', 1)),
	'zk_lock_release_all()' => q(zk_lock_acquire('/loss/early')),
	'zk_advisory.pg_advisory_unlock(9)' => 'zk_advisory.pg_advisory_lock(9)');

$main->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory');
for my $release (sort keys %releases)
{
	my $before = stock();
	my $session =
	  ZkTest->new($main, @proxied, 'zklock.connect_timeout' => '2s', 'zklock.on_loss' => 'cancel');

	$session->query("SELECT $releases{$release}");
	my $id = $session->query('SELECT session_id FROM zk_session()');
	$session->query('BEGIN; UPDATE stock SET n = n - 1');
	$proxy->hold;
	wait_until('the session is over',
		sub { !grep { $_ eq $id } $zk->sessions });
	like(
		$session->query("SELECT $release; COMMIT"),
		qr{^ERROR:  40001: lock on "[\w/]+" was lost}m,
		"$release raises an error when the lock is lost");
	is(stock(), $before, '... and the transaction does not commit');
	$proxy->release;
	$session->close;
}

# The check comes before changes are committed on another server.
$session = ZkTest->new($other, @brief);
$session->query(
	q(BEGIN; SELECT zk_lock_guard('/loss/stock'); UPDATE stock SET n = 0));
kill('STOP', $session->pid);
is($rival->query(q(SELECT zk_lock_acquire('/loss/stock'))),
	't', 'lock of a backend that wrote on another server is lost');
kill('CONT', $session->pid);
like(
	$session->query('COMMIT'),
	qr{^ERROR:  40001: lock on "/loss/stock" was lost}m,
	'... and the backend cannot commit');
is(stock(), $before - 2, '... on either server');
$rival->query(q(SELECT zk_lock_release('/loss/stock')));
$session->close;

# The same for a procedure that commits.
$other->safe_psql('postgres', q(
	CREATE PROCEDURE sell_out() LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM zk_lock_guard('/loss/stock');
		UPDATE stock SET n = 0;
		PERFORM pg_advisory_xact_lock(1);
		COMMIT;
	END $$));
my $key = ZkTest->new($other);
$key->query('SELECT pg_advisory_lock(1)');
$session = ZkTest->new($other, @proxied);
$session->query(q(LOAD 'zklock'));
$session->start('CALL sell_out()');
$session->wait_for_event('Lock');
take_over('/loss/stock');
$key->query('SELECT pg_advisory_unlock(1)');
like(
	$session->result,
	qr{^ERROR:  40001: lock on "/loss/stock" was lost}m,
	'... a procedure that has lost its lock cannot commit');
is(stock(), $before - 2, '... on either server');
settle('/loss/stock');
$_->close for $session, $key;

# A dump contains the fences: after a restore they refuse the same holders.
my $tokens = 'SELECT path, token, grant_number, shared_token FROM zk_lock_fences';
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$main->command_ok([ 'pg_dump', '-f', $dump, '-d', $main->connstr('postgres') ],
	'pg_dump succeeds');
$main->safe_psql('postgres', 'CREATE DATABASE restored');
$main->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d',
		$main->connstr('restored') ],
	'... and the restore');
like($main->safe_psql('restored', $tokens),
	qr{^/loss/stock\|\d+\|0\|0$}, '... contains the fences');
is( $main->safe_psql('restored', $tokens),
	$main->safe_psql('postgres', $tokens),
	'... unchanged');

done_testing();
