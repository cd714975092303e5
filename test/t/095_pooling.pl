# A real PgBouncer between client and server: the problems and solutions of
# docs/pooling.md, with the statements of that page. Then a real Pgpool-II.

use strict;
use warnings;

use Docs;
use PgBouncer;
use PgPool;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

plan skip_all => 'there is no PgBouncer'
  if !grep { -x "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';
$ENV{PATH} .= ':/usr/sbin';

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts);
my $other = new_node('other', $zk->hosts);
$node->safe_psql('postgres', 'CREATE ROLE shop LOGIN');

sub client
{
	my ($server) = @_;

	local $ENV{PGUSER} = 'shop';
	return ZkTest->new($server);
}

# Runs a section of the page with two clients of a pool, and returns the
# clients.
sub run_section
{
	my ($title, $pool) = @_;
	my %session = (
		'the administrator' => ZkTest->new($node),
		'a client of another server' => ZkTest->new($other));
	my @blocks = sql_blocks('docs/pooling.md', $title);

	ok(@blocks > 0, "$title: there are statements");
	for my $block (@blocks)
	{
		$session{ $block->{as} } //= client($pool);
		run_documented($session{ $block->{as} }, $_) for @{ $block->{statements} };
		$pool->console('RECONNECT', 'WAIT_CLOSE')
		  if $block->{as} eq 'the administrator';
	}
	return map { $session{$_} // () } 'a client', 'another client';
}

# Returns the number of nodes of a lock.
sub held
{
	my ($path) = @_;

	return scalar $zk->children($path);
}

my $pool = PgBouncer->new($node, pool_mode => 'transaction');
my @clients = run_section('What goes wrong', $pool);
is($clients[0]->pid, $clients[1]->pid, 'both clients use the same server connection');
$_->close for @clients;
my $next = client($pool);
is($next->query(q(SELECT session_holds FROM zk_locks WHERE pid = pg_backend_pid())),
	'2', '... which keeps the lock after they disconnect');
is($next->query(q(SELECT zk_lock_release_all())),
	'2', '... and another client can release it');
$next->close;
$pool->stop;

$pool = PgBouncer->new($node, pool_mode => 'transaction');
my $old = client($pool);
my $old_pid = $old->pid;
@clients = run_section('Lock in transactions', $pool);
isnt($old->query('SELECT pg_backend_pid()'), $old_pid,
	'server connections are new');
wait_for_queue($zk, '/shop/product_7');
pass('... and no lock is left');
$_->close for $old, @clients;

my $one = client($pool);
my $two = client($pool);
is($one->query(q(BEGIN; SELECT zk_lock_acquire('/shop/y', '0'))),
	't', 'transaction acquires a lock');
is($two->query(q(SELECT zk_lock_acquire('/shop/y', '0'))),
	'f', '... which excludes others');
is($two->query(q(SELECT zk_semaphore_acquire('/shop/s', 1), zk_lock_acquire_all('{/shop/a, /shop/b}'))),
	't|t', '... but not from other locks');
is($two->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
	'0', '... which are released at the end of the statement');
$one->close;
wait_for_queue($zk, '/shop/y');
pass('... lock is released when its client disconnects');
is($two->query(q(SELECT zk_lock_acquire('/shop/y', '0', scope => 'session'))),
	't', 'session-level lock is acquired');
$two->close;
is(held('/shop/y'), 1, '... and held after its client disconnects');
$pool->stop;
wait_for_queue($zk, '/shop/y');

# The pool has one server connection. The next statement waits until it is
# reset.
$pool = PgBouncer->new(
	$node,
	pool_mode => 'transaction',
	default_pool_size => 1,
	server_reset_query_always => 1);
@clients = run_section('Clean up after each transaction', $pool);
wait_for_queue($zk, '/shop/product_1');
$pool->stop;

# Session pooling: the next client waits for the server connection
$pool = PgBouncer->new($node, pool_mode => 'session', default_pool_size => 1);
$one = client($pool);
is($one->query(q(SELECT zk_lock_acquire('/shop/z', scope => 'session'))),
	't', 'client acquires a lock in session mode');
is($one->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
	'1', '... and holds it');
my $pid = $one->pid;
$one->close;
wait_for_queue($zk, '/shop/z');
is(client($pool)->pid,
	$pid, '... lock is released when the client disconnects, and the server connection stays');
$pool->stop;

# Pgpool-II, with a primary and a standby

SKIP:
{
	skip 'there is no Pgpool-II', 1 if !grep { -x "$_/pgpool" } split(/:/, $ENV{PATH});

	my $primary = new_node('primary', $zk->hosts, wal_level => 'replica', max_wal_senders => 4);
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	my $locks = 'SELECT count(*) FROM zk_locks';

	$primary->safe_psql('postgres', 'CREATE ROLE shop LOGIN; CREATE DATABASE shop');
	$primary->safe_psql('shop', 'CREATE EXTENSION zklock; GRANT pg_read_all_settings TO shop');
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	$pool = PgPool->new('shop', $primary, $standby);
	($one, $two) = map { client($pool) } 1, 2;
	is($one->query(q(SELECT current_setting('primary_conninfo') <> '')), 't', 'Pgpool-II reads on the standby');
	is($one->query(q(SELECT zk_lock_acquire('/shop/p', scope => 'session'), pg_is_in_recovery())), 't|f',
		'... and takes locks on the primary');
	is($two->query(q(SELECT zk_lock_acquire('/shop/p', '0'))), 'f', '... which exclude other clients');
	is($one->query(q(SELECT zk_lock_held('/shop/p'))), 't', '... and stay held');
	is($one->query($locks), 0, '... the views may be those of the standby');
	is($one->query("/*NO LOAD BALANCE*/ $locks"), 1, '... or not');
	$pid = $one->query('/*NO LOAD BALANCE*/ SELECT pg_backend_pid()');
	$one->query("\\q\n");
	is($two->query(q(SELECT zk_lock_acquire('/shop/p', '1min', scope => 'session'))),
		't', '... until the client disconnects');
	is($primary->safe_psql('postgres', "SELECT query FROM pg_stat_activity WHERE pid = $pid"),
		'DISCARD ALL', '... and its server connection stays');
	$two->close;
	wait_for_queue($zk, '/shop/p');
	pass('... or is killed');
	$pool->stop;
}

done_testing();
