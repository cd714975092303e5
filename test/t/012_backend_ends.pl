# However a backend ends, the locks that it held go to the next in the queue,
# and its own places in queues are given up.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkProxy;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my $node_a = new_node('a', $zk->hosts, restart_after_crash => 'on');
my $node_b = new_node('b', $zk->hosts, restart_after_crash => 'on');

# Since PostgreSQL 14, a waiting backend can check its client's connection.
my $watches_client = $node_a->safe_psql('postgres',
	q(SELECT count(*) FROM pg_settings
	  WHERE name = 'client_connection_check_interval'));

# Ways to end sessions on A. A backend that can close its ZooKeeper session
# gives its locks up at once; otherwise they go when the session expires.
my @ends = (
	{
		name => 'pg_terminate_backend',
		closes => 1,
		end => sub {
			$node_a->safe_psql('postgres',
				"SELECT pg_terminate_backend(${\ $_->pid})")
			  for @_;
		}
	},
	{
		name => 'client gone',
		closes => 1,
		end => sub { $_->close for @_ }
	},
	{
		name => 'kill -9',
		end => sub { kill('KILL', map { $_->pid } @_) },
		restart =>
		  sub { wait_for_server($node_a) }
	},
	{
		name => 'fast shutdown',
		closes => 1,
		end => sub { $node_a->stop('fast') },
		restart => sub { $node_a->start }
	},
	{
		name => 'immediate shutdown',
		end => sub { $node_a->stop('immediate') },
		restart => sub { $node_a->start }
	},
	{
		name => 'postmaster killed',
		closes => 1,
		end => sub { $node_a->kill9 }
	});

for my $end (@ends)
{
	my %timeout =
	  ('zklock.session_timeout' => $end->{closes} ? '60s' : '4s');
	my $holder = ZkTest->new($node_a, %timeout);
	my $waiter = ZkTest->new($node_a, %timeout);
	my $other = ZkTest->new($node_b);
	my $next = ZkTest->new($node_b);
	my @victims = ($holder, $waiter);

	# On A, one backend holds /held and one waits for /wanted; on B, one waits
	# for both.
	$holder->query(q(SELECT zk_lock_acquire('/held')));
	$other->query(q(SELECT zk_lock_acquire('/wanted')));
	if ($end->{name} ne 'client gone')
	{
		$waiter->start(q(SELECT zk_lock_acquire('/wanted')));
	}
	elsif ($watches_client)
	{
		$waiter->query(q(SET client_connection_check_interval = '50ms'));
		$waiter->start(q(SELECT zk_lock_acquire('/wanted')));
	}
	else
	{
		$waiter->close;
		@victims = ($holder);
	}
	wait_for_queue($zk, '/wanted', $other, @victims > 1 ? $waiter : ());
	$next->start(
		q(SELECT zk_lock_acquire('/held') AND zk_lock_acquire('/wanted')));
	wait_for_queue($zk, '/held', $holder, $next);

	my $seconds = seconds_of(
		sub {
			$end->{end}->(@victims);
			wait_for_queue($zk, '/held', $next);
			wait_for_queue($zk, '/wanted', $other, $next);
		});
	pass("$end->{name}: nodes are deleted");
	cmp_ok($seconds, '<', 30, '... at once') if $end->{closes};

	ok(!$next->is_done, '... a lock of another backend is still held');
	$other->query('SELECT zk_lock_release_all()');
	is($next->result, 't', '... the next in the queue gets both locks');

	$_->close for @victims, $other, $next;
	$end->{restart}->() if $end->{restart};
}

# A terminated backend drops its temporary tables in one more transaction, whose
# commit checks the locks that it holds, and no longer waits for others.
{
	my $waiter = ZkTest->new($node_b, OWN_SESSION,
		'zklock.confirm_commit' => 'always');
	my $other = ZkTest->new($node_b, OWN_SESSION);

	$other->query(q(SELECT zk_lock_acquire('/wanted')));
	$waiter->query(q(CREATE TEMP TABLE dropped (); SELECT zk_lock_acquire('/held')));
	$waiter->start(q(SELECT zk_lock_acquire_all('/wanted'::text ||
		ARRAY(SELECT '/x/' || i FROM generate_series(1, 100) i))));
	wait_for_queue($zk, '/wanted', $other, $waiter);
	$other->query("SELECT pg_terminate_backend(${\ $waiter->pid})");
	$waiter->result;
	is($other->query('SELECT count(*) FROM zk_locks'),
		1, 'a backend with temporary tables ends, and the server goes on');
	$_->close for $waiter, $other;
}

# The nodes must also go at once when the request that closes the session is
# lost.
my $proxy = ZkProxy->new($zk->hosts);
my %proxied = (
	'zklock.hosts' => $proxy->hosts,
	'zklock.session_timeout' => '60s');
my $holder = ZkTest->new($node_b, %proxied);
my $waiter = ZkTest->new($node_b, %proxied);
my $other = ZkTest->new($node_b);

$holder->query(q(SELECT zk_lock_acquire('/held')));
$other->query(q(SELECT zk_lock_acquire('/wanted')));
$waiter->start(q(SELECT zk_lock_acquire('/wanted')));
wait_for_queue($zk, '/wanted', $other, $waiter);

my @lost = map {
	$proxy->rule(dir => 'c2s', op => 'closeSession', action => 'drop')
} (1 .. 2);
my $seconds = seconds_of(
	sub {
		$node_b->safe_psql('postgres',
			"SELECT pg_terminate_backend(${\ $_->pid})")
		  for $holder, $waiter;
		wait_for_queue($zk, '/held');
		wait_for_queue($zk, '/wanted', $other);
	});
cmp_ok($seconds, '<', 30, 'nodes are deleted at once when the close request is lost');
wait_until('both close requests are lost',
	sub { !grep { !$proxy->fired($_) } @lost });

done_testing();
