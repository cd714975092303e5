# What a lock costs does not grow with the number of locks that a backend holds:
# neither to take, to keep or to give it back, nor the end of a subtransaction, nor the
# server's worker to give up a wait.

use strict;
use warnings;

use List::Util qw(min);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant { FEW => 1000, MANY => 16_000, ROUNDS => 2 };

# The watches of all revocable locks of a session must fit into half a request of
# 1 MB (see watchlimit.c): about 7000 of these.
use constant MOST_REVOCABLE => 6000;

# So many times as much may it cost with many as with few: memory that the
# processor has to fetch costs some, a look at all of them many times as much.
use constant MOST => 2.5;

my $zk = ZkServer->new->start;
my $node = new_node('main', $zk->hosts,
	'zklock.session_timeout' => '60s',
	server_mode() ? ('zklock.max_locks' => MANY + FEW) : ());
my ($session, $other) = map { ZkTest->new($node) } 1 .. 2;

# The processor's time that the backend itself has used, or another process, in ns:
# others may use the machine as well.
sub used
{
	my ($process) = @_;

	return $session->query(
		"SELECT split_part(pg_read_file('/proc/$process/schedstat'), ' ', 1)");
}

# That of one statement, or of one out of $n things that it does, in us
sub cost
{
	my ($sql, $n, $process) = @_;
	my $before = used($process // 'self');
	my $answer = $session->query($sql);

	die "$answer\n" if $answer =~ /ERROR/;
	return (used($process // 'self') - $before) / 1000 / $n;
}

# A lock is given back before its node is gone. Until then it takes its room in shared
# memory, and the client's threads have work that is none of what is measured next.
sub wait_for_calm
{
	wait_until('no node is left',
		sub { $zk->four_letter('mntr') =~ /^zk_ephemerals_count\t0$/m });
	wait_until('there is room',
		sub { $session->query('SELECT listed FROM zk_lock_stats') eq '0' })
	  if server_mode();
	return;
}

# Takes so many; there are none yet, or no longer.
sub hold
{
	my ($n, $scope) = @_;

	wait_for_calm();
	my $answer = $session->query(qq(
		DO \$\$ BEGIN
			FOR i IN 0 .. $n / 250 - 1 LOOP
				PERFORM zk_lock_acquire_all(
					(SELECT array_agg('/many/' || j)
					 FROM generate_series(i * 250, i * 250 + 249) AS j),
					scope => '$scope');
			END LOOP;
		END \$\$));
	die "$answer\n" if $answer =~ /ERROR/;
	return;
}

sub loop
{
	my ($n, $sql, $process) = @_;

	return cost("DO \$\$ BEGIN FOR i IN 1 .. $n LOOP $sql; END LOOP; END \$\$",
		$n, $process);
}

sub take_and_give_back
{
	return loop(200, q(
		PERFORM zk_lock_acquire('/one'); PERFORM zk_lock_release('/one')));
}

sub enter_and_leave
{
	return loop(100, q(
		PERFORM zk_semaphore_acquire('/few', 1); PERFORM zk_semaphore_release('/few')));
}

# The worker's part in a wait for what somebody else holds
sub wait_and_give_up
{
	$other->query(q(SELECT zk_lock_acquire('/taken')));
	my $us = loop(100, q(
		BEGIN
			PERFORM zk_lock_acquire('/taken', '10ms', 'shared');
		EXCEPTION WHEN connection_failure THEN
		END), keeper_of($session, $node));
	$other->query('SELECT zk_lock_release_all()');
	return $us;
}

# In a subtransaction, which fails or not
sub subtransaction
{
	my ($end) = @_;

	return loop(2000, qq(
		BEGIN
			PERFORM zk_lock_acquire('/many/0', scope => 'transaction');
			$end;
		EXCEPTION WHEN division_by_zero THEN
		END));
}

# What things cost with $n locks
sub measure
{
	my ($n) = @_;
	my %us;

	hold($n, 'session');
	is($session->query('SELECT count(*) FROM zk_locks'), $n, "$n locks are held");
	$us{'a lock, with others held'} = take_and_give_back();
	$us{'a semaphore, with locks held'} = enter_and_leave();
	$us{'a wait in the worker, with locks held'} = wait_and_give_up()
	  if server_mode();
	$us{'release of all'} = cost('SELECT zk_lock_release_all()', $n);
	wait_for_calm();
	$us{'a lock, after others were held'} = take_and_give_back();

	$session->query('SET zklock.revocable = on');
	hold(min($n, MOST_REVOCABLE), 'session');
	$us{'a lock, with revocable ones held'} = take_and_give_back();
	$us{'a statement, with revocable ones held'} =
	  cost(join(';', ('SELECT 1') x 500), 500);
	$session->query('SELECT zk_lock_release_all(); RESET zklock.revocable');

	$session->query('BEGIN; SAVEPOINT s');
	hold($n, 'transaction');
	$us{'a subtransaction that ends well'} = subtransaction('NULL');
	$us{'a subtransaction that fails'} = subtransaction('PERFORM 1 / 0');
	$us{'ROLLBACK TO'} = cost('ROLLBACK TO s', $n);
	hold($n, 'transaction');
	$us{'RELEASE'} = cost('RELEASE s', $n);
	$us{'COMMIT'} = cost('COMMIT', $n);
	is($session->query('SELECT count(*) FROM zk_locks'), 0, '... and none is left');
	return \%us;
}

# The least of several rounds is what it costs; more is noise.
my (%few, %many);
for my $round (1 .. ROUNDS)
{
	for ([ FEW, \%few ], [ MANY, \%many ])
	{
		my ($n, $least) = @$_;
		my $us = measure($n);

		for my $what (keys %$us)
		{
			$least->{$what} = $us->{$what}
			  if !$least->{$what} || $us->{$what} < $least->{$what};
		}
	}
}
for my $what (sort keys %few)
{
	my $ratio = $many{$what} / $few{$what};

	note(sprintf('%s: %.2f and %.2f us', $what, $few{$what}, $many{$what}));
	cmp_ok($ratio, '<', MOST,
		"$what: as much with many locks as with @{[FEW]}");
}

# Who gives all of them back looks for none of them either.
cmp_ok($many{'release of all'} / $many{'COMMIT'},
	'<', 2 * MOST, 'release of all: about as much as their release at a COMMIT');

done_testing();
