# The cost of a lock does not grow with the number of locks that a backend
# holds: neither to acquire, keep or release it, nor to end a subtransaction,
# nor for the server's worker to give up a wait.
#
# Left out of make test: it takes long.
# Runs first: it takes long.

use strict;
use warnings;

use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant { FEW => 1000, MANY => 16_000, ROUNDS => 3, TRIES => 3, MOST_TRIES => 15 };

# Locks of a transaction. What is measured with them costs 1 or 2 us, to which a
# loop over these would add many times as much. A lock costs 20 to 100 us.
use constant MOST_OF_TRANSACTION => 4000;

# The watches of all revocable locks of a session must fit into half a request
# of 1 MB (see watchlimit.c): about 7000 of these locks.
use constant MOST_REVOCABLE => 6000;

# The allowed ratio between the costs with many and with few locks: cache
# misses cost some time, a loop over all locks would cost many times as much.
use constant MOST => 2.5;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts,
	'zklock.session_timeout' => '60s',
	server_mode() ?
	  ('zklock.max_locks' => MANY + FEW, 'zklock.max_session_size' => '4MB') : ());
my ($session, $other) = map { ZkTest->new($node) } 1 .. 2;
my %few;    # costs with few locks, as far as they are known

# Returns the CPU time in ns that the backend itself, or another process, has
# used. Elapsed time would depend on the load of the machine.
sub cpu_time
{
	my ($process) = @_;

	return $session->query(
		"SELECT split_part(pg_read_file('/proc/$process/schedstat'), ' ', 1)");
}

# Returns the CPU time in us of one statement, divided by the number of its
# operations.
sub cost
{
	my ($sql, $n, $process) = @_;
	my $before = cpu_time($process // 'self');
	my $answer = $session->query($sql);

	die "$answer\n" if $answer =~ /ERROR/;
	return (cpu_time($process // 'self') - $before) / 1000 / $n;
}

# Waits for the deletion of released locks. Until their nodes are gone, they
# take room in shared memory, and the client's threads have work that would be
# measured, too.
sub wait_for_deletions
{
	wait_until('no node is left',
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t0$/m });
	wait_until('there is room',
		sub { $session->query('SELECT listed FROM zk_server_status') eq '0' })
	  if server_mode();
	return;
}

# Acquires locks, from number $from up to number $to - 1.
sub hold
{
	my ($scope, $from, $to) = @_;
	my $answer = $session->query(qq(
		DO \$\$ BEGIN
			FOR i IN $from / 250 .. $to / 250 - 1 LOOP
				PERFORM zk_lock_acquire_all(
					(SELECT array_agg('/many/' || j)
					 FROM generate_series(i * 250, i * 250 + 249) AS j),
					scope => '$scope');
			END LOOP;
		END \$\$));
	die "$answer\n" if $answer =~ /ERROR/;
	return;
}

# Returns the cost of one run of a statement.
sub loop
{
	my ($what, $n, $sql, $process) = @_;
	my $least;

	# The minimum is the cost, the rest is noise. More tries cost much less than another
	# round.
	for my $try (1 .. MOST_TRIES)
	{
		my $us = cost("DO \$\$ BEGIN FOR i IN 1 .. $n LOOP $sql; END LOOP; END \$\$",
			$n, $process);

		$least = min($us, $least // $us);
		last if $try >= TRIES && (!$few{$what} || $least < MOST * $few{$what});
	}
	return $least;
}

sub take_and_give_back
{
	my ($what) = @_;

	return loop($what, 100, q(
		PERFORM zk_lock_acquire('/one'); PERFORM zk_lock_release('/one')));
}

sub enter_and_leave
{
	my ($what) = @_;

	return loop($what, 50, q(
		PERFORM zk_semaphore_acquire('/few', 1); PERFORM zk_semaphore_release('/few')));
}

# The CPU time of the worker for a wait for a lock that another session holds
sub wait_and_give_up
{
	my ($what) = @_;

	$other->query(q(SELECT zk_lock_acquire('/taken')));
	my $us = loop($what, 50, q(
		BEGIN
			PERFORM zk_lock_acquire('/taken', '10ms', 'shared');
		EXCEPTION WHEN connection_failure THEN
		END), keeper_of($session, $node));
	$other->query('SELECT zk_lock_release_all()');
	return $us;
}

# A scan of the claims in shared memory, as the worker makes it every second, too
sub look
{
	my ($what) = @_;

	return loop($what, 50, 'PERFORM count(*) FROM zk_locks');
}

# A lock in a subtransaction, which commits or fails
sub subtransaction
{
	my ($what, $end) = @_;

	return loop($what, 2000, qq(
		BEGIN
			PERFORM zk_lock_acquire('/many/0', scope => 'transaction');
			$end;
		EXCEPTION WHEN division_by_zero THEN
		END));
}

# Returns the costs of operations with $n locks.
sub measure
{
	my ($n) = @_;
	my $revocable = min($n, MOST_REVOCABLE);
	my $of_transaction = min($n, MOST_OF_TRANSACTION);
	my %us;
	my $note = sub {
		my ($what, $code, @arguments) = @_;

		$us{$what} = $code->($what, @arguments);
	};

	wait_for_deletions();
	$session->query('SET zklock.revocable = on');
	hold('session', 0, $revocable);
	$note->('a lock, with revocable ones held', \&take_and_give_back);
	$us{'a statement, with revocable ones held'} =
	  cost(join(';', ('SELECT 1') x 500), 500);
	$session->query('RESET zklock.revocable');

	hold('session', $revocable, $n);
	is($session->query('SELECT count(*) FROM zk_locks'), $n, "$n locks are held");
	$note->('a lock, with others held', \&take_and_give_back);
	$note->('a semaphore, with locks held', \&enter_and_leave);
	$note->('a wait in the worker, with locks held', \&wait_and_give_up)
	  if server_mode();
	$us{'release of all'} = cost('SELECT zk_lock_release_all()', $n);
	wait_for_deletions();
	$note->('a lock, after others were held', \&take_and_give_back);
	$note->('a look at all locks, after others were held', \&look);

	$session->query('BEGIN; SAVEPOINT s');
	hold('transaction', 0, $of_transaction);
	$note->('a subtransaction that commits', \&subtransaction, 'NULL');
	$note->('a subtransaction that fails', \&subtransaction, 'PERFORM 1 / 0');
	$us{'ROLLBACK TO'} = cost('ROLLBACK TO s', $of_transaction);
	wait_for_deletions();
	hold('transaction', 0, $of_transaction);
	$us{'RELEASE'} = cost('RELEASE s', $of_transaction);
	$us{'COMMIT'} = cost('COMMIT', $of_transaction);
	is($session->query('SELECT count(*) FROM zk_locks'), 0, '... and none is left');
	return \%us;
}

# The minimum of several rounds is the cost, the rest is noise.
sub measure_again
{
	my ($n, $least) = @_;
	my $us = measure($n);

	for my $what (keys %$us)
	{
		$least->{$what} = $us->{$what}
		  if !$least->{$what} || $us->{$what} < $least->{$what};
	}
	return;
}

# More rounds with many locks only have to follow if the first costs more than that.
my %many;
measure_again(FEW, \%few) for 1 .. 2;
for my $round (1 .. ROUNDS)
{
	measure_again(MANY, \%many);
	last if !grep { $many{$_} >= MOST * $few{$_} } keys %few;
}
for my $what (sort keys %few)
{
	my $ratio = $many{$what} / $few{$what};

	note(sprintf('%s: %.2f and %.2f us', $what, $few{$what}, $many{$what}));
	cmp_ok($ratio, '<', MOST,
		"$what: the cost with many locks is about that with @{[FEW]}");
}

# A release of all locks does not search for each of them, either.
cmp_ok($many{'release of all'} / $many{'COMMIT'},
	'<', 2 * MOST,
		'release of all locks costs about as much as a COMMIT that releases them');

done_testing();
