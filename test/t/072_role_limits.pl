# How much a role can take: zklock.max_locks_per_backend, and ZooKeeper's quotas, set
# as docs/security.md says. What is refused leaves nothing behind, and takes nothing
# away from anybody.

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

# Containers stay while this is going on.
my $zk = ZkServer->new(
	container_check => 3_600_000,
	config => { $enforce => 'true' })->start;
my $node = new_node('main', $zk->hosts);

# The nodes of locks, of all sessions
sub wait_for_nodes
{
	my ($n) = @_;

	wait_until("there are $n nodes",
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t$n$/m });
	return;
}

# What the page says

$node->safe_psql('postgres', 'CREATE ROLE shop LOGIN');
for my $block (sql_blocks('docs/security.md', 'How much a role can take'))
{
	local $ENV{PGUSER} = $block->{as} eq 'shop' ? 'shop' : 'postgres';
	my $session = ZkTest->new($node);

	run_documented($session, $_) for @{ $block->{statements} };
	$session->close;
}
is($node->safe_psql('postgres', q(SELECT rolconnlimit FROM pg_roles WHERE rolname = 'shop')),
	20, 'the role has its limit of connections');
wait_for_nodes(0);

# The limit of a backend

use constant TOO_MANY => qr/^ERROR:  53400: too many ZooKeeper locks\nDETAIL:  .*zklock\.max_locks_per_backend \(\d+\)\.\nHINT:  /m;

my $session = ZkTest->new($node);
$session->query('SET zklock.max_locks_per_backend = 2');
is($session->query(q(SELECT zk_lock_acquire('/limit/a'), zk_semaphore_acquire('/limit/s', 3))),
	't|t', 'as many as may be');
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
is(join(' ', sort $zk->children('/limit')), 'a s', '... and nothing was made');
is(join(' ', map { scalar $zk->children("/limit/$_") } qw(a s/locks s/leases)),
	'1 0 1', '... anywhere');
is($session->query(q(
	SELECT zk_lock_acquire('/limit/a'), zk_semaphore_acquire('/limit/s', 3),
		zk_lock_acquire('/limit/a', scope => 'transaction'),
		zk_lock_acquire_all('{/limit/a, /limit/a}'), zk_lock_guard('/limit/a') > 0)),
	't|t|t|t|t', 'what is held can be had again');
is($session->query(q(SET zklock.max_locks_per_backend = 1; SELECT zk_lock_acquire('/limit/a'))),
	't', '... also if it is more than may be by now');
like($session->query(q(SELECT zk_lock_acquire('/limit/x'))), TOO_MANY, '... but no more');
is($session->query(q(SELECT zk_lock_release_all())), 6, '... and given back');

my $other = ZkTest->new($node);
$other->query(q(SELECT zk_lock_acquire('/limit/other')));
is($session->query(q(SELECT zk_lock_acquire('/limit/other', '0'))), 'f', 'what was not got');
is($session->query(q(SELECT zk_lock_acquire('/limit/a'))), 't', '... does not count');
$session->query(q(SELECT zk_lock_release_all()));

$session->query(q(SET zklock.max_locks_per_backend = 2;
	BEGIN; SELECT zk_lock_guard('/limit/outer'); SAVEPOINT s; SELECT zk_lock_guard('/limit/inner')));
like($session->query(q(SELECT zk_lock_guard('/limit/x'))), TOO_MANY,
	'in a subtransaction, those of the transaction count');
like($session->query(q(ROLLBACK TO s; SELECT zk_lock_guard('/limit/x'))), qr/^\d+$/,
	'... and those that were given back do not');
is($session->query(q(SELECT string_agg(path, ' ' ORDER BY path) FROM zk_locks
	WHERE pid = pg_backend_pid())), '/limit/outer /limit/x', '... what is held is');
is($session->query(q(COMMIT; SELECT zk_lock_acquire_all('{/limit/a, /limit/b}', scope => 'transaction'))),
	't', 'nor those of a transaction that is over');
is($session->query(q(SET zklock.max_locks_per_backend = 0;
	SELECT count(zk_lock_acquire('/limit/' || i)) FROM generate_series(1, 100) AS i)),
	100, 'without a limit there is none');
$_->close for $session, $other;
wait_for_nodes(0);

# The quota

like(zkcli($zk, split(/\n/, $cli)), qr/10000/, 'a quota, as the page says');
my $quota = '/zookeeper/quota/shop';
like($zk->get("$quota/zookeeper_limits")->{data}, qr/countHardLimit=10000/,
	'... which is hard');

# How many nodes there are, from this one on. Dies if one goes meanwhile.
sub tree_size
{
	my ($client, $path) = @_;
	my $size = 1;

	$size += tree_size($client, "$path/$_") for $client->children($path);
	return $size;
}

# Has room for so many nodes more than there are, and for so many bytes in all.
sub leave_room
{
	my ($count, $bytes) = @_;
	my $client = ZkClient->new($zk->hosts);
	my $used;

	wait_until(
		'all are counted',
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
	't|t', 'a path that is there');

# Where backends hand locks over among themselves, they wait without nodes.
my $gate = server_mode() eq 'gate';
my $nodes = $gate ? 3 : 4;
wait_for_nodes($nodes);

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
	refused('/shop/held', qr{create "/shop/held/_c_[-0-9a-f]+-__READ__\d+"}), 'a downgrade, too');
is($victim->query(q(SELECT zk_lock_acquire('/shop/simple', '0', 'simple'))),
	'f', 'a simple lock that is taken is taken');
is($victim->query(q(SELECT zk_lock_acquire('/elsewhere'), zk_lock_release('/elsewhere'))),
	't|t', 'elsewhere there is no quota');
wait_for_nodes($nodes);
is(join(' ', sort $zk->children('/shop')), '1 2 3 4 free held s simple', 'nothing was made');

# What comes in one flight ZooKeeper may let in before it has counted.
leave_room(1);
like($victim->query(q(SELECT zk_semaphore_acquire('/shop/s', 2))),
	refused('/shop/s', 'create a node below "/shop/s/leases"'),
	'there may be room for a semaphore\'s mutex alone');
wait_for_nodes($nodes);
leave_room(1);
is($victim->query(q(SELECT zk_lock_acquire('/shop/free'))), 't', '... or for one lock');
like($victim->query(q(SELECT zk_lock_acquire_all('{/shop/1, /shop/free}'))),
	refused('/shop/1', 'create a node below "/shop/1"'), '... but not for two');
is($victim->query(q(SELECT zk_lock_release_all())), 1, '... of which the first is held, once');
wait_for_nodes($nodes);

# Who holds a lock does not notice that there are too many nodes, and bytes; nor does
# who waits, if he has a node.
leave_room(-3, 1);
is($holder->query(q(BEGIN; SELECT zk_lock_token('/shop/held') > 0; COMMIT)), 't', 'a holder commits');
$node->safe_psql('postgres', q(SELECT zk_fence('/shop/held', 9223372036854775807)));
like($holder->query(q(SELECT zk_lock_fence('/shop/held'))), qr/^ERROR:  55000:/m,
	'... and it is confirmed that he holds the lock');
is($holder->query(q(SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid() AND granted AND NOT lost)),
	3, '... all of them');
leave_room(1) if $gate;    # for the next one's node
is($holder->query(q(SELECT zk_lock_release('/shop/held'))), 't', 'what is released');
is($waiter->result, 't', '... the next one gets');
is($holder->query(q(SELECT zk_lock_release_all())), 2, 'what goes, goes');
is($waiter->query(q(SELECT zk_lock_release_all())), 1, '... in any case');
wait_for_nodes(0);

leave_room(10);
is($victim->query(q(SELECT zk_lock_acquire_all('{/shop/free, /shop/n/n/n}'), zk_semaphore_acquire('/shop/s', 2))),
	't|t', 'when there is room again, locks can be had');

done_testing();
