# Limits for a role: zklock.max_locks_per_backend, and ZooKeeper's quotas, set
# as docs/security.md describes. Refused requests leave no node, and other
# sessions are not affected.

use strict;
use warnings;

use Docs;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkCli;
use ZkClient;
use ZkServer;
use ZkTest;

my $page = slurp_file("$FindBin::RealBin/../../docs/security.md");
my ($section) = $page =~ /^## How much a role can take\n(.*?)^## /ms;
my ($enforce) = $section =~ /`(enforceQuota)=true`/;
my ($cli) = $section =~ /^```sh\n(.*?)^```$/ms;

my $zk = ZkServer->new(config => { $enforce => 'true' })->start;
my $node = new_node('main', $zk->hosts);

# Waits until ZooKeeper has $n ephemeral nodes, of all sessions.
sub wait_for_ephemerals
{
	my ($n) = @_;

	wait_until("there are $n nodes",
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t$n$/m });
	return;
}

# The statements of the page

$node->safe_psql('postgres', 'CREATE ROLE shop LOGIN');
for my $block (sql_blocks('docs/security.md', 'How much a role can take'))
{
	local $ENV{PGUSER} = $block->{as} eq 'shop' ? 'shop' : 'postgres';
	my $session = ZkTest->new($node);

	run_documented($session, $_) for @{ $block->{statements} };
	$session->close;
}
is($node->safe_psql('postgres', q(SELECT rolconnlimit FROM pg_roles WHERE rolname = 'shop')),
	20, 'role has a connection limit');
wait_for_ephemerals(0);

# The limit of a backend

use constant TOO_MANY => qr/^ERROR:  53400: too many ZooKeeper locks\nDETAIL:  .*zklock\.max_locks_per_backend \(\d+\)\.\nHINT:  /m;

my $session = ZkTest->new($node);
$session->query('SET zklock.max_locks_per_backend = 2');
is($session->query(q(SELECT zk_lock_acquire('/limit/a'), zk_semaphore_acquire('/limit/s', 3))),
	't|t', 'locks are acquired up to the limit');
for my $call (
	(map { qq(zk_lock_acquire('/limit/$_', mode => '$_')) } qw(exclusive shared write simple)),
	q(zk_lock_acquire('/limit/x', scope => 'transaction')),
	q(zk_lock_acquire('/limit/x', '0')),
	q(zk_lock_acquire('/limit/a', mode => 'shared')),
	q(zk_lock_guard('/limit/x')),
	q(zk_semaphore_acquire('/limit/x', 2)),
	q(zk_lock_acquire_all('{/limit/x}')),
	q(zk_lock_acquire_all('{/limit/a, /limit/x, /limit/a}')),
	q(zk_lock_acquire_all('{/limit/a, /limit/x}', mode => 'shared')))
{
	like($session->query("SELECT $call"), TOO_MANY, "$call is refused");
}
is(join(' ', sort $zk->children('/limit')), 'a s', '... and no parent is created');
wait_until('the mutex of the semaphore is released',
	sub { !$zk->children('/limit/s/locks') });
is(join(' ', map { scalar $zk->children("/limit/$_") } qw(a s/locks s/leases)),
	'1 0 1', '... and no node');
is($session->query(q(
	SELECT zk_lock_acquire('/limit/a'), zk_semaphore_acquire('/limit/s', 3),
		zk_lock_acquire('/limit/a', scope => 'transaction'),
		zk_lock_acquire_all('{/limit/a, /limit/a}'), zk_lock_guard('/limit/a') > 0)),
	't|t|t|t|t', 'held locks can be acquired again');
is($session->query(q(SET zklock.max_locks_per_backend = 1;
	SELECT zk_lock_acquire('/limit/a'), zk_lock_acquire_all('{/limit/a}'))),
	't|t', '... even if they exceed a lowered limit');
like($session->query(q(SELECT zk_lock_acquire('/limit/x'))), TOO_MANY,
	'... but no other lock');
is($session->query(q(SELECT zk_lock_release_all())), 7, '... and all can be released');

my $other = ZkTest->new($node);
$other->query(q(SELECT zk_lock_acquire('/limit/other')));
is($session->query(q(SELECT zk_lock_acquire('/limit/other', '0'))),
	'f', "acquire of another session's lock times out");
is($session->query(q(SELECT zk_lock_acquire('/limit/a'))), 't', '... and does not count');
$session->query(q(SELECT zk_lock_release_all()));

$session->query(q(SET zklock.max_locks_per_backend = 2;
	BEGIN; SELECT zk_lock_guard('/limit/outer'); SAVEPOINT s; SELECT zk_lock_guard('/limit/inner')));
like($session->query(q(SELECT zk_lock_guard('/limit/x'))), TOO_MANY,
	'in a subtransaction, locks of the transaction count');
like($session->query(q(ROLLBACK TO s; SELECT zk_lock_guard('/limit/x'))), qr/^\d+$/,
	'... and locks of a rolled back subtransaction do not');
is($session->query(q(SELECT string_agg(path, ' ' ORDER BY path) FROM zk_locks
	WHERE pid = pg_backend_pid())), '/limit/outer /limit/x',
		'... zk_locks shows the locks that are held');
is($session->query(q(COMMIT; SELECT zk_lock_acquire_all('{/limit/a, /limit/b}', scope => 'transaction'))),
	't', 'locks of a committed transaction do not count');
is($session->query(q(SET zklock.max_locks_per_backend = 0;
	SELECT count(zk_lock_acquire('/limit/' || i)) FROM generate_series(1, 100) AS i)),
	100, 'without a limit, any number of locks can be acquired');
$_->close for $session, $other;
wait_for_ephemerals(0);

# The quota

like(zkcli($zk, split(/\n/, $cli)), qr/10000/, 'quota is set as the page describes');
my $quota = '/zookeeper/quota/shop';
like($zk->get("$quota/zookeeper_limits")->{data}, qr/countHardLimit=10000/,
	'... as a hard limit');

# Returns the number of nodes of a tree. Dies if one disappears meanwhile.
sub tree_size
{
	my ($client, $path) = @_;
	my $size = 1;

	$size += tree_size($client, "$path/$_") for $client->children($path);
	return $size;
}

# Sets a quota that allows $count more nodes than there are, and $bytes in all.
sub leave_room
{
	my ($count, $bytes) = @_;
	my $client = ZkClient->new($zk->hosts);
	my $used;

	wait_until(
		'ZooKeeper has counted all nodes',
		sub {
			($used) = $client->get("$quota/zookeeper_stats")->{data} =~ /^count=(\d+)/;
			eval { $used == tree_size($client, '/shop') };
		});
	$client->delete("$quota/zookeeper_limits");
	$client->create("$quota/zookeeper_limits",
		sprintf('count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d',
			$bytes // -1, $used + $count));
	$client->close;
	return;
}

sub refused
{
	my ($path, $request) = @_;

	$request = quotemeta($request) if !ref($request);
	return qr/^ERROR:  53400: could not lock "\Q$path\E"\nDETAIL:  ZooKeeper refused to $request: a quota is exceeded\.\nHINT:  /m;
}

my ($holder, $waiter, $victim) = map { ZkTest->new($node) } 1 .. 3;
$holder->query(q(SET zklock.confirm_commit = 'always'));
$holder->query(q(SELECT zk_lock_acquire('/shop/held'), zk_lock_acquire('/shop/simple', mode => 'simple'),
	zk_semaphore_acquire('/shop/s', 2)));
$waiter->start(q(SELECT zk_lock_acquire('/shop/held')));
wait_for_queue($zk, '/shop/held', $holder, $waiter);
is($victim->query(q(SELECT zk_lock_acquire('/shop/free'), zk_lock_release('/shop/free'))),
	't|t', 'lock on an existing path is acquired');

# With local hand-over, waiters have no nodes.
my $gate = server_mode() eq 'gate';
my $nodes = $gate ? 3 : 4;
wait_for_ephemerals($nodes);

leave_room(0);
for my $case (
	(map { [ "zk_lock_acquire('/shop/free', mode => '$_')", '/shop/free', 'create a node below "/shop/free"' ] }
		qw(exclusive shared write)),
	[ q(zk_lock_acquire('/shop/free', '0')), '/shop/free', 'create a node below "/shop/free"' ],
	[ q(zk_lock_guard('/shop/free')), '/shop/free', 'create a node below "/shop/free"' ],
	[ q(zk_lock_acquire('/shop/held', '0', 'shared')), '/shop/held', 'create a node below "/shop/held"' ],
	[ q(zk_lock_acquire('/shop/n', mode => 'simple')), '/shop/n', 'create "/shop/n"' ],
	[ q(zk_lock_acquire('/shop/n')), '/shop/n', 'create "/shop/n"' ],
	[ q(zk_lock_acquire('/shop/n/n/n')), '/shop/n/n/n', 'create "/shop/n"' ],
	[ q(zk_semaphore_acquire('/shop/s', 2)), '/shop/s/locks', 'create a node below "/shop/s/locks"' ],
	[ q(zk_semaphore_acquire('/shop/n', 2)), '/shop/n/locks', 'create "/shop/n"' ],
	[ q(zk_lock_acquire_all('{/shop/free, /shop/n}')), '/shop/n', 'create "/shop/n"' ])
{
	my ($call, $path, $request) = @$case;

	like($victim->query("SELECT $call"), refused($path, $request), "$call is refused by the quota");
}
like($holder->query(q(SELECT zk_lock_acquire('/shop/held', mode => 'shared'))),
	refused('/shop/held', qr{create "/shop/held/_c_[-0-9a-f]+-__READ__\d+"}),
		'downgrade is refused by the quota, too');
is($victim->query(q(SELECT zk_lock_acquire('/shop/simple', '0', 'simple'))),
	'f', 'attempt to take a held simple lock just times out');
is($victim->query(q(SELECT zk_lock_acquire('/elsewhere'), zk_lock_release('/elsewhere'))),
	't|t', 'other paths have no quota');
wait_for_ephemerals($nodes);
is(join(' ', sort $zk->children('/shop')), '1 2 3 4 free held s simple',
	'refused requests create no node');

# ZooKeeper may accept concurrent requests before it has counted them.
leave_room(1);
like($victim->query(q(SELECT zk_semaphore_acquire('/shop/s', 2))),
	refused('/shop/s', 'create a node below "/shop/s/leases"'),
	'with room for one node, a semaphore gets its mutex only');
wait_for_ephemerals($nodes);
leave_room(1);
is($victim->query(q(SELECT zk_lock_acquire('/shop/free'))),
	't', '... and a single lock is acquired');
like($victim->query(q(SELECT zk_lock_acquire_all('{/shop/1, /shop/free}'))),
	refused('/shop/1', 'create a node below "/shop/1"'),
		'... but the second of two locks is refused');
is($victim->query(q(SELECT zk_lock_release_all())),
	1, '... and the first one is held once');
wait_for_ephemerals($nodes);

# Holders, and waiters that have a node, are not affected when the quota is
# exceeded.
leave_room(-3, 1);
is($holder->query(q(BEGIN; SELECT zk_lock_token('/shop/held') > 0; COMMIT)),
	't', 'holder can commit when the quota is exceeded');
$node->safe_psql('postgres', q(SELECT zk_fence('/shop/held', 9223372036854775807)));
like($holder->query(q(SELECT zk_lock_fence('/shop/held'))), qr/^ERROR:  55000:/m,
	'... and its lock is confirmed');
is($holder->query(q(SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid() AND granted AND NOT lost)),
	3, '... and it has lost no lock');
leave_room(1) if $gate;    # for the node of the next holder
is($holder->query(q(SELECT zk_lock_release('/shop/held'))), 't', 'lock can be released');
is($waiter->result, 't', '... and is granted to the waiter');
is($holder->query(q(SELECT zk_lock_release_all())), 2, 'other locks can be released');
is($waiter->query(q(SELECT zk_lock_release_all())), 1, '... and that of the waiter, too');
wait_for_ephemerals(0);

leave_room(10);
is($victim->query(q(SELECT zk_lock_acquire_all('{/shop/free, /shop/n/n/n}'), zk_semaphore_acquire('/shop/s', 2))),
	't|t', 'locks can be acquired when there is room again');

done_testing();
