# The server's worker stands still for good, or ends and does not come back: that is like
# an outage of ZooKeeper.  Nobody waits without an end, and all goes on when it is back.
#
# Runs once: of server mode.

use strict;
use warnings;

use Module;
use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $library = build_module('standstill');
my $node = new_node(
	'main', $zk->hosts,
	'zklock.session' => 'server',
	'zklock.session_timeout' => '4s',
	'zklock.connect_timeout' => '2s',
	shared_preload_libraries => "zklock,$library");

sub is_still
{
	my ($pid) = @_;

	return slurp_file("/proc/$pid/stat") =~ /\) T /;
}

sub worker_is
{
	my ($what) = @_;

	return qr/\nDETAIL:  The server's zklock worker, which has the session, \Q$what\E\.\n/;
}

my $lost = qr/^ERROR:  08006: lost the connection to ZooKeeper while waiting for lock on "\/absent\/a"/;
my $acquire = q(SELECT zk_lock_acquire('/absent/a'));
my $free = q(SELECT zk_lock_acquire('/absent/free'), zk_lock_release_all());
my ($holder, $waiter, $newcomer, $observer) = map { ZkTest->new($node) } 1 .. 4;
my $worker = worker_of($node);

$node->safe_psql('postgres', qq(
	CREATE FUNCTION standstill(pid int, which int) RETURNS void
		AS '$library' LANGUAGE C));

# The worker is stopped

$holder->query($acquire);
$waiter->start($acquire);
wait_for_queue($zk, '/absent/a', $holder, $waiter);
is($observer->query('SELECT state FROM zk_session()'), 'connected', 'the worker works');
kill('STOP', $worker);
like($waiter->result, $lost, 'who waits is told when the worker stands still');
like($waiter->result, worker_is('does not respond'), '... as what it is');
like($newcomer->query($free),
	qr/^ERROR:  08001: could not connect to ZooKeeper/, 'who comes then, too');
like($newcomer->query($free), worker_is('does not respond'), '... as what it is');
is($observer->query('SELECT state FROM zk_session()'), 'connecting', '... for all to see');

# One who waits for a connection when the worker goes on is served at once.
$newcomer->query(q(SET zklock.connect_timeout = '10min'));
$newcomer->start($free);
wait_until(
	'it waits',
	sub {
		$observer->query("SELECT wait_event_type FROM pg_stat_activity
			WHERE pid = ${\ $newcomer->pid}") eq 'Extension';
	});
kill('CONT', $worker);
is($newcomer->result, 't|1', 'when the worker goes on, so does all else');
is(worker_of($node), $worker, '... with the same worker');
$newcomer->query('RESET zklock.connect_timeout');
$holder->query('SELECT zk_lock_release_all()');
$holder->query('SELECT 1');
wait_for_calm($node, $zk, '/absent/a');

# The worker ends when nobody waits, as far as it knows, and the postmaster starts no
# other one.  The waiter has found it working and is about to ask it.

my $postmaster = (split(/\n/, slurp_file($node->data_dir . '/postmaster.pid')))[0];

$observer->query("SELECT standstill(${\ $waiter->pid}, 3)");
$waiter->start($acquire);
wait_until('it is about to ask', sub { is_still($waiter->pid) });
kill('STOP', $postmaster);
kill('TERM', $worker);
wait_until('the worker has ended', sub { slurp_file("/proc/$worker/stat") =~ /\) Z / });
$observer->query('SELECT standstill(0, 0)');
kill('CONT', $waiter->pid);
like($waiter->result, $lost, 'who waits is told when there is no worker');
like($waiter->result, worker_is('is not running'), '... as what it is');
like($newcomer->query($free),
	qr/^ERROR:  08001: could not connect to ZooKeeper/, 'who comes then, too');
like($newcomer->query($free), worker_is('is not running'), '... as what it is');
like($newcomer->query($free), qr/\nHINT:  The server starts it again about a second after/,
	'... and what will be done');
$newcomer->query(q(SET zklock.connect_timeout = '10min'));
$newcomer->start($free);
kill('CONT', $postmaster);
is($newcomer->result, 't|1', 'when there is a worker, all goes on');
is($waiter->query("$acquire, zk_lock_release_all()"), 't|1', '... for all');
wait_for_calm($node, $zk, '/absent/a', '/absent/free');

END
{
	my $status = $?;

	# What is stopped cannot be shut down.
	kill('CONT', grep { $_ } $postmaster, $worker);
	$? = $status;
}

done_testing();
