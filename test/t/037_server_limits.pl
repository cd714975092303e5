# What the server's session needs and what it has not got, what ZooKeeper refuses,
# and how much it saves: an error for who is concerned, and for nobody else.
#
# Runs once: of server mode.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkClient;
use ZkServer;
use ZkTest;

use constant {
	ROOM => 16,
	CROWD => 500,
};

my $zk = ZkServer->new(config => { maxClientCnxns => 20, enforceQuota => 'true' })->start;
my %server = ('zklock.session' => 'server');
my $acquire = q(SELECT zk_lock_acquire('/limits/a'), zk_lock_release_all());

# Not preloaded: what is set for shared memory is no news then.

my $bare = new_node('bare', $zk->hosts, 'zklock.max_locks' => 100);
my $session = ZkTest->new($bare, 'zklock.session' => 'server');
like($session->query($acquire),
	qr/^ERROR:  55000: the server has no ZooKeeper session to share\nDETAIL:  .*\nHINT:  Add zklock to shared_preload_libraries/,
	'there is no session to share where the library is not preloaded');
$session->query('RESET zklock.session');
is($session->query($acquire), 't|1', '... but one of a backend\'s own');
$session->close;

# No worker. One slot is taken for PostgreSQL's launcher of logical replication.

$bare->append_conf('postgresql.conf', q(
	shared_preload_libraries = 'zklock'
	zklock.session = 'server'
	zklock.connect_timeout = '1s'
	max_worker_processes = 0
	max_logical_replication_workers = 0));
$bare->restart;
$session = ZkTest->new($bare);
like($session->query($acquire),
	qr/^ERROR:  08001: .*\nDETAIL:  .*worker.* is not running\.\nHINT:  .*max_worker_processes/,
	'without a worker an error says why');

# What cannot have an effect is told.

my $set = q(SET zklock.session_timeout = '20s');
my $warned = qr/^WARNING:  01000: "zklock\.session_timeout" has no effect on locks in the server's session\nHINT:  /;
like($session->query($set), $warned, 'a timeout that is not used is told');
like($session->query("ALTER ROLE CURRENT_USER $set"), $warned, '... of a role, too');
is($session->query('RESET zklock.session_timeout'), '', '... but not the one that is used');
$session->query(q(SET zklock.session = 'backend'));
is($session->query($set), '', '... nor one for a session of the backend\'s own');
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
	't|t', 'a hot standby takes locks');
my $waiter = ZkTest->new($node);
is($waiter->query(q(SELECT zk_lock_acquire('/limits/standby', '0'))),
	'f', '... which its primary respects');
$waiter->start(q(SELECT zk_lock_acquire('/limits/standby')));
wait_for_queue($zk, '/limits/standby', $holder, $waiter);
$standby->promote;
is($holder->query('SELECT 1'), 1, '... and which it has still when it is promoted');
$holder->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... and gives back');
$waiter->query('SELECT zk_lock_release_all()');
$holder->close;
$standby->stop;

# What is refused

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

	like($answer, qr/^ERROR:  (?:$sqlstate): /, "$what is an error");
	is($victim->query($acquire), 't|1', '... and nothing else is');
}
is($other->query('SELECT 1'), 1, 'others have lost nothing');
ok(!$waiter->is_done, '... nor have those who wait');
$other->query('SELECT zk_lock_release_all()');
is($waiter->result, 't', '... who are served in the end');
$waiter->query('SELECT zk_lock_release_all()');
$root->close;
wait_for_calm($node, $zk, '/limits/a', '/limits/other');

# Many backends, one connection

my $connections = sub {
	scalar grep { /zkmyid|sid=/ } split(/\n/, $zk->four_letter('cons'));
};
my @crowd = map { ZkTest->new($node) } 1 .. CROWD;
$crowd[$_]->start("SELECT zk_lock_acquire('/limits/crowd/$_')") for 0 .. $#crowd;
is(scalar(grep { $_->result eq 't' } @crowd),
	CROWD, CROWD . ' backends have a lock each');
is(scalar($zk->sessions), 1, '... in one session');
is($connections->(), 1, '... of one connection');
$_->close for @crowd;
wait_for_calm($node, $zk);

# No room in shared memory

$_->close for $other, $waiter, $victim;
$node->append_conf('postgresql.conf', "zklock.max_locks = ${\ ROOM}");
$node->restart;
($holder, $victim) = map { ZkTest->new($node) } 1 .. 2;
my $take = 'SELECT count(zk_lock_acquire(\'/limits/room/\' || i)) FROM generate_series(%d, %d) AS i';
is($holder->query(sprintf($take, 1, ROOM)), ROOM, 'as many locks as there is room for');
like($victim->query($acquire),
	qr/^ERROR:  53200: out of shared memory for ZooKeeper locks\n.*HINT:  .*zklock\.max_locks/s,
	'... and an error for one more');
like($holder->query($acquire), qr/^ERROR:  53200/, '... whoever wants it');
is($holder->query(sprintf($take, 1, ROOM)), ROOM, '... but those one has can be taken again');
is($holder->query('SELECT zk_lock_release_all()'), 2 * ROOM, '... and given back');
wait_until('there is room again', sub { $victim->query($acquire) eq 't|1' });

# A semaphore takes the room of two while it is waited for.
my $unlisted = 'SELECT unlisted FROM zk_lock_stats LIMIT 1';
is($holder->query(sprintf($take, 2, ROOM)), ROOM - 1, 'all but one are taken');
wait_until(
	'there is room for one',
	sub {
		$victim->query('SELECT listed FROM zk_lock_stats LIMIT 1') == ROOM - 1;
	});
like($victim->query(q(SELECT zk_semaphore_acquire('/limits/semaphore', 2))),
	qr/^ERROR:  53200/, 'a semaphore needs more room than a lock');
is($victim->query($unlisted), 0, '... and leaves nothing that is counted as unlisted');
$holder->query('SELECT zk_lock_release_all()');
wait_for_calm($node, $zk, '/limits/a', map { "/limits/room/$_" } 1 .. ROOM);

done_testing();
