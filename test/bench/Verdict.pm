# Which of the targets are met, as far as they were measured; and a table of ratios.

package Verdict;

use strict;
use warnings;

use List::Util qw(max min);

# A figure of ours must be at most, or at least, so many times another's.
my @targets = (
	map({
			my ($way, $most) = @$_;

			([ 'acquire, release', $way, 1, 'Curator', '<=', $most ],
				[ 'acquire, release', $way, 1, 'raw', '<=', 1.1 ]);
		} [ 'loopback', 0.65 ],
		[ '2 ms', 0.4 ]),
	map({
			my $way = $_;

			(map({ [ 'one lock', $way, $_, 'Curator', '>=', 1.6 ] } 8, 32),
				map({ [ 'one lock', $way, $_, 'raw', '>=', 0.9 ] } 2, 8, 32));
		} 'loopback',
		'2 ms'),
	[ 're-entrant pair', 'loopback', 1, 'advisory', '<=', 1.5 ],
	[ 'seen: acquire, release', 'loopback', 1, 'session', '<=', 1.05, 'shared' ],
	[ 'seen: re-entrant pair', 'loopback', 1, 'session', '<=', 1.05, 'shared' ]);

# What is the same with many as with few may be so many times as much, for noise
use constant { SAME => 1.5, EVENTS => 2.1, NOTHING => 0.01 };

sub text
{
	my ($arena) = @_;
	my @lines;

	for my $mode (map { $_->[0] } $arena->modes)
	{
		for (@targets)
		{
			my ($figure, $way, $clients, $other, $how, $bound, $name) = @$_;

			$name //= $mode;
			push @lines,
			  _line("$name, $figure, $way" . ($clients > 1 ? ", $clients clients" : ''),
				$arena->ratio($figure, $way, $clients, $name, $other),
				$how, $bound, "x $other");
		}
		push @lines, _line("$mode, frames of a re-entrant pair",
			$arena->median('requests of a re-entrant pair', 'loopback', 1, $mode),
			'<=', NOTHING, '');
		push @lines, _growth($arena, $mode);
	}
	return join('', "Targets, of those that were measured:\n\n", grep { $_ } @lines);
}

# What must not grow with the queue, or with the number of locks held
sub _growth
{
	my ($arena, $mode) = @_;
	my ($few, $many) = @{ $arena->{depths} }[ 0, -1 ];
	my ($less, $more) = @{ $arena->{holds} }[ 0, -1 ];
	my @requests = grep { defined }
	  map { $arena->median('requests of a hand-over', 'counted', $_, $mode) }
	  @{ $arena->{depths} };
	my @lines = (
		_line("$mode, requests of a hand-over, the most by the least of $few to $many waiters",
			@requests ? max(@requests) / min(@requests) : undef, '<=', SAME, ''),
		map {
			_line("$mode, watch events of a hand-over, $_ waiters",
				$arena->median('events of a hand-over', 'counted', $_, $mode),
				'<=', EVENTS, '')
		} @{ $arena->{depths} });

	for my $figure ('take one of many', 'commit many', 'release all')
	{
		my ($a, $b) =
		  map { $arena->median($figure, 'loopback', $_, $mode) } $more, $less;

		push @lines, _line("$mode, $figure, $more against $less",
			$a ? $a / $b : undef, '<=', SAME, '');
	}
	return @lines;
}

sub _line
{
	my ($what, $value, $how, $bound, $unit) = @_;

	return if !defined $value;
	my $holds = $how eq '<=' ? $value <= $bound : $value >= $bound;

	return sprintf("  %-7s%s: %.2f %s (%s %s)\n",
		$holds ? 'holds' : 'MISSED', $what, $value, $unit, $how, $bound)
	  =~ s/ +\(/ (/r;
}

1;
