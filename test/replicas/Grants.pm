# Reads on a standby, or where another server is replicated to, under locks that catch up by
# themselves, with zklock.catch_up = 'all': of each kind of grant that the server has. While a lock
# is handed over, shared or kept there, the client that writes on the other server does not take it.

package Grants;

use strict;
use warnings;

use Session;
use Stage;
use Time::HiRes qw(time);

# How the lock is taken at a path, if not with zk_lock_acquire(); in which session modes; and who
# takes it when the client on the other server has written: the next client, while another one has
# the lock or waits for it, or nobody else has it
my %kinds = (
	gate => { modes => ['server'], turns => 'waits' },
	shared => { modes => ['server'], turns => 'joins' },
	kept => { modes => ['server'], turns => 'alone' },
	acquire_all => { take => q(SELECT zk_lock_acquire_all('{%1$s/a,%1$s/b}', scope => 'transaction')) },
	semaphore => { take => q(SELECT zk_semaphore_acquire('%s', 1, scope => 'transaction')) },
	both => { take => q(SELECT pg_advisory_xact_lock(hashtext('%s'))) });
my $handed = 'SELECT handovers, kept_grants FROM zk_lock_stats';

# Plays all kinds, without and with, so many grants of each. $play runs several pairs of clients,
# of which one writes on the first server and the other one reads on the second one.
sub measure
{
	my ($play, $without, $with, $name, $one, $other) = @_;

	for my $server ($one, $other)
	{
		$server->psql('-c', 'SET client_min_messages = warning', '-c', 'CREATE EXTENSION IF NOT EXISTS zklock_advisory')
		  if $server->psql('-c', 'SELECT pg_is_in_recovery()') eq 'f';
	}
	print "Reads on the $name under each kind of lock, without and with zklock.catch_up = 'all';\n"
	  . "mean ms until it is granted; how many were handed over, and kept\n";
	printf("%-12s %-8s %-4s %6s %6s %8s %7s %6s %6s\n", qw(kind mode with reads stale repeated ms handed kept));
	for my $kind (sort keys %kinds)
	{
		$other->change('zklock.keep_time' => $kind eq 'kept' ? '1min' : 0);
		for my $mode (@{ $kinds{$kind}{modes} // [qw(server backend)] })
		{
			for my $case ([ off => $without ], [ all => $with ])
			{
				my ($setting, $n) = @$case;
				my @before = split(/\|/, $other->psql('-c', $handed));
				my ($reads, $stale, $repeated, $seconds) =
				  $play->(turns_of($kind), $mode, $n, $setting, $one, $other);
				my @after = split(/\|/, $other->psql('-c', $handed));

				printf("%-12s %-8s %-4s %6d %6d %8d %7.2f %6d %6d\n", $kind, $mode, $setting, $reads,
					$stale, $repeated, 1000 * $seconds / $reads, map { $after[$_] - $before[$_] } 0, 1);
				check($stale == 0, "$name, $kind, $mode: $stale stale reads") if $setting eq 'all';
			}
		}
	}
	return;
}

# Returns what one pair does: the numbers of stale reads, and of those that were repeated because
# replay waited for their transaction; and the time until the locks were granted, in seconds.
sub turns_of
{
	my ($kind) = @_;
	my $turns = $kinds{$kind}{turns} // '';
	my $mode_of_lock = $turns eq 'joins' ? 'shared' : 'exclusive';
	my $format = $kinds{$kind}{take}
	  // "SELECT zk_lock_acquire('%s', mode => '$mode_of_lock', scope => 'transaction')";

	return sub {
		my ($i, $mode, $n, $setting, $one, $other) = @_;
		my $take = 'BEGIN; ' . sprintf($format, "/replicas/$kind/$i");
		my $write = "UPDATE stock SET n = n + 1 WHERE id = $i RETURNING 'n ' || n";
		my %settings = ('zklock.session_mode' => $mode, 'zklock.advisory_locks' => 'both');
		my $writer = Session->new($one, %settings);
		my ($holder, $next) = map { Session->new($other, %settings, 'zklock.catch_up' => $setting) } 1, 2;
		my ($stale, $repeated, $seconds) = (0, 0, 0);

		$write = "$take; $write; COMMIT" if !$turns;
		$holder->query($take) if $turns =~ /waits|joins/;
		for (1 .. $n)
		{
			$next->start($take) if $turns eq 'waits';
			my ($true) = $writer->query($write) =~ /^n (\d+)$/m or die "nothing is written\n";
			my $begun = time();
			$holder->query('COMMIT') if $turns eq 'waits';
			my $answer = $turns eq 'waits' ? $next->result : $next->query($take);
			while ($answer =~ /^ERROR:  40001: canceling the wait for replay/m)
			{
				$repeated++;
				$answer = $next->query("ROLLBACK; $take");
			}
			die "$answer\n" if $answer !~ /\At?\z/;
			$seconds += time() - $begun;
			$stale++ if $next->query("SELECT n FROM stock WHERE id = $i") != $true;
			($holder, $next) = ($next, $holder) if $turns =~ /waits|joins/;
			$next->query('COMMIT');
		}
		return ($stale, $repeated, $seconds);
	};
}

1;
