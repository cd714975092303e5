# Deadlocks among the backends of a server are found and broken: those of
# ZooKeeper locks, and those with locks of PostgreSQL.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use ZkServer;
use ZkTest;

# The backend that looks is the one with the short deadlock_timeout. With the
# long one, a backend does not look during the test.
use constant {
	SHORT => '100ms',
	LONG => '1h'
};

my $zk = ZkServer->new->start;
my $node = new_node(
	'main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	deadlock_timeout => LONG);
my $observer = ZkTest->new($node);
my ($a, $b, $c, $d) = map { ZkTest->new($node) } 1 .. 4;
my $n = 0;

$observer->query('CREATE TABLE t AS SELECT i FROM generate_series(1, 9) AS i');

sub counted
{
	return $observer->query('SELECT deadlocks FROM zk_lock_stats');
}

# Starts a statement, and waits until it waits.
sub block
{
	my ($session, $sql) = @_;

	$session->start($sql);
	$session->wait_for_lock;
	return;
}

# Begins a transaction in each session, with another deadlock_timeout in the
# first one, which is to be the victim.
sub begin
{
	my ($victim, @others) = @_;

	$_->query('ROLLBACK; BEGIN') for $victim, @others;
	$victim->query("SET LOCAL deadlock_timeout = '${\ SHORT}'");
	return '/t' . ++$n;
}

# The error of a victim, with these lines of the detail
sub error_of
{
	my ($victim, @lines) = @_;
	my $detail = join('\n', @lines);

	return qr/^ERROR:\ \ 40P01:\ deadlock\ detected\n
		DETAIL:\ \ $detail\n
		HINT:\ \ See\ server\ log\ for\ query\ details\.$/mx;
}

sub line
{
	my ($session, $what, $blocker) = @_;

	return 'Process\ ' . $session->pid . '\ waits\ for\ ' . ($what =~ s/ /\\ /gr)
	  . ';\ blocked\ by\ process\ ' . $blocker->pid . '\.';
}

sub on_path
{
	my ($path, $mode) = @_;

	return ($mode // 'exclusive') . " lock on path \"$path\"";
}

# Two sessions, two locks, opposite order

my $p = begin($b, $a);
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($a, xact_acquire("$p/2"));
my $log = -s $node->logfile;
$b->start(xact_acquire("$p/1"));
like(
	$b->result,
	error_of(
		$b, line($b, on_path("$p/1"), $a), line($a, on_path("$p/2"), $b)),
	'the backend that finds the deadlock gets an error');
my $log_entry = substr(slurp_file($node->logfile), $log);
like($log_entry, qr/Process ${\ $b->pid}: SELECT zk_lock_acquire\('$p\/1'.*\n.*Process ${\ $a->pid}: SELECT zk_lock_acquire\('$p\/2'/,
	'the log has the queries');
is(counted(), '1', 'the deadlock is counted');
is($a->result, 't', 'its transaction is aborted, and the other one is granted the lock');
$b->query('ROLLBACK');

# A backend reports its statistics at the end of a transaction, but not often.
wait_until('pg_stat_database counts the deadlock',
	sub {
		$b->query('SELECT 1');
		$observer->query('SELECT deadlocks FROM pg_stat_database
			WHERE datname = current_database()') eq '1';
	});

# Session scope: what was held before stays.

$p = begin($b, $a);
$a->query(xact_acquire("$p/1"));
$b->query("SELECT zk_lock_acquire('$p/2', scope => 'session')");
block($a, xact_acquire("$p/2"));
like($b->query(xact_acquire("$p/1")), qr/40P01/, 'a deadlock with a lock of session scope');
$b->query('ROLLBACK');
is($observer->query("SELECT path, granted FROM zk_locks WHERE pid = ${\ $b->pid}"),
	"$p/2|t", '... which is still held after the rollback');
ok(!$a->is_done, '... so that the other one still waits');
$b->query('SELECT zk_lock_release_all()');
is($a->result, 't', '... until it is released');

# A cycle with a lock of PostgreSQL. First the backend that waits for that waits
# last, and then first.

my %locks = (
	'a row' => [ 'UPDATE t SET i = i WHERE i = 1', qr/ShareLock on transaction \d+/ ],
	'an advisory lock' =>
	  [ 'SELECT pg_advisory_xact_lock(7)', qr/ExclusiveLock on advisory lock \S+/ ],
	'a table' => [
		'LOCK TABLE t IN ACCESS EXCLUSIVE MODE',
		qr/AccessExclusiveLock on relation \d+ of database \d+/ ]);

for my $what (sort keys %locks)
{
	my ($sql, $description) = @{ $locks{$what} };

	for my $order ('last', 'first')
	{
		$p = begin($a, $b);
		$a->query($sql);
		$b->query(xact_acquire($p));
		block($b, $sql) if $order eq 'first';
		$a->start(xact_acquire($p));
		$a->wait_for_lock if $order eq 'last';
		$b->start($sql) if $order eq 'last';
		like($a->result,
			error_of($a, line($a, on_path($p), $b), line($b, $description, $a)),
			"a deadlock with $what, whose waiter waits $order");
		$a->query('ROLLBACK');
		unlike($b->result, qr/ERROR/, '... and the other one goes on');
	}
}

# A backend without ZooKeeper locks is a member.

$p = begin($a, $b, $c);
$a->query('SELECT pg_advisory_xact_lock(1)');
$b->query(xact_acquire($p));
$c->query('SELECT pg_advisory_xact_lock(2)');
block($c, 'SELECT pg_advisory_xact_lock(1)');
block($b, 'SELECT pg_advisory_xact_lock(2)');
like(
	$a->query(xact_acquire($p)),
	error_of(
		$a,
		line($a, on_path($p), $b),
		line($b, qr/ExclusiveLock on advisory lock \S+/, $c),
		line($c, qr/ExclusiveLock on advisory lock \S+/, $a)),
	'a deadlock through a backend without ZooKeeper locks');
$a->query('ROLLBACK');
$c->result;
$c->query('ROLLBACK');
$b->result;

# Readers and writers

$p = begin($c, $a, $b);
$a->query(xact_acquire("$p/1", mode => 'shared'));
$c->query(xact_acquire("$p/2"));
block($b, xact_acquire("$p/1", mode => 'write'));
block($a, xact_acquire("$p/2"));
like(
	$c->query(xact_acquire("$p/1", mode => 'shared')),
	error_of(
		$c,
		line($c, on_path("$p/1", 'shared'), $b),
		line($b, on_path("$p/1", 'write'), $a),
		line($a, on_path("$p/2"), $c)),
	'a reader waits behind a writer that waits behind a reader');
$c->query('ROLLBACK');
is($a->result, 't', '... and the first reader goes on');
$a->query('ROLLBACK');
$b->result;

$p = begin($b, $a);
$_->query(xact_acquire("$p/1", mode => 'shared')) for $a, $b;
$a->query(xact_acquire("$p/2"));
$b->start(xact_acquire("$p/2", mode => 'shared'));
$b->wait_for_lock;
is($a->query(xact_acquire("$p/1", mode => 'shared')), 't', 'a holder takes a lock again while others wait');
$a->query('ROLLBACK');
is($b->result, 't', '... and readers do not block each other');

# Who only waits ahead of a member, in the queue of a lock, is no victim, although it looks
# first: the one behind it would still wait for the holder.

my %taken = (
	'a lock' => \&xact_acquire,
	'a semaphore' => sub { "SELECT zk_semaphore_acquire('$_[0]', 1, scope => 'transaction')" });

for my $what (sort keys %taken)
{
	my $take = $taken{$what};
	my $row = 'UPDATE t SET i = i WHERE i = 2';

	$p = begin($c, $a, $b);
	$b->query(q(SET LOCAL deadlock_timeout = '1s'));
	$a->query($take->($p));
	$b->query($row);
	block($c, $take->($p));
	block($b, $take->($p));
	$a->start($row);
	like($b->result, qr/40P01/, "$what: who waits behind another one is the victim");
	$b->query('ROLLBACK');
	is($a->result, '', '... the holder goes on');
	$a->query('ROLLBACK');
	is($c->result, 't', '... and so does the one that waited ahead');
}

# Many locks: those that are granted already block others. One whose path has to be made
# first comes later than others of the same call.

$p = begin($b, $a);
$b->query(xact_acquire("$p/2"));
block($a, "SELECT zk_lock_acquire_all('{$p/1,$p/2,$p/3}', scope => 'transaction')");
wait_for_nodes($zk, "$p/1", 1);
like(
	$b->query(xact_acquire("$p/1")),
	error_of(
		$b, line($b, on_path("$p/1"), $a), line($a, on_path("$p/2"), $b)),
	'a deadlock with a backend that takes many locks');
$b->query('ROLLBACK');
is($a->result, 't', '... which goes on');

my $attempts = 'SELECT deadlocks, cancels, acquires - deadlocks - cancels FROM zk_lock_stats';
my @before = split(/\|/, $observer->query($attempts));
$p = begin($a, $b);
$b->query(xact_acquire("$p/2"));
$a->start("SELECT zk_lock_acquire_all('{$p/1,$p/2,$p/3}', scope => 'transaction')");
$a->wait_for_lock;
wait_for_nodes($zk, "$p/1", 1);
$b->start(xact_acquire("$p/1"));
like(
	$a->result,
	error_of(
		$a, line($a, on_path("$p/2"), $b), line($b, on_path("$p/1"), $a)),
	'a backend that takes many locks finds a deadlock');
$a->query('ROLLBACK');
is($b->result, 't', '... and the other one goes on');
my @after = split(/\|/, $observer->query($attempts));
is_deeply(
	[ map { $after[$_] - $before[$_] } 0 .. 2 ],
	[ 1, 2, 2 ],
	'... which is counted once, with two attempts that were given up and two grants');

# It does not have the locks that sort behind the one it waits for.
$p = begin($b, $a);
$b->query(xact_acquire("$p/2"));
block($a, "SELECT zk_lock_acquire_all('{$p/1,$p/2,$p/3}', scope => 'transaction')");
wait_for_nodes($zk, "$p/1", 1);
is($b->query(xact_acquire("$p/3")), 't', 'a backend that takes many locks has none behind the first one that is taken');
$b->query('ROLLBACK');
is($a->result, 't', '... and gets them later');

# Semaphores: any lease will do.

my $lease = sub { my ($path, $permits) = @_;
	return "SELECT zk_semaphore_acquire('$path', $permits, scope => 'transaction')" };

$p = begin($a, $b, $c);
$a->query(xact_acquire("$p/1"));
$_->query($lease->("$p/s", 2)) for $b, $c;
block($a, $lease->("$p/s", 2));
block($b, xact_acquire("$p/1"));
$c->start(xact_acquire("$p/1"));
like(
	$a->result,
	qr/ERROR:  40P01: deadlock detected\nDETAIL:  Process ${\ $a->pid} waits for semaphore lock on path "$p\/s"; blocked by process (${\ $b->pid}|${\ $c->pid})\.\nProcess \1 waits for exclusive lock on path "$p\/1"; blocked by process ${\ $a->pid}\./,
	'a deadlock with all holders of a semaphore');
$a->query('ROLLBACK');
is($b->result, 't', '... in which one holder goes on');
$b->query('ROLLBACK');
is($c->result, 't', '... and then the other one');

$p = begin($a, $b, $c);
$a->query(xact_acquire("$p/1"));
$_->query($lease->("$p/s", 2)) for $b, $c;
block($b, xact_acquire("$p/1"));
$a->query('SET LOCAL log_lock_waits = on');
$a->start($lease->("$p/s", 2));
wait_until(
	'the backend has looked for a deadlock',
	sub {
		slurp_file($node->logfile) =~ /process ${\ $a->pid} still waiting for .*"$p\/s"/;
	});
ok(!$a->is_done, 'no deadlock as long as one holder of a semaphore does not wait');
$c->query('ROLLBACK');
is($a->result, 't', '... whose lease is then granted');
$a->query('ROLLBACK');
is($b->result, 't', '... and the other holder goes on');

# A backend that waits for a lease has the mutex.
$p = begin($c, $a, $b);
$b->query($lease->("$p/s", 1));
$c->query(xact_acquire("$p/1"));
block($a, $lease->("$p/s", 1));
block($b, xact_acquire("$p/1"));
like(
	$c->query($lease->("$p/s", 1)),
	error_of(
		$c,
		line($c, on_path("$p/s/locks"), $a),
		line($a, on_path("$p/s", 'semaphore'), $b),
		line($b, on_path("$p/1"), $c)),
	'a deadlock with the mutex of a semaphore');
$c->query('ROLLBACK');
is($b->result, 't', '... in which the holder of the lease goes on');
$b->query('ROLLBACK');
is($a->result, 't', '... and then the one with the mutex');

# Simple locks

$p = begin($b, $a);
$a->query(xact_acquire("$p-1", mode => 'simple'));
$b->query(xact_acquire("$p-2", mode => 'simple'));
$a->start(xact_acquire("$p-2", mode => 'simple'));
like($b->query(xact_acquire("$p-1", mode => 'simple')), qr/40P01/, 'a deadlock of simple locks');
$b->query('ROLLBACK');
is($a->result, 't', '... in which the other one goes on');

# A downgraded lock: the reader's node blocks writers.

$p = begin($b, $a);
$a->query(xact_acquire("$p/1"));
$a->query("SELECT zk_lock_acquire('$p/1', mode => 'shared', scope => 'session')");
$a->query('COMMIT; BEGIN');
$b->query(xact_acquire("$p/2"));
block($a, xact_acquire("$p/2"));
like($b->query(xact_acquire("$p/1")), qr/40P01/, 'a deadlock with a downgraded lock');
$b->query('ROLLBACK');
is($a->result, 't', '... whose holder goes on');
$a->query('ROLLBACK; SELECT zk_lock_release_all()');

# Two deadlocks at once that share nobody

my ($x, $y) = ("$p/x", "$p/y");
begin($b, $a);
begin($d, $c);
$a->query(xact_acquire("$x/1"));
$b->query(xact_acquire("$x/2"));
$c->query(xact_acquire("$y/1"));
$d->query(xact_acquire("$y/2"));
block($a, xact_acquire("$x/2"));
block($c, xact_acquire("$y/2"));
$b->start(xact_acquire("$x/1"));
$d->start(xact_acquire("$y/1"));
like($_->result, qr/40P01/, 'each of two deadlocks has a victim') for $b, $d;
$_->query('ROLLBACK') for $b, $d;
is($_->result, 't', '... and the other one goes on') for $a, $c;

# Several backends look at the same time: one victim. The time is that from the last
# statement of the cycle, which includes psql.

$_->query(q(ROLLBACK; SET deadlock_timeout = '1s')) for $a, $b, $c, $d;
for my $round (1 .. 3)
{
	my $path = '/t' . ++$n;
	my @sessions = ($a, $b, $c, $d);
	my @paths = map { "$path/$_" } 0 .. 3;

	$_->query('BEGIN') for @sessions;
	$sessions[$_]->query(xact_acquire($paths[$_])) for 0 .. 3;
	my $began = time();
	$sessions[$_]->start(xact_acquire($paths[ ($_ + 1) % 4 ])) for 0 .. 3;
	wait_until('a wait ends', sub { grep { $_->is_done } @sessions });
	note(sprintf('a victim after %.3f s', time() - $began));

	# Each one that ends lets another one go on.
	my %open = map { ($_ => $sessions[$_]) } 0 .. 3;
	my $victims = 0;
	while (%open)
	{
		wait_until('a wait ends', sub { grep { $_->is_done } values %open });
		for my $i (grep { $open{$_}->is_done } keys %open)
		{
			$victims += $open{$i}->result =~ /40P01/;
			$open{$i}->query('ROLLBACK');
			delete $open{$i};
		}
	}
	is($victims, 1, 'a cycle of four that all look has one victim');
}
$_->query('RESET deadlock_timeout') for $a, $b, $c, $d;

# No deadlock: chains, timeouts, a stopped holder

my $before = counted();
$p = begin($d, $a, $b, $c);
$_->query(q(SET LOCAL deadlock_timeout = '10ms')) for $a, $b, $c, $d;
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
$c->query(xact_acquire("$p/3"));
$b->start(xact_acquire("$p/1"));
$c->start(xact_acquire("$p/2"));
$d->start("SELECT zk_lock_acquire('$p/3', '500ms', scope => 'transaction')");
is($d->result, 'f', 'the end of a chain of waiters gets a timeout');
kill('STOP', $a->pid);
is($d->query("SELECT zk_lock_acquire('$p/3', '500ms', scope => 'transaction')"),
	'f', '... also if the holder is stopped');
kill('CONT', $a->pid);
ok(!$b->is_done && !$c->is_done, '... while the others wait');
$a->query('ROLLBACK');
is($b->result, 't', '... and all are granted their locks in the end');
$b->query('ROLLBACK');
is($c->result, 't', '... one after the other');
$c->query('ROLLBACK');
is(counted(), $before, '... without a deadlock');

# A timeout of the other member, and a cancellation of this one, end a deadlock
# before it is found.

$p = begin($b, $a);
$b->query(q(SET LOCAL deadlock_timeout = '1h'));
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($b, xact_acquire("$p/1"));
is($a->query("SELECT zk_lock_acquire('$p/2', '100ms', scope => 'transaction')"),
	'f', 'a timeout ends before a deadlock is found');
$observer->query("SELECT pg_cancel_backend(${\ $b->pid})");
like($b->result, qr/57014/, 'so does a cancellation');
is(counted(), $before, '... and neither is a deadlock');
$_->query('ROLLBACK') for $a, $b;

# zklock.deadlock_detection

$p = begin($b, $a);
$b->query('SET LOCAL zklock.deadlock_detection = off');
$a->query(xact_acquire("$p/1"));
$b->query(xact_acquire("$p/2"));
block($a, xact_acquire("$p/2"));
$b->start("SELECT zk_lock_acquire('$p/1', '1s', scope => 'transaction')");
is($b->result, 'f', 'a backend without detection waits until its timeout');
$b->query('ROLLBACK');
is($a->result, 't', '... and the other one goes on');
$a->query('ROLLBACK');
is(counted(), $before, '... without a deadlock');

# The detail hides what zk_locks hides.

$observer->query('CREATE ROLE plain LOGIN');
{
	local $ENV{PGUSER} = 'plain';
	my $plain = ZkTest->new($node);

	$p = begin($a, $b);
	$a->query('ROLLBACK');
	$plain->query('BEGIN');
	$b->query(xact_acquire("$p/1"));
	$plain->query(xact_acquire("$p/2"));
	$observer->query(q(ALTER ROLE plain SET deadlock_timeout = '100ms'));
	$plain->close;
	$plain = ZkTest->new($node);
	$plain->query('BEGIN; ' . xact_acquire("$p/2"));
	block($b, xact_acquire("$p/2"));
	like(
		$plain->query(xact_acquire("$p/1")),
		error_of(
			$plain,
			line($plain, on_path("$p/1"), $b),
			line($b, 'a ZooKeeper lock', $plain)),
		'the detail does not show the locks of others that zk_locks hides');
	$plain->close;
}
$b->result;
$b->query('ROLLBACK');

# Other hosts have other locks.

SKIP:
{
	skip('backends share a session', 1) if server_mode();
	$zk->create('/chroot');
	$p = begin($a, $b);
	$b->query("SET zklock.hosts = '${\ $zk->hosts}/chroot'");
	$a->query(xact_acquire("$p/1"));
	$b->query(xact_acquire("$p/2"));
	$c->query('BEGIN; ' . xact_acquire("$p/2"));
	$d->query('BEGIN');
	$d->query("SET zklock.hosts = '${\ $zk->hosts}/chroot'");
	$d->query(xact_acquire("$p/1"));
	block($b, xact_acquire("$p/1"));
	is($a->query("SELECT zk_lock_acquire('$p/2', '1s', scope => 'transaction')"),
		'f', 'locks of one name below different paths are different locks');
	$_->query('ROLLBACK') for $c, $d;
	$b->result;
	$_->query('ROLLBACK; RESET zklock.hosts') for $a, $b, $d;
}

# Without room for their locks, backends with sessions of their own find only deadlocks
# through exclusive, shared and write locks.

SKIP:
{
	skip('a lock without room is an error', 8) if server_mode();
	my $small = new_node(
		'small', $zk->hosts,
		shared_preload_libraries => 'zklock',
		deadlock_timeout => SHORT,
		'zklock.max_locks' => 16);
	my ($filler, $one, $two) = map { ZkTest->new($small) } 1 .. 3;

	$filler->query(q(SELECT zk_lock_acquire('/room/' || i) FROM generate_series(1, 16) i));
	$filler->query('CREATE TABLE t AS SELECT 1 AS i');
	for (
		[ 'an exclusive lock', 1, (xact_acquire('/small/0')) x 2 ],
		[
			'a simple lock', 0,
			map { "SELECT zk_lock_acquire('/small/simple', $_, 'simple', 'transaction')" } 'NULL', "'1s'"
		],
		[
			'a semaphore', 0,
			map { "SELECT zk_semaphore_acquire('/small/semaphore', 1, $_, 'transaction')" } 'NULL', "'1s'"
		],
		[
			'a row', 0, 'UPDATE t SET i = 2', q(SET LOCAL lock_timeout = '1s'; UPDATE t SET i = 3) ])
	{
		my ($what, $is_found, $take, $wait) = @$_;

		$_->query('BEGIN') for $one, $two;
		$one->query($take);
		$two->query(xact_acquire('/small/1'));
		is($filler->query('SELECT unlisted FROM zk_server_status'),
			$what eq 'a row' ? 1 : 2, "there is no room for locks, and $what");
		$one->start(xact_acquire('/small/1'));
		wait_for_queue($zk, '/small/1', $two, $one);
		$two->start($wait);

		# Each one that ends lets the other one go on.
		my $victims = $two->result =~ /40P01/;
		$two->query('ROLLBACK');
		$victims += $one->result =~ /40P01/;
		$one->query('ROLLBACK');
		is($victims, $is_found,
			"a deadlock through $what is " . ($is_found ? 'found' : 'not found, and ends with a timeout'));
	}
}

done_testing();
