# ZooKeeper's work for each hand-over while a queue of waiters is served:
# requests, watch events, and bytes on the wire.

package Herd;

use strict;
use warnings;

use Child;
use PgServer;
use Time::HiRes qw(time);
use Transactions;
use Wait;
use ZkClient;

# The way on which bytes are counted
use constant RELAY => 'counted';

# Backends wait here after they have had the lock, so that the ends of their
# sessions are not counted.
my $gate = 4711;

my @events = map { "sum_node_${_}_watch_count" } qw(created deleted changed children);

sub measure
{
	my ($arena) = @_;
	my %wanted = map { $_ => 1 } @{ $arena->{names} };
	my %mode = map { @$_ } $arena->modes;
	my $hosts = $arena->relay(RELAY, 0)->hosts;

	$arena->dismiss;

	# A thousand clients that connect at once may need minutes for that.
	$arena->new_server(RELAY, $hosts,
		'zklock.session_timeout' => '600s',
		'zklock.connect_timeout' => '600s')
	  if %mode;
	for my $n (@{ $arena->{depths} })
	{
		for my $name (
			grep { $wanted{s/ simple//r} } 'zklock', 'zklock server', 'Curator',
			'kazoo', 'zklock simple')
		{
			next if $name eq 'zklock server' && !$mode{$name};
			local $ENV{PGOPTIONS} = Arena::options($mode{$name} // {});
			_drain($arena, $n, $name, $hosts);
		}
		$arena->show("$_ of a hand-over", RELAY, $n) for qw(requests events bytes);
	}
	return;
}

# The first node belongs to no contestant, and is deleted when all are in the
# queue.
sub _drain
{
	my ($arena, $n, $name, $hosts) = @_;
	my $path = "/bench/herd_$n" . $name =~ s/ /_/r;
	my $simple = $name =~ /simple/;
	my $zk = ZkClient->new(($arena->zk->hosts =~ /([^,]+)/)[0]);

	$zk->create($path, '', $simple ? ZkClient::EPHEMERAL : 0);
	$zk->create("$path/_c_00000000-0000-4000-8000-000000000000-lock-", '',
		ZkClient::EPHEMERAL | ZkClient::SEQUENCE)
	  if !$simple;
	my $done = _queue($arena, $n, $name, $path, $hosts);
	wait_until(
		"$n of $name queue up",
		sub {
			my $counters = _counters($arena);

			# In the server's session, all backends of a server share one node.
			return $counters->{watch_count} > 0
			  && _waiting($arena, $path) == $n
			  if $name eq 'zklock server';
			my $queued = $simple ? $n : $zk->children($path) - 1;

			return $queued == $n && $counters->{watch_count} >= $n;
		},
		3 * $Wait::timeout);
	_wait_for_rest($arena);

	my $before = _counters($arena);
	$zk->close;
	$done->();
	_wait_for_rest($arena);
	my $after = _counters($arena);
	my %seen = map { $_ => $after->{$_} - $before->{$_} } keys %$after;

	$arena->note('requests of a hand-over', 'requests', RELAY, $n, $name, 1,
		$seen{packets_received} / $n);
	$arena->note('events of a hand-over', 'events', RELAY, $n, $name, 1,
		$seen{events} / $n);
	$arena->note('bytes of a hand-over', 'bytes', RELAY, $n, $name, 1,
		$seen{bytes} / $n);
	$_->finish($Wait::timeout) for grep { $_ } delete $arena->{waiters};
	return;
}

# Lets $n clients queue up; returns a function that waits until all had their
# turn.
sub _queue
{
	my ($arena, $n, $name, $path, $hosts) = @_;

	if ($name !~ /zklock/)
	{
		my $program = Program->new($name, $arena->{tmp}, $hosts);

		$program->start('queue', $n, $path);
		return sub { $program->result; $program->stop };
	}

	my $server = $arena->server(RELAY);
	my $mode = $name =~ /simple/ ? 'simple' : 'exclusive';
	my $keeper = Child->start("$arena->{tmp}/keeper-$path.log" =~ s{-/bench/}{-}r,
		"$arena->{bindir}/psql", '-XqAt',
		PgServer::conninfo($server->{dir}, $server->{port}));
	$keeper->say("SELECT pg_advisory_lock($gate);");
	wait_until('the backends are blocked', sub { $keeper->output =~ /\n/ });

	my $pgbench = Transactions::start(
		$arena, $server, $n,
		"SELECT zk_lock_guard('$path', NULL, '$mode');\n"
		  . "SELECT pg_advisory_xact_lock_shared($gate)",
		'-t', 1);
	return sub {
		wait_until(
			'all clients had their turn',
			sub {
				$pgbench->check;
				return $n == $server->psql('-c',
					"SELECT count(*) FROM pg_locks WHERE NOT granted AND objid = $gate");
			},
			3 * $Wait::timeout);
		$keeper->finish($Wait::timeout);
		$arena->{waiters} = $pgbench;
	};
}

# Returns the number of backends that wait for a lock.
sub _waiting
{
	my ($arena, $path) = @_;

	return $arena->server(RELAY)->psql('-c',
		"SELECT count(*) FROM zk_locks WHERE path = '$path' AND NOT granted");
}

# Waits until ZooKeeper is idle.
sub _wait_for_rest
{
	my ($arena) = @_;
	my ($last, $since) = (-1, time());

	wait_until(
		'ZooKeeper rests',
		sub {
			my $bytes = $arena->relay(RELAY, 0)->bytes;

			($last, $since) = ($bytes, time()) if $bytes != $last;
			return time() - $since > 0.5;
		});
	return;
}

# Returns the sum for all members.
sub _counters
{
	my ($arena) = @_;
	my %sum = (bytes => $arena->relay(RELAY, 0)->bytes, events => 0);

	for my $member ($arena->zk->can('servers') ? $arena->zk->servers : $arena->zk)
	{
		my $mntr = $member->four_letter('mntr');

		for my $name (qw(packets_received watch_count), @events)
		{
			my ($value) = $mntr =~ /^zk_$name\t(\d+)/m;

			$sum{ $name =~ /^sum/ ? 'events' : $name } += $value // 0;
		}
	}
	return \%sum;
}

1;
