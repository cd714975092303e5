# Each state that a backend's part in a lock of the server's can be in, when the backend
# is cancelled or terminated: it ends at once, whatever the worker does; the lock goes
# to the next in line, and nothing is left.
#
# Runs once: of server mode.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use Worker;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);

# Turns do not end by themselves.
my %server = ('zklock.session' => 'server', 'zklock.session_timeout' => '60s');
my %nodes = (
	gate => new_node('gate', $proxy->hosts, %server, 'zklock.local_handover' => '10min'),
	own => new_node('own', $proxy->hosts, %server, 'zklock.local_handover' => '0'));
my ($node, $observer, $worker);

sub is_seen
{
	my ($session) = @_;

	return $observer->query(
		"SELECT count(*) FROM zk_locks WHERE pid = ${\ $session->pid}");
}

# The worker has done all that it had to, up to now: it does one after the other.
sub catch_up
{
	$observer->query(
		q(SELECT zk_lock_acquire('/states/other'), zk_lock_release_all()));
	return;
}

sub make
{
	my ($path) = @_;

	for my $dir ('/states', $path)
	{
		$zk->create($dir, '') if !$zk->exists($dir);
	}
	return;
}

# Another client's node, ahead of all
sub put_ahead
{
	my ($path) = @_;

	make($path);
	return $zk->create("$path/_c_1-lock-", '', ZkClient::SEQUENCE);
}

# Has two wait for a lock, behind a node that is nobody's; returns that one.
sub queue_up
{
	my ($path, $victim, $next) = @_;
	my $ahead = put_ahead($path);

	$victim->start("SELECT zk_lock_acquire('$path')");
	wait_for_nodes($path, 2);
	$next->start("SELECT zk_lock_acquire('$path')");
	wait_until('the next one is there', sub { is_seen($next) });
	return $ahead;
}

sub wait_for_nodes
{
	my ($path, $n) = @_;

	wait_until("$n nodes are in $path", sub { $zk->children($path) == $n });
	return;
}

# Each has the victim be in a state, and returns what makes everything go on, to be
# called when it has got the blow, or has come to its end if it `ends` before. Behind
# it, one of the same server is to wait.
my @states = (
	{
		name => 'the worker does not know of it',
		ends => 1,
		bring => sub {
			my ($path, $victim) = @_;

			make($path);
			kill('STOP', $worker);
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('it is there', sub { is_seen($victim) });
			return sub { kill('CONT', $worker) };
		},
	},
	{
		name => 'its node is in the making',
		ends => 1,
		bring => sub {
			my ($path, $victim) = @_;

			make($path);
			$proxy->rule(dir => 's2c', op => 'create2', path => "^$path/", action => 'hold');
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_for_nodes($path, 1);
			return sub { $proxy->reset };
		},
	},
	{
		name => 'it waits in ZooKeeper\'s queue',
		ends => 1,
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $ahead = queue_up($path, $victim, $next);

			return sub { $zk->delete($ahead) };
		},
	},
	{
		name => 'it waits for a backend of its server',
		ends => 1,
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $holder = ZkTest->new($node);

			make($path);
			$holder->query("SELECT zk_lock_acquire('$path')");
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('it is there', sub { is_seen($victim) });
			$next->start("SELECT zk_lock_acquire('$path')");
			wait_until('the next one is there', sub { is_seen($next) });
			return sub { $holder->query('SELECT zk_lock_release_all()'); $holder->close };
		},
	},
	{
		name => 'ZooKeeper has granted it, and it does not know',
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
		name => 'a backend of its server has passed it on, and it does not know',
		bring => sub {
			my ($path, $victim, $next) = @_;
			my $holder = ZkTest->new($node);

			make($path);
			$holder->query("SELECT zk_lock_acquire('$path')");
			$victim->start("SELECT zk_lock_acquire('$path')");
			wait_until('it is there', sub { is_seen($victim) });
			catch_up();
			$next->start("SELECT zk_lock_acquire('$path')");
			wait_until('the next one is there', sub { is_seen($next) });
			kill('STOP', $victim->pid);
			$holder->query('SELECT zk_lock_release_all()');
			$holder->close;
			catch_up();
			return sub { kill('CONT', $victim->pid) };
		},
	},
	{
		name => 'its commit asks whether it holds it',
		ends => 1,
		bring => sub {
			my ($path, $victim) = @_;

			make($path);
			$victim->query("SET zklock.confirm_commit = 'always';
				BEGIN; SELECT zk_lock_guard('$path')");
			kill('STOP', $worker);
			$victim->start('COMMIT');
			wait_until(
				'it waits',
				sub {
					$observer->query("SELECT wait_event_type FROM pg_stat_activity
						WHERE pid = ${\ $victim->pid}") eq 'Extension';
				});
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
			is($next->result, 't', '... the next one has the lock');
			is($victim->query("SELECT zk_lock_acquire('$path', '0')"),
				'f', '... and it does not')
			  if $what eq 'pg_cancel_backend';
			$_->close for $victim, $next;
			wait_for_calm($node, $zk, $path);
		}
	}

	is($observer->query('SELECT session_id FROM zk_session()'),
		$session, "$kind: all that was in one session");
	is(worker_of($node), $worker, '... of one worker');
}

# Who tries again at once does not find his former node ahead: the gate's node is not
# followed by another before it can be deleted.
$node = $nodes{gate};
$observer = ZkTest->new($node);
my ($path, $victim) = ('/states/again', ZkTest->new($node));
make($path);
$proxy->rule(dir => 's2c', op => 'create2', path => "^$path/", action => 'hold');
$victim->start("SELECT zk_lock_acquire('$path')");
wait_for_nodes($path, 1);
$observer->query("SELECT pg_cancel_backend(${\ $victim->pid})");
like($victim->result, qr/^ERROR:  57014: /, 'a wait is given up');
$victim->start("SELECT zk_lock_acquire('$path', '0')");
wait_until('it tries again', sub { is_seen($victim) });
$proxy->reset;
isnt($victim->result, 'f', '... and is not in the way of a new one');
$victim->close;
wait_for_calm($node, $zk, $path);

done_testing();
