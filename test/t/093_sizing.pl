# The figures of docs/sizing.md are counted.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Docs;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkClient;
use ZkServer;
use ZkTest;

use constant {
	TICK => 2000,
	WRITES => 4,
	MB => 1024,
	RECORDS => 7000,
	SEARCHES => 8,
};

# No limits for timeouts in ZooKeeper
my $zk = ZkServer->new(
	tick_time => TICK,
	config => { minSessionTimeout => -1, maxSessionTimeout => -1 })->start;
my $page = slurp_file("$FindBin::RealBin/../../docs/sizing.md");
my %node = map {
	$_ => new_node(
		$_, $zk->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_mode' => $_,
		'zklock.session_timeout' => '40s')    # long, so pings are rare
} qw(backend server);

# Returns the cells of a row in a table of the page.
sub row
{
	my ($figure) = @_;
	my ($cells) = $page =~ /^\Q$figure\E \| (.*)$/m;

	ok(defined $cells, "page has a row for $figure");
	return split(/ \| /, $cells // '');
}

# Returns a value of mntr.
sub count
{
	my ($what) = @_;

	return $zk->four_letter('mntr') =~ /^$what\t(\d+)$/m ? $1 : -1;
}

# Returns the number of requests that the session's connection has sent so far.
sub sent
{
	my ($session) = @_;
	my $id = $session->query('SELECT session_id FROM zk_session()');

	return $zk->four_letter('cons') =~ /recved=(\d+),sent=\d+,sid=$id,/ ? $1 : -1;
}

# Returns the number of threads and descriptors, and the memory of a process.
# Other memory would include pages of shared memory that no other process has
# used yet.
sub usage
{
	my ($pid) = @_;

	return (
		scalar(() = glob("/proc/$pid/task/*")),
		scalar(() = glob("/proc/$pid/fd/*")),
		slurp_file("/proc/$pid/smaps_rollup") =~ /^Anonymous: +(\d+) kB/m);
}

# Returns how much each process uses in addition after the first lock of a
# session.
sub first_lock
{
	my ($session, @pids) = @_;

	# PostgreSQL itself keeps some memory after the first such statement.
	like($session->query(q(SELECT zk_lock_acquire(NULL), zk_lock_release('/first'))),
		qr/^ERROR:  22004/, 'invalid call is refused');

	my @before = map { [ usage($_) ] } @pids;
	is($session->query(q(SELECT zk_lock_acquire('/first'), zk_lock_release('/first'))),
		't|t', 'first lock is acquired');
	return map {
		my ($before, @after) = (shift @before, usage($_));

		[ map { $after[$_] - $before->[$_] } 0 .. 2 ]
	} @pids;
}

# The machine of PostgreSQL
my %session = map { $_ => ZkTest->new($node{$_}) } keys %node;
my @used = (
	first_lock($session{backend}, $session{backend}->pid),
	first_lock($session{server}, worker_of($node{server}), $session{server}->pid));
my @connections = row('connections to ZooKeeper');
my @threads = row('threads');
my @descriptors = row('file descriptors, at most');
my @memory = row('memory of its own, at most');

is(scalar(() = $zk->sessions), $connections[0] + $connections[1], 'number of sessions');
for my $i (0 .. $#used)
{
	my ($threads, $descriptors, $memory) = @{ $used[$i] };

	is($threads, $threads[$i], "number of threads, $i");
	cmp_ok($descriptors, '<=', $descriptors[$i], "number of descriptors, $i");
	note("memory, $i: $memory kB");
	cmp_ok($memory, '<', $1 * MB, "size of memory, $i")
	  if $memory[$i] =~ /^(\d+) MB$/;
}

my @more = map { ZkTest->new($node{server}) } 1 .. 3;
is($_->query(q(SELECT zk_lock_acquire('/more', mode => 'shared'))),
	't', 'another backend acquires a lock')
  for @more;
is(scalar(() = $zk->sessions), 2, '... without another session');
$_->close for @more;

# Several backends that wait for one lock
my @nodes = row('nodes below the path');
my @watches = row('watches');
for my $i (0, 1)
{
	my $mode = (qw(backend server))[$i];
	my ($crowd) = map { $_ eq 'ten' ? 10 : () } $page =~ /Of (\w+) backends of one server/;
	my @crowd = map { ZkTest->new($node{$mode}) } 1 .. $crowd;

	wait_until('no watch is left', sub { count('zk_watch_count') == 0 });
	$_->start(q(SELECT zk_lock_acquire('/crowd'))) for @crowd;
	wait_until(
		"all backends hold or wait, $mode",
		sub {
			$node{$mode}->safe_psql('postgres',
				q(SELECT count(*) FROM zk_locks WHERE path = '/crowd')) == $crowd
			  && (() = $zk->children('/crowd')) == $nodes[$i]
			  && count('zk_watch_count') == $watches[$i];
		});
	pass("$nodes[$i] nodes and $watches[$i] watches, $mode");
	$_->close for @crowd;
	wait_until('all nodes are deleted', sub { !$zk->children('/crowd') });
}

# Searches for deadlocks, beside more records than they have memory for
{
	my ($mb) = $page =~ /searches take at most (\d+) MB/;
	my $client = ZkClient->new($zk->hosts);
	my $holder = ZkTest->new($node{server});
	my @waiters = map { ZkTest->new($node{server}, deadlock_timeout => '100ms') } 1 .. SEARCHES;
	my $worker = worker_of($node{server});

	$holder->query(q(SELECT zk_lock_acquire('/searched')));
	$waiters[$_]->query("SELECT zk_lock_acquire('/searched/$_')") for 0 .. $#waiters;
	$waiters[0]->query(q(SELECT zk_lock_acquire('/searched', '1s')));
	$client->create(sprintf('/zklock/waits/%064x%016x', 0, $_), '', ZkClient::EPHEMERAL)
	  for 1 .. RECORDS;
	my ($before) = (usage($worker))[2];
	$_->start(q(SELECT zk_lock_acquire('/searched', '3s'))) for @waiters;
	$_->result for @waiters;
	my $used = (usage($worker))[2] - $before;
	note("memory of searches: $used kB");
	cmp_ok($used, '<', $mb * MB, 'memory of searches');
	like(slurp_file($node{server}->logfile),
		qr/gave up a search for a deadlock across servers/, '... which was used up');
	$_->close for @waiters, $holder, $client;
	wait_until('no record is left', sub { !$zk->children('/zklock/waits') });
}

# Requests
my @free = row('requests to take and give back a free lock, once its path is there');
my @held = row('requests to do so once more while it is held');
for my $i (0, 1)
{
	my $mode = (qw(backend server))[$i];
	my $session = ZkTest->new($node{$mode});

	$session->query(q(SELECT zk_lock_acquire('/first'), zk_lock_release('/first')));
	wait_until('the node is deleted', sub { !$zk->children('/first') });
	my $before = sent($session);
	$session->query(q(SELECT zk_lock_acquire('/first'), zk_lock_acquire('/first')));
	$session->query(q(SELECT zk_lock_release('/first'), zk_lock_release('/first')));
	wait_until('the node is deleted', sub { !$zk->children('/first') });
	is(sent($session) - $before, $free[$i] + $held[$i], "number of requests, $mode");
	$session->close;
}

# What a holder that is idle sends
my ($part) = map { { sixth => 6 }->{$_} } $page =~ /writes to ZooKeeper\s+each (\w+) of its timeout/;
my $idle = ZkTest->new($node{backend}, 'zklock.session_timeout' => '4s');
$idle->query(q(SELECT zk_lock_acquire('/a')));
is($idle->query('SELECT timeout FROM zk_session()'), '00:00:04',
	'session has a timeout of 4 s');
my $began = time();
my $sent = sent($idle);
wait_until('it writes', sub { sent($idle) >= $sent + WRITES });
cmp_ok(time() - $began, '>', 0.9 * (WRITES - 1) * 4 / $part,
	'it writes as rarely as documented');
$idle->close;

# The SQL statements, on a server without other sessions
$_->close for values %session;
wait_until_idle($node{backend}, $zk);
my %client = map { $_ => ZkTest->new($node{backend}) } 'a client', 'another client';
my @blocks = sql_blocks('docs/sizing.md');

is(scalar @blocks, 3, 'page has SQL statements');
for my $block (@blocks)
{
	run_documented($client{ $block->{as} }, $_) for @{ $block->{statements} };
}

# The shared memory of each backend, and of each additional lock
sub memory_of_backends
{
	return $node{backend}->safe_psql('postgres',
		q(SELECT sum(size) FROM pg_shmem_allocations WHERE name LIKE 'zklock%'));
}

sub shared_memory
{
	return $node{backend}->safe_psql('postgres',
		'SELECT sum(allocated_size) FROM pg_shmem_allocations');
}

my ($kb, $kb_of_backend) = $page =~ /takes ([\d.]+) kB for each.* and ([\d.]+) kB for each/s;
my $before = shared_memory();
$node{backend}->append_conf('postgresql.conf', 'zklock.max_locks = 20480');
$node{backend}->restart;
my $each = (shared_memory() - $before) / (20480 - 2048) / 1024;
ok(abs($each - $kb) < 0.3, "shared memory for a lock: $each kB");
$before = memory_of_backends();
my $n = $node{backend}->safe_psql('postgres', 'SHOW max_connections');
$node{backend}->append_conf('postgresql.conf', 'max_connections = ' . ($n + 100));
$node{backend}->restart;
$each = (memory_of_backends() - $before) / 100 / 1024;
ok(abs($each - $kb_of_backend) < 0.3, "shared memory for a backend: $each kB");

done_testing();
