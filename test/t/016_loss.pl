# A lock that is lost while its holder is in the middle of something: the
# statement that runs is cancelled, the transaction cannot commit, here or on
# another server, and a fence refuses it even if nobody looks.

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

# The stock is in one server, and the other one sells, too.
$main->safe_psql('postgres', q(
	CREATE TABLE stock (n int);
	INSERT INTO stock VALUES (10)));
create_fence($main);
import_tables($other, $main, qw(stock fence));

# Sessions that soon expire, which each have to themselves, and one that is not
# behind the proxy
my @brief = (OWN_SESSION, 'zklock.session_timeout' => '1s');
my @proxied = (@brief, 'zklock.hosts' => $proxy->hosts);

# When ZooKeeper has ended the session of who hears nothing, two thirds of its timeout
# pass until he gives it up himself. That has to be enough for what is to be seen in
# between, on a busy machine, too.
my @unaware = (@proxied, 'zklock.session_timeout' => '3s',
	'zklock.confirm_commit' => 'off');
my $rival = ZkTest->new($other);

sub stock
{
	return $main->safe_psql('postgres', 'SELECT n FROM stock');
}

# Lets the session of who holds a lock end, without its notice.
sub steal
{
	my ($path) = @_;

	$proxy->hold;
	is($rival->query("SELECT zk_lock_acquire('$path')"),
		't', '... somebody else has the lock');
	return;
}

# Who lost the lock finds out, and the other gives it back.
sub settle
{
	my ($path) = @_;

	$proxy->release;
	$rival->query("SELECT zk_lock_release('$path')");
	wait_for_queue($zk, $path);
	return;
}

# A statement under way is cancelled, whatever it does.

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

	# What is loaded in the middle of a statement knows only the rest of it.
	$session->query(q(LOAD 'zklock'; BEGIN));
	$session->query(q(SELECT zk_lock_guard('/loss/early')))
	  if $what !~ /gives/;
	$session->start($statements{$what});
	wait_for_queue($zk, '/loss/early', $session);
	$main->poll_query_until('postgres',
		"SELECT wait_event = 'PgSleep' FROM pg_stat_activity
		 WHERE pid = ${\ $session->pid}")
	  if $what =~ /gives/;
	steal('/loss/early');
	$proxy->release;
	like(
		$session->result,
		qr{^ERROR:  40001: lock on "/loss/early" was lost\nDETAIL:  (The Zoo|There has been no)}m,
		"... $what is cancelled, and told why");
	is($session->query('ROLLBACK; SELECT count(*) FROM zk_locks'),
		'0', '... and the backend goes on');
	settle('/loss/early');
	$session->close;
}

# So it is if the connection stays away for as long as a session lives.
my $session = ZkTest->new($main, @proxied);
$session->query(q(SELECT zk_lock_acquire('/loss/early')));
$session->start('SELECT pg_sleep(1000)');
$proxy->refuse;
$proxy->cut;
like(
	$session->result,
	qr{^ERROR:  40001: lock on "/loss/early" was lost\nDETAIL:  There has been no}m,
	'a statement is cancelled when the connection stays away');
wait_for_queue($zk, '/loss/early');
$proxy->accept;
wait_until('the session has forgotten the lock',
	sub { $session->query('SELECT count(*) FROM zk_locks') eq '0' });
$session->close;

# Who asks whether a lock is held is told that it is lost; the transaction is refused
# all the same.
$session = ZkTest->new($main, @proxied);
$session->query(q(LOAD 'zklock'; BEGIN; SELECT zk_lock_guard('/loss/held')));
is($session->query(q(SELECT zk_lock_held('/loss/held'))), 't', 'a lock that is held');
$proxy->mark;
steal('/loss/held');
$proxy->release;
$proxy->wait_frame(dir => 's2c', op => 'connect');
$proxy->wait_idle;
wait_until('... and is lost, is not held',
	sub { $session->query(q(SELECT zk_lock_held('/loss/held'))) eq 'f' });
like($session->query('COMMIT'), qr{^ERROR:  40001: lock on "/loss/held" was lost}m,
	'... which the commit says, too');
is($session->query(q(SELECT zk_lock_held('/loss/held'))), 'f', '... nor is it after that');
settle('/loss/held');
$session->close;

# A statement is left alone if nothing is held, or nothing lost.
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
	$proxy->mark;
	if ($loses)
	{
		$proxy->hold;
		wait_until('the session is over',
			sub { !grep { $_ eq $id } $zk->sessions });
	}
	else
	{
		$proxy->cut;
	}
	$proxy->release;
	$proxy->wait_frame(dir => 's2c', op => 'connect');
	$proxy->wait_idle;
	$key->query('SELECT pg_advisory_unlock(1)');
	is($session->result, '', "a statement of one who $what is left alone");
	my $state = $loses ? 'expired' : 'connected';
	wait_until("it is $state",
		sub { $session->query('SELECT state FROM zk_session()') eq $state });
	pass('... as was to be shown');

	$session->start('SELECT pg_sleep(1000)');
	$main->poll_query_until('postgres',
		"SELECT pg_cancel_backend(pid) FROM pg_stat_activity
		 WHERE pid = ${\ $session->pid} AND wait_event = 'PgSleep'");
	like($session->result, qr/^ERROR:  57014:/m, '... and can be cancelled');
	$_->close for $session, $key;
	wait_for_queue($zk, '/loss/early');
}

# A backend stands still while another server takes the lock and sells. What it
# has read is not true any more, and it cannot commit what it makes of that.
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
is($session->query($read), '10', 'one reads the stock under the lock');
kill('STOP', $session->pid);
is($rival->query($sell), '', '... and stands still while another one sells');
is(stock(), 9, '... who is right to');
kill('CONT', $session->pid);
like(
	$session->query('UPDATE stock SET n = :seen - 1; COMMIT'),
	qr{^ERROR:  40001: lock on "/loss/stock" was lost}m,
	'... goes on, and cannot commit');
is(stock(), 9, '... so that no sale is lost');
$session->close;

# The same without the check, and with no news of the loss.
for my $fenced (0, 1)
{
	$session = ZkTest->new($main, @unaware);
	$session->query($read);
	$proxy->hold;
	is($rival->query($sell), '', 'another one sells, and no commit is checked');
	my $now = stock();
	if ($fenced)
	{
		like(
			$session->query(q(SELECT zk_lock_fence('/loss/stock'))),
			qr{^ERROR:  40001: lock on "/loss/stock" was lost\nDETAIL:  Its fen}m,
			'... the fence stops who lost the lock');
		$session->query('COMMIT');
		is(stock(), $now, '... so that no sale is lost');
	}
	else
	{
		is($session->query('UPDATE stock SET n = :seen - 1; COMMIT'),
			'', '... who lost the lock commits');
		is(stock(), $now, '... and a sale is lost');
	}
	$proxy->release;
	$session->close;
}

# Who has fenced comes first, and the next one waits for the end of that.
$session = ZkTest->new($main, @unaware);
my $before = $session->query($read);
is($session->query(q(SELECT zk_lock_fence('/loss/stock') = :token)),
	't', 'one fences in time');
$proxy->hold;
$rival->start($sell);
$main->poll_query_until('postgres',
	q(SELECT count(*) > 0 FROM pg_stat_activity
	  WHERE wait_event_type = 'Lock' AND application_name = 'postgres_fdw'));
is($session->query('UPDATE stock SET n = :seen - 1; COMMIT'),
	'', '... and commits, though the lock is lost meanwhile');
like($rival->result, qr{^ERROR:  40001: could not serialize access}m,
	'... for which the next one waits, but with a snapshot (postgres_fdw)');
is($rival->query($sell), '', '... so that it has to retry');
is(stock(), $before - 2, '... and no sale is lost');
$proxy->release;
$session->close;

# A node that somebody has deleted is as good as a session that is over.
$session = ZkTest->new($main, 'zklock.confirm_commit' => 'always');
$session->query(q(SELECT zk_lock_acquire('/loss/deleted')));
$zk->delete("/loss/deleted/$_") for $zk->children('/loss/deleted');
like(
	$session->query('SELECT 1'),
	qr{^ERROR:  40001: lock on "/loss/deleted" was lost\nDETAIL:  Its node}m,
	'a lock is lost whose node somebody has deleted');
is($session->query('SELECT count(*) FROM zk_locks'),
	'0', '... and that is told once');
$session->close;

# A lock that is given back before the commit is not asked for any more then, but
# it is before it is given back.
my %releases = (
	q(zk_lock_release('/loss/early')) => q(zk_lock_acquire('/loss/early')),
	q(zk_semaphore_release('/loss/semaphore')) =>
	  q(zk_semaphore_acquire('/loss/semaphore', 1)),
	'zk_lock_release_all()' => q(zk_lock_acquire('/loss/early')));

for my $release (sort keys %releases)
{
	my $before = stock();
	my $session =
	  ZkTest->new($main, @proxied, 'zklock.connect_timeout' => '2s');

	$session->query("SELECT $releases{$release}");
	my $id = $session->query('SELECT session_id FROM zk_session()');
	$session->query('BEGIN; UPDATE stock SET n = n - 1');
	$proxy->hold;
	wait_until('the session is over',
		sub { !grep { $_ eq $id } $zk->sessions });
	like(
		$session->query("SELECT $release; COMMIT"),
		qr{^ERROR:  40001: lock on "/loss/\w+" was lost}m,
		"$release says so when the lock is lost");
	is(stock(), $before, '... and the transaction does not commit');
	$proxy->release;
	$session->close;
}

# What was written on another server is not committed there before the check.
$session = ZkTest->new($other, @brief);
$session->query(
	q(BEGIN; SELECT zk_lock_guard('/loss/stock'); UPDATE stock SET n = 0));
kill('STOP', $session->pid);
is($rival->query(q(SELECT zk_lock_acquire('/loss/stock'))),
	't', 'a lock is lost by one who wrote elsewhere');
kill('CONT', $session->pid);
like(
	$session->query('COMMIT'),
	qr{^ERROR:  40001: lock on "/loss/stock" was lost}m,
	'... who cannot commit');
is(stock(), $before - 2, '... neither here nor there');
$rival->query(q(SELECT zk_lock_release('/loss/stock')));
$session->close;

# Nor if a procedure commits in its midst.
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
$other->poll_query_until('postgres',
	"SELECT wait_event_type = 'Lock' FROM pg_stat_activity
	 WHERE pid = ${\ $session->pid}");
steal('/loss/stock');
$key->query('SELECT pg_advisory_unlock(1)');
like(
	$session->result,
	qr{^ERROR:  40001: lock on "/loss/stock" was lost}m,
	'... a procedure that has lost its lock cannot commit');
is(stock(), $before - 2, '... neither here nor there');
settle('/loss/stock');
$_->close for $session, $key;

# A dump has the fences: who restores it keeps what they kept out.
my $tokens = 'SELECT path, token, number, shared_token FROM zk_lock_fences';
my $dump = "$PostgreSQL::Test::Utils::tmp_check/dump.sql";
$main->command_ok([ 'pg_dump', '-f', $dump, '-d', $main->connstr('postgres') ],
	'pg_dump');
$main->safe_psql('postgres', 'CREATE DATABASE restored');
$main->command_ok(
	[ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d',
		$main->connstr('restored') ],
	'... and restore');
like($main->safe_psql('restored', $tokens),
	qr{^/loss/stock\|\d+\|0\|0$}, '... brings the fences along');
is( $main->safe_psql('restored', $tokens),
	$main->safe_psql('postgres', $tokens),
	'... as they are');

done_testing();
