# The largest session that zklock.max_session_size allows ends in each way. ZooKeeper then
# deletes its nodes in one transaction. After that, all servers of the ensemble are stopped
# and started: they can read it. A larger one stops them, and docs/troubleshooting.md has
# the way out.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: one kind of nodes and two ends, one with nodes and one
# after which there are few or none, and then the restarts, and the too large session only in
# mode backend; else each kind of nodes and each end, with restarts of their own.
#
# Runs first: it takes long.

use strict;
use warnings;

use List::Util qw(max);
use POSIX qw(ceil);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkEnsemble;
use ZkTest;

use constant {
	LIMIT => 1700 * 1024,    # default of zklock.max_session_size
	LEAST => 0.85,           # the part of it that a largest session has
	REST => 64,              # what else is in the transaction, in bytes
	ROLES => 5,              # each can have half of what the others leave
	TOO_MANY => 46,          # so many sets of locks are too large a transaction
	TOO_HIGH => '8MB',       # a limit that allows them
	FEW => 50,               # transactions between two snapshots, at most
};

# What a session has. The rest of its room is filled with others, so that few bytes are left.
my @kinds = ('sets of locks');
my @fillers = ('sets of locks', 'single locks', 'the shortest path');

push @kinds, 'sets of short paths', 'advisory locks', 'readers', 'semaphores',
  server_mode() ? 'kept locks' : ()
  if $ENV{ZKLOCK_LONG};

my $began = time();
# Members that read a large transaction are not given up on a busy machine.
my $zk = ZkEnsemble->new(tick_time => 200, config => { syncLimit => 100 })->start;
my $timeout = max(6, ceil(4 * (time() - $began)));    # of sessions, in seconds
my %settings = (
	'zklock.session_timeout' => "${timeout}s",
	'zklock.max_locks' => 60_000,
	max_connections => 3 * ROLES,
	shared_preload_libraries => 'zklock',
	'zklock.advisory_locks' => 'cluster',
	server_mode() ? ('zklock.keep_time' => '1min') : (),
	restart_after_crash => 'on');

# Returns a server whose roles r1, r2 and so on can fill a session. Each calls fill() until
# there is no room for another node.
sub new_server
{
	my ($name, @settings) = @_;
	my $node = new_node($name, @settings);

	$node->safe_psql('postgres', q(
		CREATE EXTENSION zklock_advisory;

		CREATE FUNCTION take(kind text, name text, n int) RETURNS void LANGUAGE plpgsql AS $$
		DECLARE
			path text := format('/ends/%s/%s/%s/', name, kind, n);
			long text := rpad(path, 340, chr(8364));    -- of three bytes each
		BEGIN
			IF n > 200 AND kind NOT LIKE 'sets %' THEN
				RAISE insufficient_resources USING MESSAGE = 'enough';
			END IF;
			CASE kind
				WHEN 'sets of locks' THEN
					PERFORM zk_lock_acquire_all((SELECT array_agg(long || i)
						FROM generate_series(1, 50) AS i));
				WHEN 'sets of short paths' THEN
					PERFORM zk_lock_acquire_all((SELECT array_agg(path || i)
						FROM generate_series(1, 200) AS i));
				WHEN 'single locks' THEN
					PERFORM zk_lock_acquire(long);
				WHEN 'advisory locks' THEN
					PERFORM pg_advisory_lock(hashtext(name), n);
				WHEN 'readers' THEN
					PERFORM zk_lock_acquire(long, mode => 'shared');
				WHEN 'semaphores' THEN
					PERFORM zk_semaphore_acquire(long, 2);
				WHEN 'kept locks' THEN
					-- the third node and later ones
					FOR i IN 1 .. 3 LOOP
						PERFORM zk_lock_acquire(long);
						PERFORM zk_lock_release(long);
					END LOOP;
				WHEN 'the shortest path' THEN
					PERFORM zk_lock_acquire(format('/%s.%s', name, n));
			END CASE;
		END $$;

		-- Returns the error for the first node that there is no room for.
		CREATE FUNCTION fill(kind text, name text, most int) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN
			FOR n IN 1 .. most LOOP
				PERFORM take(kind, name, n);
			END LOOP;
			RETURN 'none';
		EXCEPTION WHEN insufficient_resources THEN
			RETURN sqlstate || ' ' || sqlerrm;
		END $$;)
		  . join('', map { "CREATE ROLE r$_ LOGIN;" } 1 .. ROLES));
	return $node;
}

my $node = new_server('main', $zk->hosts, %settings);
my $n = 0;    # number of sessions

# Makes the largest ZooKeeper session that there can be. Returns its id, and the database
# sessions that have its locks.
sub largest_session
{
	my ($kind) = @_;
	my @sessions;

	$n++;
	for my $role (1 .. (server_mode() ? ROLES : 1))
	{
		local $ENV{PGUSER} = "r$role";
		my $session = ZkTest->new($node);
		my @errors = map { $session->query("SELECT fill('$_', '$n.$role', 100000)") }
		  ($kind, @fillers);

		die "$kind: @errors\n" if grep { !/^53/ } @errors;
		like($errors[-1], qr/^53200 too many ZooKeeper nodes/,
			"$kind: role $role has taken all that it can");
		push @sessions, $session;
	}

	# Readers share nodes.
	if ($kind eq 'readers' && server_mode())
	{
		local $ENV{PGUSER} = 'r1';
		my $reader = ZkTest->new($node);

		$reader->query("SELECT fill('readers', '$n.2', 100)");
		push @sessions, $reader;
	}
	return ($sessions[0]->query('SELECT session_id FROM zk_session()'), @sessions);
}

# Suspends a process until ZooKeeper has ended its session.
sub suspend
{
	my ($id, $pid) = @_;

	kill('STOP', $pid);
	wait_for_end($id);
	kill('CONT', $pid);
	return;
}

# Waits until ZooKeeper has ended a session, and returns that transaction.
sub wait_for_end
{
	my ($id) = @_;

	return wait_until("session $id has ended", sub { $zk->end_of($id) });
}

# Changes a setting of the server's session.
sub change_session
{
	$settings{'zklock.session_timeout'} = ++$timeout . 's';
	$node->safe_psql('postgres', "ALTER SYSTEM SET zklock.session_timeout = '${timeout}s'");
	$node->reload;
	return;
}

# How sessions end, and whether nodes are left that ZooKeeper deletes: with a backend's exit
# there can be some, and with a planned end of the server's session none
my @ends = server_mode()
  ? (
	[ 'changed settings', 'none', sub { change_session(); $_->close for @_[ 1 .. $#_ ] } ],
	[ 'worker terminated', 'none',
		sub { kill('TERM', worker_of($node)); $_->close for @_[ 1 .. $#_ ] } ],
	[ 'worker killed', 'all', sub { crash_server($node, worker_of($node)) } ],
	[ 'worker suspended', 'all', sub { suspend($_[0], worker_of($node)) } ],
	[ 'server stopped at once', 'all', sub { $node->stop('immediate'); $node->start } ],
	[ 'server stopped', 'none', sub { $node->stop('fast'); $node->start } ])
  : (
	[ 'disconnected', 'some', sub { $_[1]->close } ],
	[ 'backend terminated', 'some', sub { kill('TERM', $_[1]->pid) } ],
	[ 'backend killed', 'all', sub { crash_server($node, $_[1]->pid) } ],
	[ 'backend suspended', 'all', sub { suspend($_[0], $_[1]->pid) } ],
	[ 'server stopped at once', 'all', sub { $node->stop('immediate'); $node->start } ]);

# Ends a session with so many nodes, and returns the transaction.
sub end_session
{
	my ($kind, $end) = @_;
	my ($name, $left, $code) = @$end;
	my ($id, @sessions) = largest_session($kind);

	$code->($id, @sessions);
	my $transaction = wait_for_end($id);
	my $bytes = $transaction->{bytes};

	cmp_ok($bytes, '<=', LIMIT + REST, "$kind, $name: size of the transaction");
	cmp_ok($bytes, '>', LEAST * LIMIT, '... which has all nodes') if $left eq 'all';
	is($transaction->{nodes}, 0, '... which has no node') if $left eq 'none';
	$_->close for @sessions;
	note("$kind | $name | $bytes bytes, $transaction->{nodes} nodes");
	return $transaction;
}

# Writes until each server has three more snapshots than now. A server takes a snapshot
# when it begins a new log, but before it has processed all that is in the former one.
sub write_snapshots
{
	my ($zk) = @_;
	my %wanted = map { $_ => 3 + $_->snapshots } $zk->servers;

	wait_until(
		'each server has three more snapshots',
		sub {
			# A server may close the connection, if another becomes the leader.
			eval { $zk->create('/written', '') };
			eval { $zk->delete('/written') };
			return !grep { $_->snapshots < $wanted{$_} } $zk->servers;
		});
	return;
}

# All servers are stopped and started, before and after new snapshots.
sub restart_ok
{
	my ($what, $transaction) = @_;
	my @behind =
	  grep { ($_->snapshots)[-1] < $transaction->{zxid} } $zk->servers;

	cmp_ok(scalar @behind, '>=', 2, "$what: no newer snapshot on two servers");
	$zk->relaunch('-Dzookeeper.snapCount=' . FEW);
	ok(serves($zk), '... and all servers start');
	write_snapshots($zk);
	$zk->relaunch;
	ok(serves($zk), '... and also after new snapshots');
	return;
}

sub serves
{
	my ($zk) = @_;

	return eval { $zk->wait_for_all; 1 } || diag($@, map { $_->logged } $zk->servers);
}

my ($absent_at) = grep { $_->[1] eq 'all' } @ends;

@ends = ($ends[0], $absent_at) if !$ENV{ZKLOCK_LONG};

for my $kind (@kinds)
{
	my $transaction;

	for my $end (@ends)
	{
		# Once, a server gets the transaction from the others.
		my $absent = $end == $absent_at && ($zk->followers)[0];

		$absent->stop if $absent;
		$transaction = end_session($kind, $end);
		$absent->launch if $absent;
		ok(serves($zk), '... and all servers serve');
		restart_ok("$kind, $end->[0]", $transaction) if $ENV{ZKLOCK_LONG};
	}
	restart_ok('after all ends', $transaction) if !$ENV{ZKLOCK_LONG};
}
is($node->safe_psql('postgres', q(SELECT zk_lock_acquire('/ends/after'))),
	't', 'locks can be taken');
$node->stop;

# A limit that is too high for these servers

if (server_mode() && !$ENV{ZKLOCK_LONG})
{
	done_testing();
	exit;
}
$node = new_server('high', $zk->hosts, %settings, 'zklock.max_session_size' => TOO_HIGH);
my $session = ZkTest->new($node);
my $keeper = keeper_of($session, $node);

# Returns the length of a transaction that at least two servers have not read.
sub unreadable
{
	my @lengths = map { $_->logged =~ /Unreasonable length = (\d+)/ } $zk->servers;

	return @lengths >= 2 && max(@lengths);
}

is($session->query("SELECT fill('sets of locks', 'high', ${\ TOO_MANY})"),
	'none', 'with too high a limit, a session can be larger');
kill('STOP', $keeper);
wait_until('servers cannot read its end', sub { unreadable() });
kill('CONT', $keeper);
$zk->relaunch;
my $length = wait_until('servers cannot read it after a restart, either',
	sub { !$zk->leader && !$zk->followers && unreadable() });
pass("... whose end no server can read ($length bytes)");

# The way out

$zk->relaunch("-Djute.maxbuffer=$length", '-Dzookeeper.snapCount=' . FEW);
ok(serves($zk), 'all servers start with a larger jute.maxbuffer');
write_snapshots($zk);
$zk->relaunch;
ok(serves($zk), '... and with the default after three more snapshots');
is($node->safe_psql('postgres', q(SELECT zk_lock_acquire('/ends/after'))),
	't', '... and locks can be taken');

done_testing();
