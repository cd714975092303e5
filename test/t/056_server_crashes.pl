# The server ends in various ways while locks are held in the session of its
# worker. The locks become free as soon as possible, and never while a backend
# could still commit.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Fcntl qw(O_NONBLOCK O_WRONLY);
use File::Copy qw(copy);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

# Limits of ZooKeeper for a session's timeout: 2 to 20 ticks.
my $zk = ZkServer->new(tick_time => 2000)->start;
my %server = (
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '30s',
	wal_level => 'replica',
	max_wal_senders => 2,
	restart_after_crash => 'on');
my $node = new_node('a', $zk->hosts, %server);
my $other = new_node('b', $zk->hosts, %server);

# A session of the other server that waits for locks of the first
my $next = ZkTest->new($other);

sub release_next
{
	is($next->result, 't', '... the next waiter has the lock');
	$next->query('SELECT zk_lock_release_all()');
	return;
}

# Crash restart: all backends have ended, and their locks need not wait until
# the session expires.

my $holder = ZkTest->new($node);
my $victim = ZkTest->new($node);
my $crowd = ZkTest->new($node);
$crowd->query(
	q(SELECT zk_lock_acquire('/crash/' || i) FROM generate_series(1, 50) AS i));
$holder->query(q(SELECT zk_lock_acquire('/crash/held')));
$next->start(q(SELECT zk_lock_acquire('/crash/held')));
wait_for_queue($zk, '/crash/held', $holder, $next);
crash_server($node, $victim->pid);
my $seconds = seconds_of(sub { release_next() });
cmp_ok($seconds, '<', 10, '... as soon as the server is back');
note("after $seconds s");
wait_until("lock $_ is free", sub { !$zk->children("/crash/$_") }, 10)
  for 1 .. 50;
$_->close for $holder, $victim, $crowd;
wait_until_idle($node, $zk, '/crash/held');

# The server and its shared memory end without notice. It cannot be started
# before the last of its processes has ended.

sub end_server
{
	my ($end) = @_;
	my @pids = split(/\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity'));

	if ($end eq 'killed')
	{
		$node->kill9;
	}
	else
	{
		$node->stop($end);
	}
	wait_until('all its processes have ended', sub { !kill(0, @pids) });
	return;
}

for my $end ('immediate', 'killed')
{
	$holder = ZkTest->new($node);
	$holder->query("SELECT zk_lock_acquire('/crash/at_$end')");
	$next->start("SELECT zk_lock_acquire('/crash/at_$end')");
	wait_for_queue($zk, "/crash/at_$end", $holder, $next);
	is((stat($node->data_dir . '/pg_stat_tmp/zklock_session'))[2] & 07777,
		0600, "only the server's user may read its session file");
	end_server($end);
	$node->start;
	$seconds = seconds_of(sub { release_next() });
	cmp_ok($seconds, '<', 10, "... as soon as the server is back ($end)");
	note("after $seconds s");
	$holder->close;
	wait_until_idle($node, $zk, "/crash/at_$end");
}

# A copy of the data directory does not end the original's session.

$holder = ZkTest->new($node);
$holder->query(q(SELECT zk_lock_acquire('/crash/copy')));
my $copy = PostgreSQL::Test::Cluster->new('copy');
$node->backup('base');
$copy->init_from_backup($node, 'base');
my $session_file = 'pg_stat_tmp/zklock_session';
ok(!-e $copy->data_dir . "/$session_file", 'base backup has no session file');
copy($node->data_dir . "/$session_file", $copy->data_dir . "/$session_file")
  or die "copy: $!\n";
$copy->start;
my $own = ZkTest->new($copy);
is($own->query(q(SELECT zk_lock_acquire('/crash/own'), zk_lock_release_all())),
	't|1', "copy does not use the original's session");
$own->close;
$copy->stop;
$holder->query(q(SET zklock.confirm_commit = 'always'));
is( $holder->query(
		'BEGIN; CREATE TABLE of_original (); COMMIT; SELECT zk_lock_release_all()'),
	1, '... which continues');
$holder->close;

# ZooKeeper cannot be reached after a crash. The worker is terminated, the next
# one reads another address, and its first request to close the session gets
# lost.

my ($away, $lossy) = map { ZkProxy->new($zk->hosts) } 1 .. 2;
$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $away->hosts}'");
$node->restart;
($holder, $victim) = map { ZkTest->new($node) } 1 .. 2;
$holder->query(q(SELECT zk_lock_acquire('/crash/away')));
$next->start(q(SELECT zk_lock_acquire('/crash/away')));
wait_for_queue($zk, '/crash/away', $holder, $next);
$away->refuse;
my $connects = $away->accepted;
$away->cut;
crash_server($node, $victim->pid);
my $worker = worker_of($node);
wait_until('the worker tries to connect', sub { $away->accepted > $connects + 1 });
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
wait_for_other_worker($node, $worker);
$lossy->rule(dir => 'c2s', op => 'closeSession', nth => 1, action => 'drop');
$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $lossy->hosts}'");
$node->reload;
$seconds = seconds_of(sub { release_next() });
cmp_ok($seconds, '<', 10, '... when the former session is closed at last');
note("after $seconds s");
$_->close for $holder, $victim;
wait_until_idle($node, $zk, '/crash/away');
$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $zk->hosts}'");
$node->restart;
$_->stop for $away, $lossy;

# From here on, sessions have to expire.
$node->append_conf('postgresql.conf', "zklock.session_timeout = '9s'");
$node->restart;

# Holders and waiters during a shutdown

for my $mode ('fast', 'immediate')
{
	my $path = "/crash/$mode";
	my @sessions = map { ZkTest->new($node) } 1 .. 3;
	my ($h, $w) = @sessions;

	$h->query("SELECT zk_lock_acquire('$path')");
	$w->start("SELECT zk_lock_acquire('$path')");
	$sessions[2]->query(
		"BEGIN; SELECT zk_lock_guard('${path}2'); CREATE TABLE t_$mode ()");
	wait_until(
		'a backend of this server waits',
		sub {
			$node->safe_psql('postgres',
				'SELECT count(*) FROM zk_locks WHERE NOT granted') == 1;
		});
	$next->start("SELECT zk_lock_acquire('$path')");
	wait_until('the backend of the other server waits',
		sub { my @q = queue($zk, $path); @q > 1 });

	$seconds = seconds_of(sub { $node->stop($mode) });
	cmp_ok($seconds, '<', 20, "$mode shutdown: the server ends");
	$seconds = seconds_of(sub { release_next() });
	cmp_ok($seconds, '<', 10, '... at once') if $mode eq 'fast';
	$node->start;
	is($node->safe_psql('postgres', "SELECT to_regclass('t_$mode') IS NULL"),
		't', '... and the open transaction is not committed');
	$_->close for @sessions;
}

# A walsender ends after all other backends: its locks must not block others
# meanwhile.

my $walsender = IPC::Run::start(
	[ 'psql', '-XqAt', $node->connstr('postgres') . ' replication=database' ],
	'<', \my $in, '>', \my $out, '2>', \my $err);
$in = "SELECT zk_lock_acquire('/crash/walsender');\n";
IPC::Run::pump($walsender) until $out =~ /t\n/ || !IPC::Run::pumpable($walsender);
like($out, qr/^t$/m, 'walsender holds a lock') or diag($err);
is($node->safe_psql('postgres', q(SELECT backend_type FROM zk_locks JOIN pg_stat_activity USING (pid))),
	'walsender', '... and is shown in zk_locks');
my $ordinary = ZkTest->new($node);
$ordinary->query(q(SELECT zk_lock_acquire('/crash/ordinary')));
$next->start(q(SELECT zk_lock_acquire_all('{/crash/walsender, /crash/ordinary}')));
wait_for_queue($zk, '/crash/ordinary', $ordinary, $next);
$seconds = seconds_of(sub { $node->stop('fast') });
cmp_ok($seconds, '<', 20, 'server stops while a walsender holds a lock');
release_next();
$ordinary->close;
IPC::Run::kill_kill($walsender);
$node->start;

# The postmaster is killed, and a backend does not notice, because it opens a FIFO that
# nobody writes: until its transaction is over, no other backend gets its lock.

$node->safe_psql('postgres', q(
	CREATE TABLE stock (item text PRIMARY KEY, n int);
	INSERT INTO stock VALUES ('early', 10), ('late', 10);
	CREATE FUNCTION sell(item text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM zk_lock_guard('/crash/' || item);
		UPDATE stock SET n = n - 1 WHERE stock.item = sell.item;
		PERFORM pg_read_file(item);
		RETURN 'committed';
	END $$));

# Returns a session that is about to commit, after the postmaster was killed
# and the worker has ended.
sub orphan
{
	my ($item) = @_;
	my $session = ZkTest->new($node);
	my $w = worker_of($node);
	my $fifo = $node->data_dir . "/$item";

	POSIX::mkfifo($fifo, 0600) or die "$fifo: $!\n";
	$session->start("SELECT sell('$item')");
	wait_until("$item is held", sub { queue($zk, "/crash/$item") });
	$next->start("SELECT zk_lock_acquire('/crash/$item')");
	wait_until('the backend of the other server waits',
		sub { my @q = queue($zk, "/crash/$item"); @q > 1 });
	$node->kill9;
	wait_until('the worker has ended', sub { !kill(0, $w) });
	return $session;
}

sub go_on
{
	my ($item) = @_;

	my $fifo = $node->data_dir . "/$item";

	# This fails while nobody reads.
	wait_until("$item goes on",
		sub { sysopen(my $fh, $fifo, O_WRONLY | O_NONBLOCK) });
	unlink($fifo) or die "$fifo: $!\n";
	return;
}

my $early = orphan('early');
go_on('early');
my $committed = $early->result =~ /^committed$/m;
my @left = queue($zk, '/crash/early');
is(scalar(@left), 2, 'lock of an orphaned backend is held while it may commit');
ok(!$next->is_done, '... and not granted to another one');
release_next();
$early->close;
$node->start;
is($node->safe_psql('postgres', q(SELECT n FROM stock WHERE item = 'early')),
	$committed ? 9 : 10, '... and the row agrees with its result');

my $late = orphan('late');
is($next->result, 't', 'lock of an orphaned backend becomes free in the end');
go_on('late');
unlike($late->result, qr/^committed$/m, '... and the backend cannot commit after that');
$late->close;
$next->query('SELECT zk_lock_release_all()');
$node->start;
is($node->safe_psql('postgres', q(SELECT n FROM stock WHERE item = 'late')),
	10, '... and has not');

done_testing();
