# The server's worker is suspended, or ends and is not restarted: this is like
# an outage of ZooKeeper. No backend waits forever, and all continue when the
# worker is back.
#
# Runs once: the test sets the mode itself.

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
	'zklock.session_mode' => 'server',
	'zklock.session_timeout' => '4s',
	'zklock.connect_timeout' => '2s',
	shared_preload_libraries => "zklock,$library");

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

# The worker is suspended

$holder->query($acquire);
$waiter->start($acquire);
wait_for_queue($zk, '/absent/a', $holder, $waiter);
is($observer->query('SELECT state FROM zk_session()'), 'connected', 'session is connected');
kill('STOP', $worker);
like($waiter->result, $lost, 'waiter gets an error when the worker is suspended');
like($waiter->result, worker_is('does not respond'), '... with the reason');
like($newcomer->query($free),
	qr/^ERROR:  08001: could not connect to ZooKeeper/, 'newcomer gets an error, too');
like($newcomer->query($free), worker_is('does not respond'), '... with the reason');
is($observer->query('SELECT state FROM zk_session()'), 'connecting',
	'... and zk_session() shows the state');
is($observer->query('SELECT connected FROM zk_server_status'), 'f',
	'... and so does zk_server_status');

# A backend that waits for a connection when the worker is resumed is served at
# once.
$newcomer->query(q(SET zklock.connect_timeout = '10min'));
$newcomer->start($free);
$newcomer->wait_for_event('Extension');
kill('CONT', $worker);
is($newcomer->result, 't|1', 'request is served after the worker is resumed');
is(worker_of($node), $worker, '... by the same worker');
$newcomer->query('RESET zklock.connect_timeout');
$holder->query('SELECT zk_lock_release_all()');
$holder->query('SELECT 1');
wait_until_idle($node, $zk, '/absent/a');

# The worker ends when no request waits, as far as it knows, and the postmaster
# starts no other one. The waiter has seen the worker running and is about to
# send its request.

my $postmaster = (split(/\n/, slurp_file($node->data_dir . '/postmaster.pid')))[0];

$observer->query("SELECT standstill(${\ $waiter->pid}, 3)");
$waiter->start($acquire);
wait_until('the waiter is about to send its request', sub { is_suspended($waiter->pid) });
kill('STOP', $postmaster);
kill('TERM', $worker);
wait_until('the worker has ended', sub { slurp_file("/proc/$worker/stat") =~ /\) Z / });
$observer->query('SELECT standstill(0, 0)');
kill('CONT', $waiter->pid);
like($waiter->result, $lost, 'waiter gets an error when there is no worker');
like($waiter->result, worker_is('is not running'), '... with the reason');
like($newcomer->query($free),
	qr/^ERROR:  08001: could not connect to ZooKeeper/, 'newcomer gets an error, too');
like($newcomer->query($free), worker_is('is not running'), '... with the reason');
like($newcomer->query($free), qr/\nHINT:  The server starts it again about a second after/,
	'... and a hint about the restart of the worker');
$newcomer->query(q(SET zklock.connect_timeout = '10min'));
$newcomer->start($free);
kill('CONT', $postmaster);
is($newcomer->result, 't|1', 'request is served when there is a worker again');
is($waiter->query("$acquire, zk_lock_release_all()"), 't|1', '... and so are others');
wait_until_idle($node, $zk, '/absent/a', '/absent/free');

END
{
	my $status = $?;

	# A suspended process cannot be shut down.
	kill('CONT', grep { $_ } $postmaster, $worker);
	$? = $status;
}

done_testing();
