# Semaphores whose size is a count in ZooKeeper that changes while they are in
# use.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $zk->hosts);
my @s = map { ZkTest->new($node)->connect } 0 .. 3;
my $client = ZkClient->new($zk->hosts);

sub acquire_lease
{
	my ($path, $timeout) = @_;

	$timeout = defined $timeout ? ", '$timeout'" : '';
	return "SELECT zk_semaphore_acquire_counted('$path', '/limits/c'$timeout)";
}

# Tries to get a lease, until ZooKeeper has answered in time: none is free.
sub no_lease_ok
{
	my ($session, $path, $timeout, $what) = @_;
	my $answer;

	wait_until(
		'ZooKeeper answers',
		sub {
			$answer = $session->query(acquire_lease($path, $timeout));
			return $answer !~ /^ERROR:  08/;
		});
	return is($answer, 'f', $what);
}

sub release
{
	my ($session, $path) = @_;

	is($session->query("SELECT zk_semaphore_release('$path')"), 't', 'lease is released');
	return;
}

sub set
{
	my ($n) = @_;

	return is($s[3]->query("SELECT zk_shared_count_set('/limits/c', $n)"),
		'', "count is set to $n");
}

# Waits until there are $n nodes of leases, including those of waiters.
sub wait_for_leases
{
	my ($path, $n) = @_;

	wait_until("there are $n leases",
		sub { $n == (my @leases = $zk->children("$path/leases")) });
	return;
}

# Starts to wait for a lease, and returns when the session waits for the count.
sub wait_in_line
{
	my ($session, $path) = @_;

	$session->start(acquire_lease($path));
	wait_until(
		'zk_lock_queue() shows the waiter',
		sub {
			$s[3]->query("SELECT true FROM zk_lock_queue('$path')
				WHERE state = 'waiter' AND mode = 'semaphore'
				  AND pid = ${\ $session->pid}") eq 't';
		});
	wait_until('the count is watched',
		sub { $zk->four_letter('wchp') =~ m{^/limits/c$}m });
	return;
}

sub nothing_left_ok
{
	my ($path, $what) = @_;

	wait_until("no nodes are left at $path",
		sub { !map { $zk->children("$path/$_") } qw(locks leases) });
	wait_until('no watches are left',
		sub { $zk->four_letter('wchs') =~ /^Total watches:0$/m });
	return ok(1, $what);
}

# A count is missing, and then created
is($s[0]->query(q(SELECT zk_shared_count_get('/limits/c') IS NULL)),
	't', 'count of a missing node is null');
like($s[0]->query(acquire_lease('/c')),
	qr{^ERROR:  42704: count of leases "/limits/c" does not exist\nDETAIL:  .*"/c" has\.\nHINT:  Make it with zk_shared_count_set}m,
	'... and an error for a semaphore');
nothing_left_ok('/c', '... which leaves no node');
set(2);
is($client->get('/limits/c')->{data}, "\0\0\0\2", "... count has Curator's format");
is($client->get('/limits/c')->{ephemeralOwner},
	0, '... count is stored in a persistent node');
is($s[0]->query(q(BEGIN READ ONLY; SELECT zk_shared_count_get('/limits/c'); COMMIT)),
	'2', '... count can be read');

# As many leases as the count says
is($s[$_]->query(acquire_lease('/c')), 't', 'lease is granted') for 0, 1;
no_lease_ok($s[2], '/c', $_, "... but no third one within $_") for '0', '1s';
is($s[0]->query(acquire_lease('/c')), 't', 'holder gets its lease again');
release($s[0], '/c');
is($client->get('/c/leases')->{data} // '',
	'', 'node of the leases does not store the number');

# The count is raised
wait_in_line($s[2], '/c');
set(3);
is($s[2]->result, 't', '... and the waiter gets a lease');
wait_for_leases('/c', 3);

# The count is lowered
set(1);
is($s[3]->query(q(
		SELECT count(*) FROM zk_lock_queue('/c') WHERE state = 'holder')),
	'3', '... and holders keep their leases');
no_lease_ok($s[3], '/c', '0', '... and no new lease is granted');
release($s[0], '/c');
wait_for_leases('/c', 2);
wait_in_line($s[0], '/c');
release($s[1], '/c');
wait_for_leases('/c', 2);
is($s[3]->query(q(
		SELECT count(*) FILTER (WHERE state = 'holder'),
			count(*) FILTER (WHERE state = 'waiter')
		FROM zk_lock_queue('/c') WHERE mode = 'semaphore')),
	'1|1', '... while one lease is held');
ok(!$s[0]->is_done, '... the waiter still waits');
release($s[2], '/c');
is($s[0]->result, 't', '... until all leases are released');
release($s[0], '/c');

# A count of zero grants no lease.
set(0);
wait_in_line($s[0], '/c');
is($s[1]->query(q(SELECT zk_semaphore_acquire('/c2', 1))),
	't', 'semaphore of another size is not affected');
set(1);
is($s[0]->result, 't', '... the waiter gets a lease after the count is raised');
no_lease_ok($s[1], '/c', '0', '... and no other session');
$_->query('SELECT zk_lock_release_all()') for @s;
nothing_left_ok('/c', 'no node is left');

# A lease is released with its transaction.
is($s[0]->query(q(BEGIN; SELECT zk_semaphore_acquire_counted('/c', '/limits/c', NULL,
			'transaction'); COMMIT)), 't', 'lease is acquired in a transaction');
nothing_left_ok('/c', '... and released with it');

# Two semaphores share a count: it is watched as long as one of them needs it.
set(0);
wait_in_line($s[0], '/c/a');
wait_in_line($s[1], '/c/b');
kill('INT', $s[0]->pid);
like($s[0]->result, qr/^ERROR:  57014/, 'one of two waits is cancelled');
wait_until('the cancelled wait has left no node', sub { !$zk->children('/c/a/leases') });
set(1);
is($s[1]->result, 't', '... and the other waiter sees the new count');
$_->query('SELECT zk_lock_release_all()') for @s;
nothing_left_ok("/c/$_", 'no node is left') for qw(a b);

# The node may contain no valid count.
sub refused
{
	my ($what) = @_;

	return like($s[0]->result, qr{^ERROR:  55000: "/limits/c" is not a count of leases\nDETAIL:  A count is a persistent node with four bytes}m, $what);
}
for my $data ('', '123', '12345', "\xff\xff\xff\xff")
{
	my $length = length($data);

	$client->set('/limits/c', $data);
	$s[0]->start(acquire_lease('/c'));
	refused("count of $length bytes is refused");
	$client->set('/limits/c', "\0\0\0\0");
	wait_in_line($s[0], '/c');
	$client->set('/limits/c', $data);
	refused('... also during a wait');
	if ($length == 4)
	{
		is($s[0]->query(q(SELECT zk_shared_count_get('/limits/c'))),
			'-1', '... negative count can be read and set');
		next;
	}
	$s[0]->start(q(SELECT zk_shared_count_get('/limits/c')));
	refused('... and cannot be read');
	$s[0]->start(q(SELECT zk_shared_count_set('/limits/c', 5)));
	refused('... and cannot be set');
	is($client->get('/limits/c')->{data} // '', $data, '... and the data is not changed');
	$client->set('/limits/c', "\0\0\0\0");
}
set(0);
wait_in_line($s[0], '/c');
$client->delete('/limits/c');
like($s[0]->result, qr{^ERROR:  42704: count of leases "/limits/c"}m,
	'waiter gets an error when the count is deleted');
nothing_left_ok('/c', '... and leaves no node');
like($s[0]->query(q(SELECT zk_shared_count_set('/limits/c', -1))),
	qr/^ERROR:  22023: count must not be negative$/m, 'negative count is refused');
my $count = $s[0]->query(q(
	SELECT zk_lock_acquire('/limits/simple', mode => 'simple'), zk_shared_count_get('/limits/simple')));
like($count, qr/^ERROR:  55000:/m, 'node of a lock is no count');
like($s[0]->query(q(SELECT zk_semaphore_acquire_counted('/c', NULL))),
	qr/^ERROR:  22004: path of a count must not be null$/m,
		'null path of a count is refused');

# Counts that may not be read or written, or cannot be created
for my $acl ('cdwa', 'cdra')
{
	my $maker =
	  ZkTest->new($node, OWN_SESSION, 'zklock.acl' => "world:anyone:$acl");

	is($maker->query("SELECT zk_shared_count_set('/limits/$acl', 1)"),
		'', "count with permissions $acl is created");
	$maker->close;
}
like($s[0]->query(q(SELECT zk_semaphore_acquire_counted('/c', '/limits/cdwa'))),
	qr{^ERROR:  28000: could not lock "/c"\nDETAIL:  ZooKeeper refused to read "/limits/cdwa": }m,
	'... error for a count that may not be read');
like($s[0]->query(q(SELECT zk_shared_count_set('/limits/cdra', 2))),
	qr{^ERROR:  28000: could not set count "/limits/cdra"\nDETAIL:  ZooKeeper refused to write to "/limits/cdra": }m,
	'... error for a count that may not be written');
is($s[0]->query(q(SELECT zk_semaphore_acquire_counted('/c', '/limits/cdra'),
			zk_semaphore_release('/c'))), 't|t', '... which can be used by a semaphore');
my $lost = ZkTest->new($node, OWN_SESSION, 'zklock.hosts' => $zk->hosts . '/none');
like($lost->query(q(SELECT zk_shared_count_set('/limits/c', 1))),
	qr{^ERROR:  42704: could not create count "/limits/c" in ZooKeeper$}m,
	'error for a count below a missing root');
$lost->close;
nothing_left_ok('/c', 'no node is left');

# The connection is lost, and the count changes meanwhile.
set(0);
my ($far_node, %settings) = with_settings($node, 'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '40s');
my $far = ZkTest->new($far_node, %settings)->connect;
for my $when ('before', 'while', 'after')
{
	wait_in_line($far, '/c');
	$proxy->wait_idle;
	$proxy->mark;
	if ($when eq 'before')
	{
		# The event is lost together with the connection.
		my $rule = $proxy->rule(dir => 's2c', op => 'event', action => 'drop');
		set(1);
		wait_until('the event is lost', sub { $proxy->fired($rule) });
	}
	else
	{
		$proxy->refuse;
		$proxy->cut;
		set(1) if $when eq 'while';
		$proxy->accept;
		$proxy->wait_frame(dir => 's2c', op => 'getChildren') if $when eq 'after';
		set(1) if $when eq 'after';
	}
	is($far->result,
		't', "waiter sees a count that is raised ($when the loss of its connection)");
	$far->query(q(SELECT zk_semaphore_release('/c')));
	$proxy->reset;
	set(0);
}
nothing_left_ok('/c', '... and no node is left');

done_testing();
