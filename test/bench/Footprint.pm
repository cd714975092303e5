# The resources that another client needs on its machine: memory, threads and
# descriptors.

package Footprint;

use strict;
use warnings;

use constant MORE => 16;

sub measure
{
	my ($arena) = @_;

	for my $contestant (_newcomers($arena))
	{
		my ($before, $after);

		# The backend exists in any case: only its client counts.
		if ($contestant->can('connect'))
		{
			$contestant->connect(MORE);
			$before = _usage($contestant);
			$contestant->open(MORE);
		}
		else
		{
			$contestant->open(1);
			$before = _usage($contestant);
			$contestant->open(1 + MORE);
		}
		$after = _usage($contestant);
		for ([ memory => 'kB' ], [ threads => 'threads' ],
			[ descriptors => 'descriptors' ])
		{
			my ($figure, $unit) = @$_;

			$arena->note("$figure of a client", $unit, 'loopback', 1,
				$contestant->name, 1,
				($after->{$figure} - $before->{$figure}) / MORE);
		}
		$contestant->stop;
	}
	$arena->show("$_ of a client", 'loopback', 1)
	  for qw(memory threads descriptors);
	return;
}

# New contestants without clients
sub _newcomers
{
	my ($arena) = @_;

	return grep { $_->name !~ /^(?:advisory|zklock keep)$/ } @{ $arena->invite('loopback') };
}

# The sum of all processes of a contestant
sub _usage
{
	my ($contestant) = @_;
	my %sum = (memory => 0, threads => 0, descriptors => 0);

	for my $pid ($contestant->pids)
	{
		my $memory = Program::slurp("/proc/$pid/smaps_rollup");

		$sum{memory} += $1 while $memory =~ /^Private_\w+: +(\d+) kB/mg;
		$sum{threads} += () = glob("/proc/$pid/task/*");
		$sum{descriptors} += () = glob("/proc/$pid/fd/*");
	}
	return \%sum;
}

1;
