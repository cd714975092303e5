# Sessions that expire, with holders and waiters of every mode; and nodes that
# look like the session's own.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Test::More;
use ZkClient;
use ZkProxy;
use ZkServer;
use ZkTest;

# Limit for "at once": generous, because the machine may be busy.
use constant SOON => 15;

my $zk = ZkServer->new(tick_time => 200)->start;
my $proxy = ZkProxy->new($zk->hosts);
my $node = new_node('main', $zk->hosts, 'zklock.session_timeout' => '30s');
my ($rival, $next) = map { ZkTest->new($node, OWN_SESSION) } (1 .. 2);

# For each mode: the statement that acquires a lock, one that conflicts with
# it, and the directory of the lock's nodes below its path, if any.
my $exclusive = q(SELECT zk_lock_acquire('%s'));
my $simple = q(SELECT zk_lock_acquire('%s', mode => 'simple'));
my $semaphore = q(SELECT zk_semaphore_acquire('%s', 1));
my $counted = q(SELECT zk_semaphore_acquire_counted('%s', '/counts/one'));
$rival->query(q(SELECT zk_shared_count_set('/counts/one', 1)));
my %modes = (
	exclusive => [ $exclusive, $exclusive, '' ],
	shared => [
		q(SELECT zk_lock_acquire('%s', mode => 'shared')), $exclusive, ''
	],
	write =>
	  [ q(SELECT zk_lock_acquire('%s', mode => 'write')), $exclusive, '' ],
	downgraded => [
		q(SELECT zk_lock_acquire('%1$s', mode => 'write')
			AND zk_lock_acquire('%1$s', mode => 'shared')
			AND zk_lock_release('%1$s', 'write')),
		$exclusive,
		''
	],
	simple => [ $simple, $simple, undef ],
	semaphore => [ $semaphore, $semaphore, '/leases' ],
	counted => [ $counted, $counted, '/leases' ],
	all => [
		q(SELECT zk_lock_acquire_all('{%1$s/1, %1$s/2, %1$s/3}')),
		q(SELECT zk_lock_acquire('%s/2')), '/1'
	]);

sub take
{
	my ($mode, $path) = @_;

	return sprintf($modes{$mode}[0], $path);
}

sub rival_takes
{
	my ($mode, $path) = @_;

	is($rival->query(sprintf($modes{$mode}[1], $path)),
		't', "$path: another session has the lock");
	return;
}

# Settings of sessions that connect through a proxy and have a short timeout.
# Their connect timeout is long, so that none gives up while there is no
# connection.
sub victims_at
{
	my ($through) = @_;

	return with_settings(
		$node,
		'zklock.hosts' => $through->hosts,
		'zklock.connect_timeout' => '5min',
		'zklock.session_timeout' => '4s');
}

my ($victims_node, %settings) = victims_at($proxy);

# Returns the prefix before "lock-" in the name of the session's node for a
# lock, or '' if it has no node. The node of a gate names only its server.
sub prefix
{
	my ($session, $dir) = @_;
	my $port = $victims_node->port;

	for my $name ($zk->children($dir))
	{
		my $data = ($zk->get("$dir/$name") // { data => '' })->{data};

		return substr($name, 0, 40) if $data =~ /port=$port(?:$| pid=${\ $session->pid} )/;
	}
	return '';
}


# For each mode: one session holds a lock and is idle, one waits, and one does
# both.

my (%idle, %waiter, %both, %before);
for my $mode (sort keys %modes)
{
	my $dir = $modes{$mode}[2];

	rival_takes($mode, "/wait/$mode");
	$_->{$mode} = ZkTest->new($victims_node, %settings)
	  for \%idle, \%waiter, \%both;
	is($idle{$mode}->query(take($mode, "/idle/$mode")),
		't', "$mode: lock of an idle session is held");
	is($both{$mode}->query(take($mode, "/both/$mode")),
		't', '... and that of a waiting session');
	for my $session ($waiter{$mode}, $both{$mode})
	{
		$session->start(take($mode, "/wait/$mode"));
		$session->wait_for_event('Extension');
		$before{$mode} //= wait_until('the waiter is in the queue',
			sub { prefix($session, "/wait/$mode$dir") })
		  if defined $dir;
	}
}

# Two more sessions have lost the reply to their create request.
my %stale;
for my $mode (qw(exclusive simple))
{
	my $path = "/stale/$mode";
	my %case = (proxy => ZkProxy->new($zk->hosts));

	$rival->query("SELECT zk_lock_acquire('/stale/exclusive')");
	$rival->query("SELECT zk_lock_release('/stale/exclusive')");
	wait_for_queue($zk, '/stale/exclusive');
	$case{session} = ZkTest->new(victims_at($case{proxy}));
	my $lost = $case{proxy}->rule(
		dir => 's2c',
		op => 'create2',
		action => 'drop',
		refuse => 1);
	$case{session}->start(take($mode, $path));
	wait_until('the reply is lost', sub { $case{proxy}->fired($lost) });
	$case{node} =
	  $mode eq 'simple' ? $path : "$path/" . ($zk->children($path))[0];
	$case{data} = $zk->get($case{node})->{data};
	$stale{$mode} = \%case;
}

my $survivor = $rival->query('SELECT session_id FROM zk_session()');
$proxy->refuse;
$proxy->cut;
wait_until('all other sessions are over',
	sub { join(' ', $zk->sessions) eq $survivor });

# Other sessions continue first. One of them creates nodes with the same names
# and data as those of two expired sessions.
rival_takes($_, "/idle/$_") for sort keys %modes;
$next->start(take('exclusive', '/wait/exclusive'));
wait_for_queue($zk, '/wait/exclusive', $rival, $next);
my $impostor = ZkClient->new($zk->hosts);
$impostor->create(@$_{qw(node data)}, ZkClient::EPHEMERAL) for values %stale;

my $seconds = seconds_of(
	sub {
		$proxy->accept;
		for my $mode (sort keys %modes)
		{
			my $dir = $modes{$mode}[2];

			like(
				$both{$mode}->result,
				qr{^ERROR:  40001: lock on "/both/$mode},
				"$mode: waiter that has lost another lock gets the error");
			like(
				$idle{$mode}->query('SELECT 1'),
				qr{^ERROR:  40001: lock on "/idle/$mode},
				'... idle holder gets the error in its next transaction');
			is($idle{$mode}->query(
					'SELECT count(*) FROM zk_locks WHERE pid = pg_backend_pid()'),
				'0', '... once');

			# A session that was lost for want of a connection can get a second
			# error when the loss is confirmed.
			wait_until('all errors are reported',
				sub { $both{$mode}->query('SELECT 1') eq '1' });
			next if !defined $dir;
			isnt(
				wait_until(
					'the waiter is in the queue again',
					sub { prefix($waiter{$mode}, "/wait/$mode$dir") }),
				$before{$mode},
				'... waiter without locks gets a new place in the queue');
		}
	});
cmp_ok($seconds, '<', SOON, 'all sessions notice the loss in time');

wait_for_queue($zk, '/wait/exclusive', $rival, $next, $waiter{exclusive});
pass('new place in the queue is behind waiters that came meanwhile');
ok(!(grep { $_->is_done } values %waiter), '... and all still wait');
$rival->query('SELECT zk_lock_release_all()');
is($next->result, 't', '... the next waiter is granted the lock');
$next->query('SELECT zk_lock_release_all()');
for my $mode (sort keys %modes)
{
	is($waiter{$mode}->result, 't', "$mode: waiter is granted the lock");
	$waiter{$mode}->query('SELECT zk_lock_release_all()');
	is($_->[0]{$mode}->query(take($mode, "/$_->[1]/$mode")),
		't', '... former holder can acquire the lock again')
	  for [ \%idle, 'idle' ], [ \%both, 'both' ];
	$_->{$mode}->close for \%waiter, \%idle, \%both;
}

# A node of another session does not count as the session's own, whatever its
# name and data.

sub gives_way_ok
{
	my ($session, $path, $what) = @_;

	wait_until("$path is watched",
		sub { $zk->four_letter('wchp') =~ /^\Q$path\E$/m });
	ok(!$session->is_done, "$what: session waits");
	ok($impostor->delete($path), '... and does not delete the node');
	is($session->result, 't', '... until the node is deleted');
	$session->query('SELECT zk_lock_release_all()');
	return;
}

for my $mode (sort keys %stale)
{
	$stale{$mode}{proxy}->accept;
	gives_way_ok(@{ $stale{$mode} }{qw(session node)},
		"$mode, node with the name of an expired session");
}

# The same with a session that is alive and never creates the node.
my $session =
  ZkTest->new(with_settings($node, 'zklock.hosts' => $proxy->hosts));
my $query = 'SELECT session_id FROM zk_session()';
$session->query(
	q(SELECT zk_lock_acquire('/stale/exclusive'), zk_lock_release_all()));
my $id = $session->query($query);
$proxy->mark;
my $lost = $proxy->rule(
	dir => 'c2s',
	op => 'create2',
	action => 'drop',
	refuse => 1);
$session->start(take('exclusive', '/stale/exclusive'));
my $request = $proxy->wait_frame(dir => 'c2s', op => 'create2');
my $path = $impostor->create($request->{path}, '',
	ZkClient::EPHEMERAL | ZkClient::SEQUENCE);
$proxy->accept;
gives_way_ok($session, $path, 'node with the name of a live session');
is($session->query($query), $id, '... the session is the same');

done_testing();
