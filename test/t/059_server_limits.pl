# Limits of the server's session: missing preconditions, refused requests, and
# the number of connections that it saves. Only the backend that made a request
# gets its error.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.
# Shortened unless ZKLOCK_LONG is set: 100 backends in one session, not 500; ZooKeeper
# allows 20 connections.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use Worker;
use ZkClient;
use ZkServer;
use ZkTest;

use constant {
	ROOM => 16,
	CROWD => sample_of(500, 100),
};

my $zk = ZkServer->new(config => { maxClientCnxns => 20, enforceQuota => 'true' })->start;
my %server = ('zklock.session_mode' => 'server');
my $acquire = q(SELECT zk_lock_acquire('/limits/a'), zk_lock_release_all());

# Not preloaded: the settings of shared memory have no effect.

my $bare = new_node('bare', $zk->hosts, 'zklock.max_locks' => 100);
my $session = ZkTest->new($bare, 'zklock.session_mode' => 'server');
like($session->query($acquire),
	qr/^ERROR:  55000: the server has no ZooKeeper session to share\nDETAIL:  .*\nHINT:  Add zklock to shared_preload_libraries/,
	'error for a missing shared session if the library is not preloaded');
$session->query('RESET zklock.session_mode');
is($session->query($acquire), 't|1', "... but a session of the backend's own works");
$session->close;

# No worker can be started. PostgreSQL's launcher of logical replication would
# need a slot, too.

$bare->append_conf('postgresql.conf', q(
	shared_preload_libraries = 'zklock'
	zklock.session_mode = 'server'
	zklock.connect_timeout = '1s'
	max_worker_processes = 0
	max_logical_replication_workers = 0));
$bare->restart;
$session = ZkTest->new($bare);
like($session->query($acquire),
	qr/^ERROR:  08001: .*\nDETAIL:  .*worker.* is not running\.\nHINT:  .*max_worker_processes/,
	'error without a worker names the setting');

# A warning for settings without effect

my $set = q(SET zklock.session_timeout = '20s');
my $warned = qr/^WARNING:  01000: "zklock\.session_timeout" has no effect on locks in the server's session\nHINT:  /;
like($session->query($set), $warned, 'warning for a session timeout that is not used');
like($session->query("ALTER ROLE CURRENT_USER $set"), $warned, '... also for a role');
is($session->query('RESET zklock.session_timeout'), '', '... but not for RESET');
$session->query(q(SET zklock.session_mode = 'backend'));
is($session->query($set), '', "... or with a session of the backend's own");
$session->close;
$bare->stop;

# A standby

my $node = new_node(
	'main', $zk->hosts, %server,
	'zklock.max_locks' => 4 * CROWD,
	max_connections => CROWD + 20,
	wal_level => 'replica',
	max_wal_senders => 4);
$node->append_conf('pg_hba.conf', 'local replication all trust');
$node->reload;
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->append_conf('postgresql.conf', "zklock.session_timeout = '8s'");
$standby->start;
my $holder = ZkTest->new($standby);
is($holder->query(q(SELECT pg_is_in_recovery(), zk_lock_acquire('/limits/standby'))),
	't|t', 'hot standby can acquire locks');
my $waiter = ZkTest->new($node);
is($waiter->query(q(SELECT zk_lock_acquire('/limits/standby', '0'))),
	'f', '... which exclude its primary');
$waiter->start(q(SELECT zk_lock_acquire('/limits/standby')));
wait_until('both are in the queue',
	sub { my @nodes = $zk->children('/limits/standby'); @nodes == 2 });
$standby->promote;
is($holder->query('SELECT 1'), 1, '... and are held after it is promoted');
$holder->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... and can be released');
$waiter->query('SELECT zk_lock_release_all()');
$holder->close;
$standby->stop;

# Refused requests

my $other = ZkTest->new($node);
my $root = ZkClient->new($zk->hosts);
$other->query(q(SELECT zk_lock_acquire('/limits/other')));
$waiter->start(q(SELECT zk_lock_acquire('/limits/other')));
$root->create('/limits/ephemeral', '', ZkClient::EPHEMERAL);
$root->create('/limits/quota', '');
$root->create("/zookeeper/quota$_", '') for '/limits', '/limits/quota';
$root->create('/zookeeper/quota/limits/quota/zookeeper_limits', 'count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=1');
$root->create('/zookeeper/quota/limits/quota/zookeeper_stats', 'count=1,bytes=0');
my $locked = ZkTest->new($node, 'zklock.acl' => 'ip:10.1.2.3:cdrwa');
$locked->query(q(SELECT zk_lock_acquire('/limits/closed/a')));
$locked->close;

my $long = 'x' x 300;
my $victim = ZkTest->new($node);
for my $case (
	[ '/limits/ephemeral/a', 'exclusive', '55000', 'a parent that is ephemeral' ],
	[ '/limits/ephemeral', 'shared', '55000', 'an ephemeral path' ],
	[ "/limits/$long", 'simple', '22023', 'too long a name' ],
	[ '/limits/quota', 'exclusive', '\w{5}', 'a quota' ],
	[ '/limits/closed/a', 'exclusive', '28000|42501', 'access control' ])
{
	my ($path, $mode, $sqlstate, $what) = @$case;
	my $answer = $victim->query(
		"SELECT zk_lock_acquire('$path', '10s', '$mode')");

	like($answer, qr/^ERROR:  (?:$sqlstate): /, "error for $what");
	is($victim->query($acquire), 't|1', '... and the next request succeeds');
}
is($other->query('SELECT 1'), 1, 'other backends have lost no lock');
ok(!$waiter->is_done, '... and waiters still wait');
$other->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... and are granted the lock in the end');
$waiter->query('SELECT zk_lock_release_all()');
$root->close;
wait_until_idle($node, $zk, '/limits/a', '/limits/other');

# Many backends, one connection

my $connections = sub {
	scalar grep { /zkmyid|sid=/ } split(/\n/, $zk->four_letter('cons'));
};
my @crowd = map { ZkTest->new($node) } 1 .. CROWD;
$crowd[$_]->start("SELECT zk_lock_acquire('/limits/crowd/$_')") for 0 .. $#crowd;
is(scalar(grep { $_->result eq 't' } @crowd),
	CROWD, CROWD . ' backends have a lock each');
is(scalar($zk->sessions), 1, '... in one session');
is($connections->(), 1, '... with one connection');
$_->close for @crowd;
wait_until_idle($node, $zk);

# Shared memory is full

$_->close for $other, $waiter, $victim;
$node->append_conf('postgresql.conf', "zklock.max_locks = ${\ ROOM}");
$node->restart;
($holder, $victim) = map { ZkTest->new($node) } 1 .. 2;
my $take = 'SELECT count(zk_lock_acquire(\'/limits/room/\' || i)) FROM generate_series(%d, %d) AS i';
is($holder->query(sprintf($take, 1, ROOM)), ROOM,
	'locks are acquired until shared memory is full');
like($victim->query($acquire),
	qr/^ERROR:  53200: out of shared memory for ZooKeeper locks\n.*HINT:  .*zklock\.max_locks/s,
	'... and one more raises an error');
like($holder->query($acquire), qr/^ERROR:  53200/,
	'... also in the backend that holds them');
is($holder->query(sprintf($take, 1, ROOM)), ROOM,
	'... locks that are held can be acquired again');
is($holder->query('SELECT zk_lock_release_all()'), 2 * ROOM, '... and released');
wait_until('the room is free again', sub { $victim->query($acquire) eq 't|1' });

# A waiter for a semaphore needs the room of two locks.
my $unlisted = 'SELECT unlisted FROM zk_server_status LIMIT 1';
is($holder->query(sprintf($take, 2, ROOM)), ROOM - 1, 'all but one are acquired');
wait_until(
	'there is room for one',
	sub {
		$victim->query('SELECT listed FROM zk_server_status LIMIT 1') == ROOM - 1;
	});
like($victim->query(q(SELECT zk_semaphore_acquire('/limits/semaphore', 2))),
	qr/^ERROR:  53200/, 'semaphore needs more room than a lock');
is($victim->query($unlisted), 0, '... and is not counted as unlisted after the error');
$holder->query('SELECT zk_lock_release_all()');
wait_until_idle($node, $zk, '/limits/a', map { "/limits/room/$_" } 1 .. ROOM);

done_testing();
