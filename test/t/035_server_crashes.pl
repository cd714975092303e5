# The server ends, one way or the other, with locks in the session of its worker.
# They are free as soon as can be, and never while somebody can still commit.
#
# Runs once: of server mode.

use strict;
use warnings;

use File::Copy qw(copy);
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

# Sessions live for 2 to 20 ticks.
my $zk = ZkServer->new(tick_time => 2000)->start;
my %server = (
	'zklock.session' => 'server',
	'zklock.session_timeout' => '30s',
	wal_level => 'replica',
	max_wal_senders => 2,
	restart_after_crash => 'on');
my $node = new_node('a', $zk->hosts, %server);
my $other = new_node('b', $zk->hosts, %server);

# The other server's, who waits for what the first holds.
my $next = ZkTest->new($other);

sub release_next
{
	is($next->result, 't', '... the next in line has the lock');
	$next->query('SELECT zk_lock_release_all()');
	return;
}

# Crash restart: all backends are gone, and their locks need not wait for the
# session to expire.

my $holder = ZkTest->new($node);
my $victim = ZkTest->new($node);
my $crowd = ZkTest->new($node);
$crowd->query(
	q(SELECT zk_lock_acquire('/crash/' || i) FROM generate_series(1, 50) AS i));
$holder->query(q(SELECT zk_lock_acquire('/crash/held')));
$next->start(q(SELECT zk_lock_acquire('/crash/held')));
wait_for_queue($zk, '/crash/held', $holder, $next);
kill('KILL', $victim->pid);
wait_until('all backends have come to their end',
	sub { $holder->query('SELECT 1') ne '1' });
wait_for_server($node);
my $seconds = seconds_of(sub { release_next() });
cmp_ok($seconds, '<', 10, '... as soon as the server is back');
note("after $seconds s");
wait_until("lock $_ is free", sub { !$zk->children("/crash/$_") }, 10)
  for 1 .. 50;
$_->close for $holder, $victim, $crowd;
wait_for_calm($node, $zk, '/crash/held');

# The server ends without a word, and its shared memory with it. It cannot be started
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
		0600, 'only the user of the server may read its session');
	end_server($end);
	$node->start;
	$seconds = seconds_of(sub { release_next() });
	cmp_ok($seconds, '<', 10, "... as soon as the server is back ($end)");
	note("after $seconds s");
	$holder->close;
	wait_for_calm($node, $zk, "/crash/at_$end");
}

# A copy of the data directory does not end the session of the original.

$holder = ZkTest->new($node);
$holder->query(q(SELECT zk_lock_acquire('/crash/copy')));
my $copy = PostgreSQL::Test::Cluster->new('copy');
$node->backup('base');
$copy->init_from_backup($node, 'base');
my $session_file = 'pg_stat_tmp/zklock_session';
ok(!-e $copy->data_dir . "/$session_file", 'a base backup has no session');
copy($node->data_dir . "/$session_file", $copy->data_dir . "/$session_file")
  or die "copy: $!\n";
$copy->start;
my $own = ZkTest->new($copy);
is($own->query(q(SELECT zk_lock_acquire('/crash/own'), zk_lock_release_all())),
	't|1', '... nor does a copy use that of the original');
$own->close;
$copy->stop;
$holder->query(q(SET zklock.confirm_commit = 'always'));
is( $holder->query(
		'BEGIN; CREATE TABLE of_original (); COMMIT; SELECT zk_lock_release_all()'),
	1, '... which goes on');
$holder->close;

# ZooKeeper cannot be reached after a crash. The worker is told to end, the next one reads
# of another way, and its first goodbye gets lost.

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
kill('KILL', $victim->pid);
wait_until('all backends have come to their end',
	sub { $holder->query('SELECT 1') ne '1' });
wait_for_server($node);
my $worker = worker_of($node);
wait_until('it tries', sub { $away->accepted > $connects + 1 });
$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)");
wait_for_other_worker($node, $worker);
$lossy->rule(dir => 'c2s', op => 'closeSession', nth => 1, action => 'drop');
$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $lossy->hosts}'");
$node->reload;
$seconds = seconds_of(sub { release_next() });
cmp_ok($seconds, '<', 10, '... when the former session was ended at last');
note("after $seconds s");
$_->close for $holder, $victim;
wait_for_calm($node, $zk, '/crash/away');
$node->append_conf('postgresql.conf', "zklock.hosts = '${\ $zk->hosts}'");
$node->restart;
$_->stop for $away, $lossy;

# From here on they have to.
$node->append_conf('postgresql.conf', "zklock.session_timeout = '9s'");
$node->restart;

# Holders and waiters when the server is shut down

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
		'one waits on this server',
		sub {
			$node->safe_psql('postgres',
				'SELECT count(*) FROM zk_locks WHERE NOT granted') == 1;
		});
	$next->start("SELECT zk_lock_acquire('$path')");
	wait_until('one waits on the other', sub { my @q = queue($zk, $path); @q > 1 });

	$seconds = seconds_of(sub { $node->stop($mode) });
	cmp_ok($seconds, '<', 20, "$mode shutdown: it comes to its end");
	$seconds = seconds_of(sub { release_next() });
	cmp_ok($seconds, '<', 10, '... at once') if $mode eq 'fast';
	$node->start;
	is($node->safe_psql('postgres', "SELECT to_regclass('t_$mode') IS NULL"),
		't', '... and what was not committed is not there');
	$_->close for @sessions;
}

# A walsender stays until all others have gone: nobody may wait for its locks.

my $walsender = IPC::Run::start(
	[ 'psql', '-XqAt', $node->connstr('postgres') . ' replication=database' ],
	'<', \my $in, '>', \my $out, '2>', \my $err);
$in = "SELECT zk_lock_acquire('/crash/walsender');\n";
IPC::Run::pump($walsender) until $out =~ /t\n/ || !IPC::Run::pumpable($walsender);
like($out, qr/^t$/m, 'a walsender holds a lock') or diag($err);
is($node->safe_psql('postgres', q(SELECT backend_type FROM zk_locks JOIN pg_stat_activity USING (pid))),
	'walsender', '... as all can see');
my $ordinary = ZkTest->new($node);
$ordinary->query(q(SELECT zk_lock_acquire('/crash/ordinary')));
$next->start(q(SELECT zk_lock_acquire_all('{/crash/walsender, /crash/ordinary}')));
wait_for_queue($zk, '/crash/ordinary', $ordinary, $next);
$seconds = seconds_of(sub { $node->stop('fast') });
cmp_ok($seconds, '<', 20, 'the server stops under a walsender with a lock');
release_next();
$ordinary->close;
IPC::Run::kill_kill($walsender);
$node->start;

# The postmaster is killed, and a backend does not notice: its transaction is not
# over, nor is its lock anybody else's before it is.

$node->safe_psql('postgres', q(
	CREATE TABLE stock (item text PRIMARY KEY, n int);
	INSERT INTO stock VALUES ('early', 10), ('late', 10);
	CREATE FUNCTION sell(item text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM zk_lock_guard('/crash/' || item);
		UPDATE stock SET n = n - 1 WHERE stock.item = sell.item;
		WHILE pg_stat_file(item, true) IS NULL LOOP END LOOP;
		RETURN 'committed';
	END $$));

# Returns a session that is about to commit, and the server's worker.
sub orphan
{
	my ($item) = @_;
	my $session = ZkTest->new($node);
	my $w = worker_of($node);

	$session->start("SELECT sell('$item')");
	wait_until("$item is held", sub { queue($zk, "/crash/$item") });
	$next->start("SELECT zk_lock_acquire('/crash/$item')");
	wait_until('the other waits', sub { my @q = queue($zk, "/crash/$item"); @q > 1 });
	$node->kill9;
	wait_until('the worker has ended', sub { !kill(0, $w) });
	return $session;
}

sub go_on
{
	my ($item) = @_;

	open(my $fh, '>', $node->data_dir . "/$item") or die "$item: $!\n";
	close($fh) or die "$item: $!\n";
	return;
}

my $early = orphan('early');
go_on('early');
my $committed = $early->result =~ /^committed$/m;
my @left = queue($zk, '/crash/early');
is(scalar(@left), 2, 'the lock of an orphan is his for as long as he may commit');
ok(!$next->is_done, '... and nobody else\'s');
release_next();
$early->close;
$node->start;
is($node->safe_psql('postgres', q(SELECT n FROM stock WHERE item = 'early')),
	$committed ? 9 : 10, '... as what he has done says');

my $late = orphan('late');
is($next->result, 't', 'the lock of an orphan is the next one\'s in the end');
go_on('late');
unlike($late->result, qr/^committed$/m, '... and then he does not commit');
$late->close;
$next->query('SELECT zk_lock_release_all()');
$node->start;
is($node->safe_psql('postgres', q(SELECT n FROM stock WHERE item = 'late')),
	10, '... nor has he');

done_testing();
