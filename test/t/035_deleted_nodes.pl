# The node of a held lock is deleted by hand: the worker notices that, and the
# holder gets the error, whether it is busy or idle. Other backends keep their
# locks in the same session.
#
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use Test::More;
use Worker;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my %server = ('zklock.session_mode' => 'server', 'zklock.session_timeout' => '4s');
my %nodes = (
	gate => new_node('gate', $zk->hosts, %server, 'zklock.handover_time' => '10min'),
	own => new_node('own', $zk->hosts, %server, 'zklock.handover_time' => '0'));
my $gone = qr/^ERROR:  40001: .*\nDETAIL:  Its node in ZooKeeper is gone\./;

for my $kind (sort keys %nodes)
{
	my $node = $nodes{$kind};
	my %sessions = map { $_ => ZkTest->new($node) } qw(busy idle other waiter);

	$sessions{$_}->query("SELECT zk_lock_acquire('/deleted/$kind/$_')")
	  for qw(busy idle other);
	$sessions{waiter}->start("SELECT zk_lock_acquire('/deleted/$kind/busy')");
	$_->start('SELECT pg_sleep(600)') for @sessions{qw(busy other)};
	wait_until('two backends are busy',
		sub {
			$node->safe_psql('postgres',
				q(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep')) == 2;
		});
	for my $path (map { "/deleted/$kind/$_" } qw(busy idle))
	{
		my ($first) =
		  sort { substr($a, -10) <=> substr($b, -10) } $zk->children($path);
		$zk->delete("$path/$first");
	}
	like($sessions{busy}->result, $gone, "$kind: statement of a busy holder is cancelled");
	is($sessions{waiter}->result, 't', '... and the next waiter has the lock');
	my $answer;
	wait_until('the idle holder gets the error, too',
		sub { ($answer = $sessions{idle}->query('SELECT 1')) ne '1' });
	like($answer, $gone, 'idle holder gets the error with its next statement');
	is($_->query('SELECT 1'), 1, '... once') for @sessions{qw(busy idle)};
	$node->safe_psql('postgres', "SELECT pg_cancel_backend(${\ $sessions{other}->pid})");
	like($sessions{other}->result, qr/^ERROR:  57014: /,
		'statement of another holder continues until it is cancelled');
	is($sessions{other}->query('SELECT zk_lock_release_all()'),
		1, '... and its lock is held');

	# A procedure that has caught a cancellation is cancelled again.
	my ($procedure, $key) = map { ZkTest->new($node, 'zklock.revocable' => 'on') } 1, 2;

	$key->query('SELECT pg_advisory_lock(1)');
	$procedure->query("SELECT zk_lock_acquire('/deleted/$kind/again')");
	$procedure->start('DO $do$ BEGIN
		BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN END;
		PERFORM pg_advisory_lock(1); END $do$');
	$procedure->wait_for_event('PgSleep');
	$key->query("SELECT zk_lock_revoke('/deleted/$kind/again')");
	$procedure->wait_for_event('advisory');
	$zk->delete("/deleted/$kind/again/$_") for $zk->children("/deleted/$kind/again");
	like($procedure->result, $gone, "$kind: a procedure that has caught a cancellation is cancelled again");
	$_->close for $procedure, $key;

	# A node of an unfinished zk_lock_acquire_all(), of which nobody was told, is no
	# loss of a lock, with or without another lock.
	my $observer = ZkTest->new($node);
	my $all = "/deleted/$kind/all";
	for my $held ('', "$all/held")
	{
		my ($holder, $taker) = map { ZkTest->new($node, 'zklock.on_loss' => 'disconnect') } 1, 2;

		$holder->query("SELECT zk_lock_acquire('$all/2')");
		$taker->query("SELECT zk_lock_acquire('$held')") if $held;
		$taker->start("SELECT zk_lock_acquire_all('{$all/1, $all/2}')");
		$taker->wait_for_lock;
		wait_until('the first lock is granted',
			sub { $observer->query("SELECT token IS NOT NULL FROM zk_locks WHERE path = '$all/1'") eq 't' });
		$zk->delete("$all/1/$_") for $zk->children("$all/1");
		if (!$held)
		{
			wait_until('the worker notices that',
				sub { $observer->query("SELECT lost FROM zk_locks WHERE path = '$all/1'") eq 't' });
			$holder->query('SELECT zk_lock_release_all()');
		}
		like($taker->result, qr{^ERROR:  40001: lock on "$all/1" was lost\nDETAIL:  Its node in ZooKeeper is gone\.},
			'request for many locks fails when one is deleted');
		is($taker->query('SELECT zk_lock_release_all()'), $held ? 1 : 0, '... and nothing else is lost');
		$_->close for $holder, $taker;
	}
	wait_until('the session is still confirmed',
		sub {
			$node->safe_psql('postgres',
				'SELECT confirmed_ago < timeout * 2 / 3 FROM zk_session()') eq 't';
		});
	$sessions{waiter}->query('SELECT zk_lock_release_all()');
	wait_until_idle($node, $zk, map { "/deleted/$kind/$_" } qw(busy idle other again all/1 all/2 all/held));
}

done_testing();
