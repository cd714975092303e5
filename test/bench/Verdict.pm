# The targets that are met, as far as they were measured; and a table of
# ratios.

package Verdict;

use strict;
use warnings;

# A figure of zklock must be at most, or at least, this multiple of another
# contestant's.
my @targets = (
	map({
			my ($way, $most) = @$_;

			([ 'acquire, release', $way, 1, 'Curator', '<=', $most ],
				[ 'acquire, release', $way, 1, 'raw', '<=', 1.1 ]);
		} [ 'loopback', 0.65 ],
		[ '2 ms', 0.4 ]),

	# On the loopback interface the processors are the limit, and so the number of requests:
	# raw sends four, Curator five, raw safe and zklock six.
	map({
			my $clients = $_;

			([ 'one lock', 'loopback', $clients, 'Curator', '>=', 1 ],
				[ 'one lock', 'loopback', $clients, 'raw safe', '>=', 0.9 ],
				[ 'one lock', '2 ms', $clients, 'Curator', '>=', 1.6 ],
				map({ [ 'one lock', '2 ms', $clients, $_, '>=', 0.9 ] } 'raw', 'raw safe'));
		} 2,
		8,
		32,
		64),
	[ '10000 locks: processor', 'loopback', 32, 'raw', '<=', 1.1, 'zklock' ],
	map({
			my $way = $_;

			([ '10000 locks', $way, 32, 'raw shared', '>=', 0.9, 'zklock server' ],
				[ '10000 locks', $way, 32, 'zklock server', '>=', 0.95, 'zklock keep' ]);
		} 'loopback',
		'2 ms'),
	[ 'acquire, release', 'loopback', 1, 'advisory', '<=', 2, 'zklock keep' ],
	[ 'pgbench own locks', 'loopback', 32, 'advisory', '>=', 0.8, 'zklock keep' ],
	[ 'readers', 'loopback', 8, 'advisory', '>=', 0.25, 'zklock server' ],
	[ 're-entrant pair', 'loopback', 1, 'advisory', '<=', 1.5 ],
	[ 'seen: acquire, release', 'loopback', 1, 'session', '<=', 1.05, 'shared' ],
	[ 'seen: re-entrant pair', 'loopback', 1, 'session', '<=', 1.05, 'shared' ]);

# Rows of the table, as far as the figures exist
my @rows = (
	map({
			my $way = $_;

			(map({ [ $_, $way, 1 ] } 'acquire, release', 'acquire'),
				map({ [ 'one lock', $way, $_ ] } 2, 8, 32, 64),
				[ '10000 locks', $way, 32 ]);
		} 'loopback',
		'2 ms'),
	map({ ([ "one lock: $_", 'loopback', 8 ], [ "10000 locks: $_", 'loopback', 32 ]) }
		qw(switches processor)),
	map({ [ "10000 locks, sessions: $_", 'loopback', 32 ] } 1, 2, 4, 32),
	[ 'read-mostly', 'loopback', 8 ],
	[ 'readers', 'loopback', 8 ],
	[ 'semaphore of 4', 'loopback', 8 ],
	map({ [ 'free try, release', $_, 1 ] } 'loopback', '2 ms'),
	map({ [ 'refused tries', $_, 8 ] } 'loopback', '2 ms'),
	[ 'refused tries: writes', 'loopback', 8 ],
	[ 'polls: writes', 'loopback', 50 ],
	map({ [ 'new path', $_, 1 ] } 'loopback', '2 ms'),
	[ 'new path: writes', 'loopback', 1 ],
	map({ ([ "$_: acquire, release", 'loopback', 1 ], [ "$_: one lock", 'loopback', 8 ]) }
		'cluster', 'both'),
	map({ [ 'first lock', $_, 1 ] } 'loopback', '2 ms'),
	[ 'passed on', 'loopback', 1 ],
	[ 'passed on', 'relay', 1 ],
	[ 're-entrant pair', 'loopback', 1 ],
	map({
			my $figure = $_;

			map { [ $figure, 'loopback', $_ ] } 1000, 8000;
		} 'take one of many',
		'commit many',
		'release all'),
	map({ [ "pgbench $_", 'loopback', 1 ], [ "pgbench $_", 'loopback', 32 ] }
		'one lock', 'own locks'),
	[ 'next turn', 'loopback', 50 ],
	map({ [ "sales on $_", 'loopback', 8 ] } 'one server', 'two servers'),
	map({ [ "$_ of a client", 'loopback', 1 ] } qw(memory threads descriptors)));

my @others = ('zklock keep', 'raw', 'raw safe', 'raw shared', qw(Curator kazoo go-zookeeper advisory));

# Figures that must not depend on the number may grow by this factor, for
# noise.
use constant { SAME => 1.5, EVENTS => 2.1, NOTHING => 0.01, FLIGHTS => 2 };

sub text
{
	my ($arena) = @_;
	my @modes = map { $_->[0] } $arena->modes;
	my (@lines, %seen);

	for my $mode (@modes)
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
	push @lines, map { _first($arena, $_) } 'loopback', '2 ms';
	return join('', _table($arena, @modes), _herd($arena, @modes),
		"Targets, of those that were measured:\n\n",
		grep { $_ && !$seen{$_}++ } @lines);
}

# Medians, and their ratios to those of Curator and of raw; in GitHub's
# Markdown.
sub _table
{
	my ($arena, @modes) = @_;
	my %there = map { $_->{name} => 1 } @{ $arena->{figures} };
	my @names = grep { $there{$_} } @modes, @others;
	my @pairs = map {
		my $mode = $_;

		map { [ $mode, $_ ] } grep { $there{$_} } 'Curator', 'raw', 'raw safe'
	} @modes;
	my @lines;

	for (@rows)
	{
		my @which = @$_;
		my $unit = $arena->unit(@which) or next;

		push @lines, [
			$which[0], $unit, @which[ 1, 2 ],
			map({ number('%.4g', $arena->median(@which, $_)) } @names),
			map { number('%.2f', $arena->ratio(@which, @$_)) } @pairs
		];
	}
	return if !@lines;
	return _markdown(
		[ qw(Figure Unit Way Clients), @names, map { join(' / ', @$_) } @pairs ],
		[ ('---') x 3, ('---:') x (1 + @names + @pairs) ],
		@lines);
}

sub _markdown
{
	return join('', map { join(' | ', @$_) . "\n" } @_) . "\n";
}

# Requests, events and bytes of a hand-over
sub _herd
{
	my ($arena, @modes) = @_;
	my @names = (@modes, 'Curator', 'kazoo', 'zklock simple');
	my @lines;

	for my $n (@{ $arena->{depths} })
	{
		my @cells = map {
			my $name = $_;

			join(' / ', grep { $_ ne '' }
				  map { number('%.3g', $arena->median("$_ of a hand-over", 'counted', $n, $name)) }
				  qw(requests events bytes));
		} @names;

		push @lines, [ $n, @cells ] if grep { $_ ne '' } @cells;
	}
	return if !@lines;
	return _markdown([ 'Waiters', @names ], [ ('---:') x (1 + @names) ], @lines);
}

# A figure as in the tables
sub number
{
	my ($format, $value) = @_;

	return '' if !defined $value;
	return sprintf($value >= 1000 ? '%.0f' : $format, $value);
}

# Figures that must not grow with the queue, or with the number of held locks
sub _growth
{
	my ($arena, $mode) = @_;
	my ($few, $many) = @{ $arena->{depths} }[ 0, -1 ];
	my ($less, $more) = @{ $arena->{holds} }[ 0, -1 ];
	my ($first, $last) =
	  map { $arena->median('requests of a hand-over', 'counted', $_, $mode) }
	  $few, $many;
	my @lines = (
		_line("$mode, requests of a hand-over, $many waiters against $few",
			$first ? $last / $first : undef, '<=', SAME, ''),
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

# In the server's session, the first lock of a connection costs as much as an
# advisory lock, plus one flight to acquire it.
sub _first
{
	my ($arena, $way) = @_;
	my ($ours, $theirs, $flight) =
	  map { $arena->median(@$_) }
	  map { [ $_->[0], $way, 1, $_->[1] ] }
	  [ 'first lock', 'zklock server' ], [ 'first lock', 'advisory' ], [ 'acquire', 'raw' ];

	return if grep { !defined } $ours, $theirs, $flight;
	return _line("zklock server, first lock, $way, beyond an advisory one",
		($ours - $theirs) / $flight, '<=', FLIGHTS, 'flights');
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
