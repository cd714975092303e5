# A backend is cancelled or terminated in each state of a request for a lock in
# the server's session: it ends at once, whatever the worker does; the lock
# goes to the next waiter, and no node or claim is left.
#
# Left out of make test: it takes long.
# Runs once: the test sets the mode itself.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# Hand-over times do not end during the test.
my %server = ('zklock.session_mode' => 'server', 'zklock.session_timeout' => '60s');
my %nodes = (
	gate => new_node('gate', $proxy->hosts, %server, 'zklock.handover_time' => '10min'),
	own => new_node('own', $proxy->hosts, %server, 'zklock.handover_time' => '0'));
my ($node, $observer, $worker);

sub is_seen
{
	my ($session) = @_;

	return $observer->query(
		"SELECT count(*) FROM zk_locks WHERE pid = ${\ $session->pid}");
}

# Waits until the worker has completed all earlier requests: it serves them in
# order.
sub catch_up
{
	$observer->query(
		q(SELECT zk_lock_acquire('/states/other'), zk_lock_release_all()));
	return;
}

# Lets two sessions wait for a lock behind another client's node, and returns
# that node.
sub queue_up
{
	my ($path, $victim, $next) = @_;
	my $ahead = $zk->put_ahead($path);

	$victim->start("SELECT zk_lock_acquire('$path')");
	wait_for_nodes($zk, $path, 2);
	$next->start("SELECT zk_lock_acquire('$path')");
	wait_until('the next one is shown in zk_locks', sub { is_seen($next) });
	return $ahead;
}

# Each function brings the victim into a state, and returns a function that
# lets all processes continue. It is called after the victim has got the
# signal or, if `ends` is set, after the victim has ended its statement. Behind
# the victim, another backend of the same server waits.
my @states = (
	{
		name => 'the worker has not seen the request',
		ends => 1,
		bring => sub {
			my ($path, $victim) = @_;

			$zk->make_path($path);
			kill('STOP', $worker);
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('the request is shown in zk_locks', sub { is_seen($victim) });
			return sub { kill('CONT', $worker) };
		},
	},
	{
		name => 'its node is being created',
		ends => 1,
		bring => sub {
			my ($path, $victim) = @_;

			$zk->make_path($path);
			$proxy->rule(dir => 's2c', op => 'create2', path => "^$path/", action => 'hold');
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_for_nodes($zk, $path, 1);
			return sub { $proxy->reset };
		},
	},
	{
		name => 'the backend waits in ZooKeeper\'s queue',
		ends => 1,
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $ahead = queue_up($path, $victim, $next);

			return sub { $zk->delete($ahead) };
		},
	},
	{
		name => 'the backend waits for another one of its server',
		ends => 1,
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $holder = ZkTest->new($node);

			$zk->make_path($path);
			$holder->query("SELECT zk_lock_acquire('$path')");
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('the request is shown in zk_locks', sub { is_seen($victim) });
			$next->start("SELECT zk_lock_acquire('$path')");
			wait_until('the next one is shown in zk_locks', sub { is_seen($next) });
			return sub { $holder->query('SELECT zk_lock_release_all()'); $holder->close };
		},
	},
	{
		name => 'ZooKeeper has granted the lock, unnoticed by the backend',
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $ahead = queue_up($path, $victim, $next);

			kill('STOP', $victim->pid);
			$zk->delete($ahead);
			catch_up();
			return sub { kill('CONT', $victim->pid) };
		},
	},
	{
		name => 'another backend has handed the lock over, unnoticed by the backend',
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $holder = ZkTest->new($node);

			$zk->make_path($path);
			$holder->query("SELECT zk_lock_acquire('$path')");
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('the request is shown in zk_locks', sub { is_seen($victim) });
			catch_up();
			$next->start("SELECT zk_lock_acquire('$path')");
			wait_until('the next one is shown in zk_locks', sub { is_seen($next) });
			kill('STOP', $victim->pid);
			$holder->query('SELECT zk_lock_release_all()');
			$holder->close;
			catch_up();
			return sub { kill('CONT', $victim->pid) };
		},
	},
	{
		name => 'its commit waits for confirmation',
		ends => 1,
		bring => sub {
			my ($path, $victim) = @_;

			$zk->make_path($path);
			$victim->query("SET zklock.confirm_commit = 'always';
				BEGIN; SELECT zk_lock_guard('$path')");
			kill('STOP', $worker);
			$victim->start('COMMIT');
			$victim->wait_for_event('Extension');
			return sub { kill('CONT', $worker) };
		},
	});

my $n = 0;
for my $kind (sort keys %nodes)
{
	$node = $nodes{$kind};
	$observer = ZkTest->new($node);
	$worker = worker_of($node);
	catch_up();
	my $session = $observer->query('SELECT session_id FROM zk_session()');

	for my $state (@states)
	{
		for my $what (qw(pg_cancel_backend pg_terminate_backend))
		{
			my ($path, $name) = ('/states/' . ++$n, "$kind, $what: $state->{name}");
			my ($victim, $next) = map { ZkTest->new($node) } 1 .. 2;
			my $go_on = $state->{bring}->($path, $victim, $next);

			$observer->query("SELECT $what(${\ $victim->pid})");
			$go_on->() if !$state->{ends};
			like($victim->result,
				$what eq 'pg_cancel_backend' ? qr/^ERROR:  57014: / : qr/^FATAL:  57P01: /,
				$name);
			$victim->query('ROLLBACK') if $what eq 'pg_cancel_backend';
			$go_on->() if $state->{ends};

			$next->start("SELECT zk_lock_acquire('$path')") if $next->is_done;
			is($next->result, 't', '... the next waiter has the lock');
			is($victim->query("SELECT zk_lock_acquire('$path', '0')"),
				'f', '... and the victim does not')
			  if $what eq 'pg_cancel_backend';
			$_->close for $victim, $next;
			wait_until_idle($node, $zk, $path);
		}
	}

	is($observer->query('SELECT session_id FROM zk_session()'),
		$session, "$kind: all requests were made in one session");
	is(worker_of($node), $worker, '... of one worker');
}

# A backend that tries again at once does not find its former node ahead of it:
# the gate creates no new node before the former one can be deleted.
$node = $nodes{gate};
$observer = ZkTest->new($node);
my ($path, $victim) = ('/states/again', ZkTest->new($node));
$zk->make_path($path);
$proxy->rule(dir => 's2c', op => 'create2', path => "^$path/", action => 'hold');
$victim->start("SELECT zk_lock_acquire('$path')");
wait_for_nodes($zk, $path, 1);
$observer->query("SELECT pg_cancel_backend(${\ $victim->pid})");
like($victim->result, qr/^ERROR:  57014: /, 'wait is cancelled');
$victim->start("SELECT zk_lock_acquire('$path', '0')");
wait_until('the second request is shown in zk_locks', sub { is_seen($victim) });
$proxy->reset;
isnt($victim->result, 'f', '... and its node does not block a second request');
$victim->close;
wait_until_idle($node, $zk, $path);

done_testing();
