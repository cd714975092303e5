# Deadlocks across servers that include waits for locks of PostgreSQL, on one of them.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkProxy;
use ZkServer;
use ZkTest;

use constant {
	WAITS => '/zklock/waits',
	RECORDS => qr{^/zklock},    # for requests that concern them
	CROWD => 120
};

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my %conf = (deadlock_timeout => '200ms', shared_preload_libraries => 'zklock');
my $here = new_node('here', $proxy->hosts, %conf);
my $there = new_node('there', $zk->hosts, %conf);

# $other waits for $waiter in PostgreSQL, which waits for $remote.
my ($waiter, $other, $between) = map { ZkTest->new($here) } 1 .. 3;
my ($remote, $observer) = map { ZkTest->new($there) } 1 .. 2;
my $n = 0;

$here->safe_psql('postgres', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 9) AS i');

# Begins transactions. $remote and $other have a lock.
sub begin
{
	my $p = '/t' . ++$n;

	$_->query('BEGIN') for $waiter, $other, $between, $remote;
	$other->query(xact_acquire("$p/1"));
	$remote->query(xact_acquire("$p/2"));
	return $p;
}

# A row, in each order of the waits

my $row = 'UPDATE t SET i = i WHERE i = 1';

for my $last ($waiter, $other, $remote)
{
	my $p = begin();
	my %waits = (
		$waiter => xact_acquire("$p/2"),
		$other => $row,
		$remote => xact_acquire("$p/1"));

	$waiter->query($row);
	for my $session (grep { $_ != $last } $waiter, $other, $remote)
	{
		$session->start($waits{$session});
		$session->wait_for_lock;
	}
	my $began = time();
	$last->start($waits{$last});
	like(
		$waiter->result,
		qr/^ERROR:  40P01: deadlock detected
DETAIL:  Process ${\ $waiter->pid} of (\S+:\d+) waits for exclusive lock on path "$p\/2"; blocked by process ${\ $remote->pid} of (\S+:\d+)\.
Process ${\ $remote->pid} of \2 waits for exclusive lock on path "$p\/1"; blocked by process ${\ $other->pid} of \1\.
Process ${\ $other->pid} of \1 waits for ShareLock on transaction \d+; blocked by process ${\ $waiter->pid} of \1\.$/m,
		'a deadlock with a wait for a row');
	note(sprintf('after %.3f s', time() - $began));
	rollback($waiter);
	is($other->result, '', '... and who waits for the row goes on');
	rollback($other);
	is($remote->result, 't', '... and then the other server');
	rollback($between, $remote);
}

# A process without ZooKeeper locks in between, and locks of other kinds

my $p = begin();
$waiter->query('SELECT pg_advisory_xact_lock(7)');
$between->query('LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
$between->start('SELECT pg_advisory_xact_lock(7)');
$between->wait_for_lock;
$other->start($row);
$other->wait_for_lock;
$remote->start(xact_acquire("$p/1"));
like(
	$waiter->query(xact_acquire("$p/2")),
	qr/waits for \w+ on relation \d+ of database \d+; blocked by process ${\ $between->pid} of \S+\.
Process ${\ $between->pid} of \S+ waits for ExclusiveLock on advisory lock \S+; blocked by process ${\ $waiter->pid} of/,
	'a deadlock with a table and an advisory lock');
rollback($waiter);
$between->result;
rollback($between);
$other->result;
rollback($other);
is($remote->result, 't', '... in which the others go on');
rollback($remote);

# The wait for a row ends in the midst of a walk, but its process keeps its lock.

$p = begin();
$other->query("ROLLBACK; SELECT zk_lock_acquire('$p/1'); BEGIN");
$waiter->query($row);
$other->start($row);
$other->wait_for_lock;
$remote->start(xact_acquire("$p/1"));
$remote->wait_for_lock;
wait_until('there is a record', sub { $zk->children(WAITS) });
my $rule = $proxy->rule(dir => 's2c', op => 'sync', action => 'hold');
$waiter->start(xact_acquire("$p/2"));
wait_until('a deadlock is found', sub { $proxy->fired($rule) });
$here->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $other->pid})");
like($other->result, qr/57014/, 'the wait for a row is cancelled');
$proxy->reset;
is($observer->query(xact_acquire("$p/2", timeout => '1s')), 'f', '... so that there is no deadlock');
ok(!$waiter->is_done, '... and no victim');
$other->query("ROLLBACK; SELECT zk_lock_release('$p/1')");
is($remote->result, 't', '... and the other server goes on');
rollback($remote);
is($waiter->result, 't', '... and then the other wait');
rollback($waiter, $between);

# Requests: the wait of a process without ZooKeeper locks sends none. If another one that
# has such locks waits for it, it sends one request at a time.

$p = begin();
$waiter->query($row);
$between->start($row);
$between->wait_for_lock;
$proxy->wait_idle;
$proxy->mark;
is($waiter->query(xact_acquire("$p/2", timeout => '1s')), 'f', 'who has no lock waits for a path');
is(scalar($proxy->requests(RECORDS)), 0, '... and sends nothing for the detection');
$other->start($row);
$other->wait_for_lock;
$proxy->wait_idle;
$proxy->mark;
is($waiter->query(xact_acquire("$p/2", timeout => '3s')), 'f', 'one waits for it that has a lock');
wait_until('no record is left', sub { !$zk->children(WAITS) });
my %requests;
$requests{ $_->{op} }++ for $proxy->requests(RECORDS);
note(join(', ', map { "$requests{$_} $_" } sort keys %requests));
is(join(' ', map { "$_ $requests{$_}" } grep { !/getChildren/ } sort keys %requests),
	'create2 1 delete 1 getData 1', '... it publishes one record');
cmp_ok($requests{getChildren2} // $requests{getChildren}, '<=', 3000 / 200 + 2,
	'... and then lists the records once for each deadlock_timeout');
rollback($waiter);
for my $session ($between, $other)
{
	is($session->result, '', 'who waits for the row is next');
	rollback($session);
}
rollback($remote);

# Who only waits ahead of a member, in the queue of a lock, is no victim, although its
# record is the newest.

my $slow = ZkProxy->new($zk->hosts);
my $holder = ZkTest->new(new_node('slow', $slow->hosts, deadlock_timeout => '200ms'));

$p = begin();
$holder->query('BEGIN');
$holder->query(xact_acquire("$p/3"));
$waiter->query('SELECT pg_advisory_xact_lock(7)');
$waiter->start(xact_acquire("$p/3"));
$waiter->wait_for_lock;
$remote->start(xact_acquire("$p/3"));
wait_until('the one behind has a record', sub { $zk->children(WAITS) });
my $found = $slow->rule(dir => 's2c', op => 'sync', action => 'hold');
$holder->start(xact_acquire("$p/2"));
wait_until('the holder finds a deadlock', sub { $slow->fired($found) });
$proxy->mark;
$other->start('SELECT pg_advisory_xact_lock(7)');
wait_until('a walk has ended', sub {
	$waiter->is_done || (() = grep { $_->{op} =~ /getChildren/ } $proxy->requests(RECORDS)) > 1;
});
ok(!$waiter->is_done, 'who waits ahead of a member does not end its wait');
$slow->reset;
like($holder->result, qr/40P01/, '... but the member with the newest record does');
rollback($holder);
is($waiter->result, 't', '... and the one ahead goes on');
rollback($waiter);
is($remote->result, 't', '... and then the one behind it');
$other->result;
rollback($other, $remote);

# A deadlock beside many others that wait for a lock of PostgreSQL, and have locks

my $crowded = new_node(
	'crowded', $zk->hosts, %conf,
	'zklock.session_mode' => 'server',
	max_connections => CROWD + 20);
my ($one, $two, $crowd) = map { ZkTest->new($crowded) } 1 .. 3;

$crowded->safe_psql('postgres', 'CREATE EXTENSION dblink');
$crowded->safe_psql('postgres', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 9) AS i');
$crowd->query('SELECT pg_advisory_lock(8)');
$crowd->query(sprintf(<<'EOSQL', CROWD, $crowded->host, $crowded->port));
SELECT count(dblink_connect('c' || i, 'dbname=postgres host=%2$s port=%3$s')),
	count(dblink_send_query('c' || i,
		format('SELECT zk_lock_acquire_all(''{/crowd/%%s/1,/crowd/%%1$s/2,/crowd/%%1$s/3}'');
			SELECT pg_advisory_lock(8)', i)))
FROM generate_series(1, %1$s) AS i
EOSQL
$crowded->poll_query_until('postgres',
	"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", CROWD);
$_->query('BEGIN') for $one, $two, $remote;
$two->query(xact_acquire('/beside/1'));
$remote->query(xact_acquire('/beside/2'));
$one->query($row);
$two->start($row);
$crowded->poll_query_until('postgres',
	"SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted", '1');
$remote->start(xact_acquire('/beside/1'));
like($one->query(xact_acquire('/beside/2', timeout => '20s')), qr/40P01/,
	'a deadlock is found beside many backends that wait for another one');
rollback($one);
$two->result;
rollback($two);
is($remote->result, 't', '... and the others go on');
rollback($remote);

done_testing();
