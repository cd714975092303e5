# The real PgBouncer in between: what docs/pooling.md says goes wrong, and what
# helps, by the statements that it has.

use strict;
use warnings;

use Docs;
use PgBouncer;
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

# Runs a section of the page, with two clients of a pool. Returns them.
sub run_section
{
	my ($title, $pool) = @_;
	my %who = (
		'the administrator' => ZkTest->new($node),
		'a client of another server' => ZkTest->new($other));
	my @blocks = sql_blocks('docs/pooling.md', $title);

	ok(@blocks > 0, $title);
	for my $block (@blocks)
	{
		$who{ $block->{as} } //= client($pool);
		run_documented($who{ $block->{as} }, $_) for @{ $block->{statements} };
		$pool->console('RECONNECT', 'WAIT_CLOSE')
		  if $block->{as} eq 'the administrator';
	}
	return map { $who{$_} // () } 'a client', 'another client';
}

# How many locks are held on the path
sub held
{
	my ($path) = @_;

	return scalar $zk->children($path);
}

my $pool = PgBouncer->new($node, pool_mode => 'transaction');
my @clients = run_section('What goes wrong', $pool);
is($clients[0]->pid, $clients[1]->pid, 'both are on one server connection');
$_->close for @clients;
my $next = client($pool);
is($next->query(q(SELECT session_holds FROM zk_locks WHERE pid = pg_backend_pid())),
	'2', '... which has the lock when they have left');
is($next->query(q(SELECT zk_lock_release_all())),
	'2', '... and the next one can give it away');
$next->close;
$pool->stop;

$pool = PgBouncer->new($node, pool_mode => 'transaction');
my $old = client($pool);
my $old_pid = $old->pid;
@clients = run_section('Lock in transactions', $pool);
isnt($old->query('SELECT pg_backend_pid()'), $old_pid,
	'the server connections are new');
wait_for_queue($zk, '/shop/product_7');
pass('... and hold nothing when all is done');
$_->close for $old, @clients;

my $one = client($pool);
my $two = client($pool);
is($one->query(q(BEGIN; SELECT zk_lock_acquire('/shop/y', '0'))),
	't', 'a transaction locks');
is($two->query(q(SELECT zk_lock_acquire('/shop/y', '0'))),
	'f', '... which keeps others out');
is($two->query(q(SELECT zk_semaphore_acquire('/shop/s', 1), zk_lock_acquire_all('{/shop/a, /shop/b}'))),
	't|t', '... not from other locks');
is($two->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
	'0', '... which are gone with the statement');
$one->close;
wait_for_queue($zk, '/shop/y');
pass('... until its client leaves in the midst of it');
is($two->query(q(SELECT zk_lock_acquire('/shop/y', '0', scope => 'session'))),
	't', 'who names the session\'s scope gets it');
$two->close;
is(held('/shop/y'), 1, '... for longer than he stays');
$pool->stop;
wait_for_queue($zk, '/shop/y');

# There is one server connection, which the next statement waits for until it is clean.
$pool = PgBouncer->new(
	$node,
	pool_mode => 'transaction',
	default_pool_size => 1,
	server_reset_query_always => 1);
@clients = run_section('Clean up after each transaction', $pool);
wait_for_queue($zk, '/shop/product_1');
$pool->stop;

# Session pooling, where the next client waits for it
$pool = PgBouncer->new($node, pool_mode => 'session', default_pool_size => 1);
$one = client($pool);
is($one->query(q(SELECT zk_lock_acquire('/shop/z', scope => 'session'))),
	't', 'in session mode a client locks');
is($one->query('SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'), '1', '... and has the lock');
my $pid = $one->pid;
$one->close;
wait_for_queue($zk, '/shop/z');
is(client($pool)->pid, $pid, '... until it leaves, and the server connection stays');

done_testing();
