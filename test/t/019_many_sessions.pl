# Many sessions on two servers: a semaphore never grants more leases than it
# has, and locks that are taken several at a time, in any order, never
# deadlock. In the end, no node is left in ZooKeeper.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: each session of a crowd comes 12 times,
# not 40, and 30 times, not 100.
# Runs first: it takes long.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use ZkServer;
use ZkTest;

my $zk = ZkServer->new->start;
my @nodes = map { new_node($_, $zk->hosts) } qw(a b);

# The time that each transaction spends inside: a few stay longer than it takes
# on a busy machine to let the next one in. Both servers have the same clock.
$_->safe_psql(
	'postgres', q(
	CREATE TABLE inside (entered timestamptz, left_at timestamptz);

	CREATE FUNCTION enter_semaphore() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		entered timestamptz;
	BEGIN
		PERFORM zk_semaphore_acquire('/crowd/semaphore', 3, scope => 'transaction');
		entered := clock_timestamp();
		PERFORM pg_sleep(0.1 * random() ^ 10);
		INSERT INTO inside VALUES (entered, clock_timestamp());
	END
	$$;

	CREATE FUNCTION enter_many() RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM zk_lock_acquire_all(
			(SELECT array_agg('/crowd/many/' || n)
			 FROM (SELECT n FROM generate_series(1, 10) AS n
				   ORDER BY random() LIMIT 5) AS picked),
			scope => 'transaction');
		INSERT INTO inside VALUES (clock_timestamp(), clock_timestamp());
	END
	$$;))
  for @nodes;

# Starts sessions on both servers. Each of them calls the function $rounds
# times.
sub start_crowd
{
	my ($sessions, $rounds, $function) = @_;

	$_->safe_psql('postgres', 'TRUNCATE inside') for @nodes;

	my @crowd = map {
		ZkTest->new($nodes[ $_ % 2 ], application_name => 'crowd')
	} 1 .. $sessions;
	$_->start("SELECT $function();" x $rounds) for @crowd;
	return @crowd;
}

# Returns the times of all committed visits.
sub visits
{
	return map {
		[ split(/\|/) ]
	  } map {
		split(
			/\n/,
			$_->safe_psql('postgres',
				'SELECT extract(epoch FROM entered), extract(epoch FROM left_at) FROM inside'
			))
	  } @nodes;
}

sub leftovers
{
	my ($path) = @_;

	return $zk->exists($path) ? $zk->children($path) : ();
}

#
# 50 sessions take leases of a semaphore of 3 and are cancelled at random
#
my $rounds = sample_of(40, 12);
my @crowd = start_crowd(50, $rounds, 'enter_semaphore');
my $cancelled = 0;
my @killers = map { ZkTest->new($_) } @nodes;

wait_until(
	'all sessions are done',
	sub {
		for my $killer ($cancelled < 10 * $rounds ? @killers : ())
		{
			$cancelled += $killer->query(
				q(SELECT count(pg_cancel_backend(pid))
				  FROM (SELECT pid FROM pg_stat_activity
						WHERE application_name = 'crowd' AND state = 'active'
						ORDER BY random() LIMIT 1) AS one));
		}
		return !grep { !$_->is_done } @crowd;
	});

my @visits = visits();
my @events = sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] }
  map { [ $_->[0], 1 ], [ $_->[1], -1 ] } @visits;
my ($inside, $most) = (0, 0);

for my $event (@events)
{
	$inside += $event->[1];
	$most = $inside if $inside > $most;
}
cmp_ok($most, '<=', 3, 'at most 3 sessions were inside at a time');
cmp_ok($most, '>', 1, '... and more than one');
cmp_ok($cancelled, '>', 0, 'some sessions were cancelled');
cmp_ok(scalar(@visits), '>=', 50 * $rounds - $cancelled, 'all other sessions got a lease');
unlike(join('', map { $_->result } @crowd),
	qr/ERROR:  (?!57014)/, 'no other error occurred');
wait_until('all leases are gone',
	sub { !leftovers('/crowd/semaphore/leases') });
wait_until('the mutex is free',
	sub { !leftovers('/crowd/semaphore/locks') });
pass('semaphore leaves no node');

#
# 20 sessions take 5 of 10 locks in any order
#
$_->close for @crowd;
$rounds = sample_of(100, 30);
@crowd = start_crowd(20, $rounds, 'enter_many');
is(join('', map { $_->result =~ s/^\s*$//gmr } @crowd),
	'', 'no session gets an error');
is(scalar(visits()), 20 * $rounds, 'all sessions got their locks, each time');
wait_until(
	'all locks are free',
	sub { !grep { leftovers("/crowd/many/$_") } 1 .. 10 });
pass('locks leave no node');
$_->close for @crowd;

#
# 1,000 locks are requested again and again while ZooKeeper is suspended. The
# number of requests on their way is limited, but reaching the limit is no
# error.
#
my $session = ZkTest->new($nodes[0], 'zklock.session_timeout' => '60s');
$session->query(q(SELECT zk_lock_acquire('/crowd/first')));
$zk->pause;
my @answers = map {
	$session->query(q(
		SELECT zk_lock_acquire_all(array_agg('/crowd/many/' || i), '100ms')
		FROM generate_series(1, 1000) AS i))
} (1 .. 8);
$zk->resume;
is(scalar(grep { !/^ERROR:  08/ } @answers),
	0, 'no error reports too many requests')
  or diag(join("\n", @answers));
is($session->query(q(SELECT zk_lock_acquire('/crowd/free'))),
	't', 'free lock can be acquired after ZooKeeper is resumed');
wait_until(
	'all other locks are free',
	sub { !grep { leftovers("/crowd/many/$_") } 1 .. 1000 });

done_testing();
