# The figures of docs/sizing.md, counted.
#
# Runs once: of both modes.

use strict;
use warnings;

use Docs;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkServer;
use ZkTest;

use constant {
	TICK => 2000,
	PINGS => 4,
	MB => 1024,
};

# ZooKeeper's own bounds for timeouts. Paths stay.
my $zk = ZkServer->new(
	tick_time => TICK,
	container_check => 3_600_000,
	config => { minSessionTimeout => -1, maxSessionTimeout => -1 })->start;
my $page = slurp_file("$FindBin::RealBin/../../docs/sizing.md");
my %node = map {
	$_ => new_node(
		$_, $zk->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session' => $_,
		'zklock.session_timeout' => '40s')    # so that pings are rare
} qw(backend server);

# The cells of a table's row
sub row
{
	my ($figure) = @_;
	my ($cells) = $page =~ /^\Q$figure\E \| (.*)$/m;

	ok(defined $cells, "the page has $figure");
	return split(/ \| /, $cells // '');
}

# What of mntr
sub count
{
	my ($what) = @_;

	return $zk->four_letter('mntr') =~ /^$what\t(\d+)$/m ? $1 : -1;
}

# What a connection of the session has sent to ZooKeeper so far
sub sent
{
	my ($session) = @_;
	my $id = $session->query('SELECT session_id FROM zk_session()');

	return $zk->four_letter('cons') =~ /recved=(\d+),sent=\d+,sid=$id,/ ? $1 : -1;
}

# What a process has: threads, descriptors and memory. Pages of shared memory that
# nobody else has come to yet would count as private.
sub usage
{
	my ($pid) = @_;

	return (
		scalar(() = glob("/proc/$pid/task/*")),
		scalar(() = glob("/proc/$pid/fd/*")),
		slurp_file("/proc/$pid/smaps_rollup") =~ /^Anonymous: +(\d+) kB/m);
}

# What a process has more of when a session has locked for the first time
sub first_lock
{
	my ($session, @pids) = @_;

	# What PostgreSQL itself keeps after such statements
	like($session->query(q(SELECT zk_lock_acquire(NULL), zk_lock_release('/first'))),
		qr/^ERROR:  22004/, 'no lock');

	my @before = map { [ usage($_) ] } @pids;
	is($session->query(q(SELECT zk_lock_acquire('/first'), zk_lock_release('/first'))),
		't|t', 'the first lock');
	return map {
		my ($before, @after) = (shift @before, usage($_));

		[ map { $after[$_] - $before->[$_] } 0 .. 2 ]
	} @pids;
}

# PostgreSQL's machine
my %session = map { $_ => ZkTest->new($node{$_}) } keys %node;
my @used = (
	first_lock($session{backend}, $session{backend}->pid),
	first_lock($session{server}, worker_of($node{server}), $session{server}->pid));
my @connections = row('connections to ZooKeeper');
my @threads = row('threads');
my @descriptors = row('file descriptors, at most');
my @memory = row('memory of its own, at most');

is(scalar(() = $zk->sessions), $connections[0] + $connections[1], 'there are two sessions');
for my $i (0 .. $#used)
{
	my ($threads, $descriptors, $memory) = @{ $used[$i] };

	is($threads, $threads[$i], "threads, $i");
	cmp_ok($descriptors, '<=', $descriptors[$i], "descriptors, $i");
	note("memory, $i: $memory kB");
	cmp_ok($memory, '<', $1 * MB, "memory, $i")
	  if $memory[$i] =~ /^(\d+) MB$/;
}

my @more = map { ZkTest->new($node{server}) } 1 .. 3;
is($_->query(q(SELECT zk_lock_acquire('/more', mode => 'shared'))), 't', 'one more backend')
  for @more;
is(scalar(() = $zk->sessions), 2, '... is no more sessions');
$_->close for @more;

# Crowds
my @nodes = row('nodes below the path');
my @watches = row('watches');
for my $i (0, 1)
{
	my $mode = (qw(backend server))[$i];
	my ($crowd) = map { $_ eq 'ten' ? 10 : () } $page =~ /Of (\w+) backends of one server/;
	my @crowd = map { ZkTest->new($node{$mode}) } 1 .. $crowd;

	wait_until('there is calm', sub { count('zk_watch_count') == 0 });
	$_->start(q(SELECT zk_lock_acquire('/crowd'))) for @crowd;
	wait_until(
		"all of them are there, $mode",
		sub {
			$node{$mode}->safe_psql('postgres',
				q(SELECT count(*) FROM zk_locks WHERE path = '/crowd')) == $crowd
			  && (() = $zk->children('/crowd')) == $nodes[$i]
			  && count('zk_watch_count') == $watches[$i];
		});
	pass("$nodes[$i] nodes and $watches[$i] watches, $mode");
	$_->close for @crowd;
	wait_until('they have gone', sub { !$zk->children('/crowd') });
}

# Requests
my @free = row('requests to take and give back a free lock, once its path is there');
my @held = row('requests to do so once more while it is held');
for my $i (0, 1)
{
	my $mode = (qw(backend server))[$i];
	my $session = ZkTest->new($node{$mode});

	$session->query(q(SELECT zk_lock_acquire('/first'), zk_lock_release('/first')));
	wait_until('that is over', sub { !$zk->children('/first') });
	my $before = sent($session);
	$session->query(q(SELECT zk_lock_acquire('/first'), zk_lock_acquire('/first')));
	$session->query(q(SELECT zk_lock_release('/first'), zk_lock_release('/first')));
	wait_until('the node has gone', sub { !$zk->children('/first') });
	is(sent($session) - $before, $free[$i] + $held[$i], "requests, $mode");
	$session->close;
}

# Pings
my ($part) = map { { third => 3 }->{$_} } $page =~ /sends a ping each (\w+) of the session's timeout/;
my $idle = ZkTest->new($node{backend}, 'zklock.session_timeout' => '4s');
$idle->query(q(SELECT zk_lock_acquire('/a'), zk_lock_release('/a')));
is($idle->query('SELECT timeout FROM zk_session()'), '00:00:04', 'a session of 4 s');
my $began = time();
my $sent = sent($idle);
wait_until('there are pings', sub { sent($idle) >= $sent + PINGS });
cmp_ok(time() - $began, '>', 0.9 * (PINGS - 1) * 4 / $part, '... and not too many');
$idle->close;

# The SQL, in a server that nobody else uses
$_->close for values %session;
wait_for_calm($node{backend}, $zk);
my %who = map { $_ => ZkTest->new($node{backend}) } 'a client', 'another client';
my @blocks = sql_blocks('docs/sizing.md');

is(scalar @blocks, 3, 'there is SQL');
for my $block (@blocks)
{
	run_documented($who{ $block->{as} }, $_) for @{ $block->{statements} };
}

# Shared memory: what so many more locks take more
sub shared_memory
{
	return $node{backend}->safe_psql('postgres',
		'SELECT sum(allocated_size) FROM pg_shmem_allocations');
}

my ($kb) = $page =~ /takes ([\d.]+) kB for each/;
my $before = shared_memory();
$node{backend}->append_conf('postgresql.conf', 'zklock.max_locks = 20480');
$node{backend}->restart;
my $each = (shared_memory() - $before) / (20480 - 2048) / 1024;
ok(abs($each - $kb) < 0.3, "$each kB for a lock");

done_testing();
