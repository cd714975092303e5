# What taking turns with a standby costs the primary. A client there takes a lock and writes, one
# on the standby takes the same lock and reads, each as fast as it can: the client on the primary
# alone, both without and with zklock.catch_up = 'all', and both with a standby that shows
# everything later than it may. That one's locks have to fail before they are waited for: a lock
# that it holds while it waits would keep the primary waiting, too.

package Turns;

use strict;
use warnings;

use POSIX ();
use Session;
use Stage;
use Time::HiRes qw(time);

use constant {
	ROUNDS => 3,
	SECONDS => 3,        # of each case in each round
	DELAY => '300ms',    # recovery_min_apply_delay of a late standby
	LIMIT => '100ms',    # for which a client on it waits
	LEAST => 0.9,        # of the primary's turns beside a late standby
};

# Name, is there a client on the standby, its setting, and is the standby late?
my @cases = ([ 'alone', 0 ], [ 'off', 1, 'off' ], [ 'all', 1, 'all' ], [ 'all, late', 1, 'all', 1 ]);

sub measure
{
	my (%server) = @_;
	my %turns;

	print "Turns a second of a client on the primary that writes, and of one on the standby that reads,\n"
	  . "by zklock.catch_up; a late standby applies everything ${\ DELAY} later, and has ${\ LIMIT} for it\n";
	printf("%-8s %-10s %9s %9s %9s %9s\n", qw(mode with primary standby failures stale));
	for my $mode (qw(server backend))
	{
		for (1 .. ROUNDS)
		{
			for my $case (@cases)
			{
				my ($name, $reads, $setting, $late) = @$case;

				$server{standby}->change(recovery_min_apply_delay => $late ? DELAY : 0) if $reads;
				my @counts = play($mode, $reads, $setting, %server);
				$turns{$mode}{$name}[$_] += $counts[$_] for 0 .. $#counts;
			}
			$server{standby}->change(recovery_min_apply_delay => 0);
		}
		for my $case (@cases)
		{
			my $name = $case->[0];

			printf("%-8s %-10s %9.1f %9.1f %9.1f %9d\n", $mode, $name,
				(map { $_ / (ROUNDS * SECONDS) } @{ $turns{$mode}{$name} }[ 0 .. 2 ]), $turns{$mode}{$name}[3]);
		}
		my ($alone, $all, $late) = @{ $turns{$mode} }{ 'alone', 'all', 'all, late' };

		check($all->[3] == 0 && $late->[3] == 0, "mode $mode: stale reads with 'all'");
		check($late->[2] > 0, "mode $mode: no lock fails on a late standby");
		check($late->[0] >= LEAST * $alone->[0], "mode $mode: beside a late standby, the primary has "
			  . "$late->[0] turns, and $alone->[0] alone");
	}
	return;
}

# Returns the turns on the primary, those on the standby, its failures, and its stale reads.
sub play
{
	my ($mode, $reads, $setting, %server) = @_;
	my $until = time() + SECONDS;
	my $guard = "BEGIN; SELECT zk_lock_guard('/turns') > 0";
	my @clients = ([ 'primary', sub { write_in_turns($_[0], $guard, $until) } ]);

	push @clients, [ 'standby', sub { read_in_turns($_[0], $server{primary}, $guard, $until) } ] if $reads;
	my @pipes = map {
		my ($name, $turns) = @$_;
		my $pid = open(my $pipe, '-|') // die "fork: $!\n";

		if ($pid == 0)
		{
			$SIG{$_} = 'DEFAULT' for Stage::SIGNALS;
			my $done = eval {
				print join(' ', $turns->(Session->new($server{$name}, 'zklock.session_mode' => $mode,
					'zklock.catch_up' => $name eq 'standby' ? $setting : 'off',
					'zklock.catch_up_timeout' => LIMIT)));
				1;
			};
			print STDERR $@ if !$done;
			close(STDOUT);
			POSIX::_exit($done ? 0 : 1);
		}
		$pipe;
	} @clients;
	my @counts = map { split(' ', readline($_) // '') } @pipes;

	for (@pipes)
	{
		close($_) or die "a client has failed\n";
	}
	return (@counts, (0) x (4 - @counts));
}

sub write_in_turns
{
	my ($session, $guard, $until) = @_;
	my $turns = 0;

	while (time() < $until)
	{
		my $answer = $session->query("$guard; UPDATE stock SET n = n + 1 WHERE id = 1; COMMIT");

		die "$answer\n" if $answer ne 't';
		$turns++;
	}
	return $turns;
}

sub read_in_turns
{
	my ($session, $primary, $guard, $until) = @_;
	my ($turns, $failures, $stale) = (0, 0, 0);
	my $truth = Session->new($primary);

	while (time() < $until)
	{
		my $seen = $session->query("$guard; SELECT n FROM stock WHERE id = 1");

		if ($seen =~ /\At\n(\d+)\z/)
		{
			$turns++;
			$stale++ if $1 != $truth->query('SELECT n FROM stock WHERE id = 1');
		}
		elsif ($seen =~ /^ERROR:  (55P03|40001):/m)
		{
			$failures++;
		}
		else
		{
			die "$seen\n";
		}
		$session->query('COMMIT');
	}
	return ($turns, $failures, $stale);
}

1;
