# Locks are released after PostgreSQL's own: the next holder finds no table
# locked by the last one, and sees its changes of the catalogs. Another library
# suspends the backend at each kind of transaction end, just before
# PostgreSQL's locks are released.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $library = build_module('at_release');
my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my ($node, %settings) = with_settings(
	new_node('main', $zk->hosts),
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '3s');
my $file = PostgreSQL::Test::Utils::tempdir() . '/suspended';

$node->safe_psql('postgres', qq(
	CREATE TABLE goods (what text);
	CREATE FUNCTION body(OUT text) LANGUAGE plpgsql AS \$\$ BEGIN \$1 := 'old'; END \$\$;
	CREATE FUNCTION at_release(text, bool) RETURNS text AS '$library' LANGUAGE C));

sub body
{
	my ($what) = @_;

	return qq(CREATE OR REPLACE FUNCTION body(OUT text) LANGUAGE plpgsql AS
		\$\$ BEGIN \$1 := '$what'; END \$\$);
}

# Waits until all requests of the client are sent and answered. A beat follows
# them.
sub wait_until_sent
{
	my $last = $proxy->rule(
		dir => 'c2s',
		op => 'beat',
		action => 'delay',
		ms => 1);

	wait_until('a later request is sent', sub { $proxy->fired($last) });
	$proxy->wait_answered;
	return;
}

my $top = "SELECT at_release('$file', true)";
my $sub = "SELECT at_release('$file', false)";
my $do = body('new');
my $take = "SELECT zk_lock_guard('/release') > 0; LOCK TABLE goods; $do";
my $take_in_block =
  "DO \$do\$ BEGIN PERFORM zk_lock_guard('/release'); LOCK TABLE goods; $do";

# For each case: statements of the holder, the statement that ends the
# transaction, and what the next holder sees after that
my @ends = (
	[ 'a commit', "BEGIN; $take; $top", 'COMMIT', 'new' ],
	[ 'a rollback', "BEGIN; $take; $top", 'ROLLBACK', 'old' ],
	[ 'an error', "BEGIN; $take; $top", 'SELECT 1/0', 'old' ],
	[ 'a prepared statement',
		"PREPARE it AS SELECT zk_lock_guard('/release') > 0",
		"BEGIN; EXECUTE it; LOCK TABLE goods; $do; $top; COMMIT", 'new' ],
	[ 'a cursor that is open',
		"BEGIN; $take; DECLARE c CURSOR FOR SELECT 1; FETCH c; $top",
		'COMMIT', 'new' ],
	[ 'a commit in a procedure', 'SELECT 1',
		"$take_in_block; PERFORM at_release('$file', true); COMMIT; END \$do\$",
		'new' ],
	[ 'ROLLBACK TO', "BEGIN; SAVEPOINT s; $take; $sub", 'ROLLBACK TO s', 'old' ],
	[ 'a block that fails', 'SELECT 1',
		"$take_in_block; PERFORM at_release('$file', false); PERFORM 1/0;
		 EXCEPTION WHEN division_by_zero THEN END \$do\$",
		'old' ],
	[ 'a disconnection', "BEGIN; $take; $top", undef, 'old' ]);

for my $end (@ends)
{
	my ($what, $before, $last, $seen) = @$end;
	my $holder = ZkTest->new($node, %settings);
	my $waiter = ZkTest->new($node);

	$node->safe_psql('postgres', body('old'));
	$waiter->query('BEGIN');
	is($waiter->query('SELECT body()'), 'old', "$what: waiter has seen the old function");
	unlike($holder->query($before), qr/ERROR/, "... holder's statements succeed");

	# In this order: the holder has the lock, the waiter waits, the holder
	# ends.
	if (defined $last)
	{
		$holder->start($last);
	}
	else
	{
		$holder->close;
	}
	wait_until('the holder is suspended', sub { -e $file });
	$waiter->start(q(SELECT zk_lock_guard('/release') > 0));
	wait_until('the waiter is in the queue',
		sub { grep { $_ == $waiter->pid } queue($zk, '/release') });
	wait_until_sent();
	is( join(' ', queue($zk, '/release')),
		join(' ', $holder->pid, $waiter->pid),
		"... holder has the lock until PostgreSQL's locks are released");
	unlink($file) or die "$file: $!\n";
	is($waiter->result, 't', '... the next holder gets the lock');
	is($waiter->query('SELECT body()'), $seen, '... it sees the result of the transaction');
	is($waiter->query('LOCK TABLE goods NOWAIT'),
		'', '... it finds no table locked');
	$waiter->query('COMMIT');
	$_->close for $holder, $waiter;
	wait_for_queue($zk, '/release');
}

# The same for each function that acquires a lock, and each scope: the call,
# and the path of the nodes in its queue
my %ways = (
	q(zk_lock_acquire('/release')) => '/release',
	q(zk_lock_acquire('/release', scope => 'transaction')) => '/release',
	q(zk_lock_acquire_all('{/release, /also}')) => '/also',
	q(zk_semaphore_acquire('/semaphore', 1)) => '/semaphore/leases');
for my $take (sort keys %ways)
{
	my $holder = ZkTest->new($node);
	my $waiter = ZkTest->new($node);

	$node->safe_psql('postgres', body('old'));
	$waiter->query('BEGIN');
	is($waiter->query('SELECT body()'), 'old', "$take: waiter has seen the old function");
	$holder->query("BEGIN; SELECT $take");
	$waiter->start("SELECT $take");
	wait_for_queue($zk, $ways{$take}, $holder, $waiter);
	$holder->query(body('new') . '; COMMIT');
	$holder->close;
	is($waiter->result, 't', '... the next holder gets the lock');
	is($waiter->query('SELECT body()'), 'new', '... it sees the committed function');
	$waiter->close;
	wait_for_queue($zk, $ways{$take});
}

done_testing();
