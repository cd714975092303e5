# zklock.hosts is changed while locks are in use: no lock is lost, and the
# server's session moves to the new addresses as soon as it can. Sessions with
# their own setting are not affected.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant LOAD => 4;

my ($old, $new) = map { ZkServer->new->start } 1 .. 2;
my $node =
  new_node('main', $old->hosts, 'zklock.session_mode' => 'server', max_connections => 30);
my $worker = worker_of($node);

sub set_hosts
{
	my ($zk) = @_;

	$node->safe_psql('postgres',
		"ALTER SYSTEM SET zklock.hosts = '${\ $zk->hosts}'");
	$node->reload;
	return;
}

# The lines of the server's log that match.
sub logged
{
	my ($pattern) = @_;

	return grep { /LOG:  .*$pattern/ } split(/\n/, slurp_file($node->logfile));
}

my $settings = qr/changed settings of the ZooKeeper session/;
my $waits = qr/$settings wait until no lock is held or waited for/;

# Sessions that acquire and release locks in a loop, and one that holds a lock
# throughout

$node->safe_psql('postgres', 'CREATE TABLE t (done int)');
my @load = map { ZkTest->new($node) } 1 .. LOAD;
my $holder = ZkTest->new($node);
my $waiter = ZkTest->new($node);
my $observer = ZkTest->new($node);

$holder->query(q(SELECT zk_lock_acquire('/hosts/held')));
$load[$_]->start(qq(
	DO \$\$ BEGIN
		WHILE NOT EXISTS (SELECT FROM t) LOOP
			PERFORM zk_lock_guard('/hosts/load');
			PERFORM zk_lock_guard('/hosts/own$_');
			COMMIT;
		END LOOP;
	END \$\$)) for 0 .. $#load;
$waiter->start(q(SELECT zk_lock_acquire('/hosts/held')));
wait_until('all sessions have locks or wait', sub { $old->children("/hosts") == LOAD + 2 });

my $newcomer = ZkTest->new($node);
my @refused;

set_hosts($new);

# While the worker waits for a moment to end the session, newcomers with a
# short timeout are delayed, but not refused.
wait_until(
	'the worker has delayed newcomers',
	sub {
		my $answer = $newcomer->query(
			q(SELECT zk_lock_acquire('/hosts/brief', '2s'), zk_lock_release_all()));

		push @refused, $answer if $answer =~ /^ERROR:  08001/;
		return logged($waits);
	});
is(join("\n", @refused), '', 'newcomer with a short timeout is not refused');
wait_until('the settings are reloaded',
	sub { $observer->query('SHOW zklock.hosts') eq $new->hosts });
$node->reload;
is( $newcomer->query(q(SELECT zk_lock_acquire('/hosts/new'), zk_lock_release_all())),
	't|1', 'newcomer is served while the settings wait');
ok(!grep({ $_ eq 'hosts' } $new->children('/')), '... in the old session');
is($observer->query('SELECT connected, reload_pending FROM zk_server_status'),
	't|t', '... and zk_server_status shows that settings wait');
ok(!$_->is_done, 'no session has lost a lock') for @load, $waiter;
is($holder->query('SELECT 1'), 1, '... nor has the holder');
is($holder->query('SELECT zk_lock_release_all()'), 1, '... and can release its lock');
is($waiter->result, 't', '... the waiter is granted it');
is($waiter->query('SELECT zk_lock_release_all()'), 1, '... and can release it');

# Each session has moments without a lock. The worker delays newcomers from
# time to time until no lock is held at all.
wait_until('the new addresses are used',
	sub { $new->children('/hosts') >= LOAD + 1 });
ok(!$_->is_done, '... under load') for @load;
wait_until('the old session has ended', sub { !$old->sessions });
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
is($_->result, '', '... and no session gets an error') for @load;
is(worker_of($node), $worker, '... and the worker is the same process');
is(scalar(logged($waits)), 1, 'log says once that the settings wait');
like(slurp_file($node->logfile),
	qr/DETAIL:  There are \d+ locks in this session\.  The oldest is that of process ${\ $holder->pid}\.\n/,
	'... with the oldest lock in the detail');
is(scalar(logged(qr/$settings are in force after \d+ ms/)),
	1, '... and when the settings are in effect');
wait_until_idle($node, $new, '/hosts/load');
is($observer->query('SELECT connected, reload_pending FROM zk_server_status'),
	't|f', '... and zk_server_status shows no waiting settings');

# A setting of a database, a role or a session leads to a session of the
# backend's own.

$node->safe_psql('postgres',
	"ALTER DATABASE postgres SET zklock.hosts = '${\ $old->hosts}'");
$node->safe_psql('postgres', 'CREATE DATABASE neutral');
my $own = ZkTest->new($node);
is($own->query(q(SELECT zk_lock_acquire('/hosts/own'))),
	't', 'lock is acquired with a setting of the database');
ok(scalar($old->children('/hosts/own')), '... at those addresses');
ok(!$new->children('/hosts/own'), "... and not in the server's session");
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET zklock.hosts');
$own->close;
$node->safe_psql('postgres',
	"ALTER ROLE CURRENT_USER SET zklock.hosts = '${\ $old->hosts}'");
$own = ZkTest->new($node);
is($own->query(q(SELECT zk_lock_acquire('/hosts/role'))),
	't', 'lock is acquired with a setting of the role');
ok(scalar($old->children('/hosts/role')), '... at those addresses');
$node->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET zklock.hosts');
$own->close;
$own = ZkTest->new($node, 'zklock.hosts' => $old->hosts);
is($own->query(q(SELECT zk_lock_acquire('/hosts/session'))),
	't', 'lock is acquired with a setting of the session');
ok(scalar($old->children('/hosts/session')), '... at those addresses');
$own->query('RESET zklock.hosts');
is($own->query(q(SELECT zk_lock_acquire('/hosts/first'))), 't',
	'lock is acquired after the setting is reset while a lock is held');
ok(scalar($old->children('/hosts/first')), '... in the session of the first lock');
$own->query('SELECT zk_lock_release_all()');
is($own->query(q(SELECT zk_lock_acquire('/hosts/last'))),
	't', 'lock is acquired after all locks are released');
ok(scalar($new->children('/hosts/last')), "... in the server's session");
ok(!$old->children('... only'), '... only');

# While changed settings wait, requests are delayed for up to half of their time. ZooKeeper's
# answer, which takes most of it, is in time all the same.

my $proxy = ZkProxy->new($new->hosts);
my $slow = new_node('slow', $proxy->hosts, 'zklock.session_mode' => 'server');
my ($keeper, $newcomer) = map { ZkTest->new($slow) } 1 .. 2;

# The first moment in which requests are delayed begins as soon as the settings wait.
$slow->safe_psql('postgres', q(
	CREATE FUNCTION acquire_when_they_wait() RETURNS bool LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM pg_reload_conf();
		WHILE NOT (SELECT reload_pending FROM zk_server_status) LOOP
		END LOOP;
		RETURN zk_lock_acquire('/slow/free', '2s');
	END $$));
$keeper->query(q(SELECT zk_lock_acquire('/slow/held')));

# The time that is left is half of a moment. On a slow machine, several tries may need more; if
# the delay were not added to the time, all would.
my $in_time;
for my $try (1 .. 10)
{
	$newcomer->query(q(SELECT zk_lock_acquire('/slow/free'), zk_lock_release_all()));
	wait_for_queue($new, '/slow/free');
	$slow->safe_psql('postgres', q(ALTER SYSTEM SET zklock.session_timeout = '11s'));
	$proxy->rule(dir => 's2c', op => 'create2', path => '^/slow/free', action => 'delay', ms => 1750);
	$in_time = $newcomer->query('SELECT acquire_when_they_wait(), zk_lock_release_all()');
	$slow->safe_psql('postgres', 'ALTER SYSTEM RESET zklock.session_timeout');
	$slow->reload;
	wait_until('no settings wait',
		sub { $newcomer->query('SELECT reload_pending FROM zk_server_status') eq 'f' });
	last if $in_time eq 't|1';
}
is($in_time, 't|1', "newcomer gets ZooKeeper's answer while changed settings wait");

done_testing();
