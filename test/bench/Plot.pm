# The figures as pictures, by gnuplot.

package Plot;

use strict;
use warnings;

use Child;
use List::Util qw(max min);
use Wait;

# The pieces that each picture shows
my %plot = (
	'pair.svg' => [ Locks => \&_pair ],
	'readers.svg' => [ Locks => \&_readers ],
	'contended.svg' => [ Locks => \&_contended ],
	'herd.svg' => [ Herd => \&_herd ]);

# The colours of the contestants, in all pictures
my %colour = (
	'zklock' => '0b5fa5',
	'zklock server' => '17a398',
	'zklock keep' => '6a3d9a',
	'zklock simple' => '4aa3df',
	'raw' => 'a0662c',
	'raw safe' => 'e08a1e',
	'raw shared' => 'b8a22e',
	'Curator' => 'd62728',
	'kazoo' => '7f7f7f',
	'go-zookeeper' => 'd9549f',
	'advisory' => '202020');

# The pictures that these pieces have the figures for
sub names
{
	my %measured = map { $_ => 1 } @_;

	return grep { $measured{ $plot{$_}[0] } } sort keys %plot;
}

# Returns the pictures of these pieces, as text by name.
sub draw
{
	my ($arena, $tmp, @pieces) = @_;
	my %drawn;

	for my $name (names(@pieces))
	{
		my $script = $plot{$name}[1]->($arena) or next;

		open(my $fh, '>', "$tmp/plot") or die "plot: $!\n";
		print $fh "set terminal svg size 960,400 font 'sans,12' background 'white'\n",
		  "set output '$tmp/$name'\nset grid ytics\n$script";
		close($fh) or die "plot: $!\n";
		Child->run("$tmp/gnuplot.log", $Wait::timeout, 'gnuplot', "$tmp/plot");
		open($fh, '<', "$tmp/$name") or die "$name: $!\n";
		$drawn{$name} = do { local $/; <$fh> };
	}
	return %drawn;
}

# Data that gnuplot can refer to as $name: lines of words, undef for missing
# values
sub _data
{
	my ($name, @rows) = @_;

	return "\$$name << END\n"
	  . join('', map { join(' ', map { defined ? $_ : '?' } @$_) . "\n" } @rows)
	  . "END\n";
}

sub _pair
{
	my ($arena) = @_;

	return _dots($arena, 'acquire, release', 1, 'acquire and release, one client',
		'microseconds', $arena->ways);
}

sub _readers
{
	my ($arena) = @_;

	return _dots($arena, 'readers', 8, 'readers of one lock, 8 clients', 'locks a second',
		'loopback');
}

# A line for each contestant, with a dot for its $figure in each way, and the values beside them:
# on a logarithmic axis, the length of a bar would say nothing.
sub _dots
{
	my ($arena, $figure, $clients, $title, $unit, @ways) = @_;
	my @names = $arena->names_of($figure, 'loopback', $clients) or return;
	my (@rows, @all);

	for my $name (@names)
	{
		my @values = map { $arena->median($figure, $_, $clients, $name) } @ways;

		push @rows,
		  [
			$#names - @rows, "0x$colour{$name}",
			map { $_, defined $_ ? sprintf($_ < 100 ? '%.3g' : '%.0f', $_) : undef } @values
		  ];
		push @all, grep { defined } @values;
	}
	return _data('dots', @rows)
	  . "set title '$title"
	  . (@ways > 1 ? ": $ways[0] filled, $ways[1] open" : '')
	  . "'\nset xlabel '$unit'\nset key off\nset logscale x\nset datafile missing '?'\n"
	  . sprintf("set xrange [%.4g:%.4g]\n", min(@all) / 2, max(@all) * 2)
	  . 'set ytics ('
	  . join(', ', map { "'$names[$_]' " . ($#names - $_) } 0 .. $#names)
	  . ")\nset yrange [-0.6:$#names.6]\n"
	  . 'plot '
	  . join(', ',
		map {
			my $value = 3 + 2 * $_;
			my $shape = $_ ? 6 : 7;

			(
				"\$dots using $value:1:2 with points pt $shape ps 1.2 lc rgb variable",
				"\$dots using $value:1:@{[$value + 1]} with labels "
				  . ($_ < $#ways ? 'right offset -1,0' : 'left offset 1,0')
				  . " font ',10'"
			)
		} 0 .. $#ways)
	  . "\n";
}

# Lines of $figure for each contestant over @$clients, each with its name at its end.  $range
# holds the smallest and the largest value that the axis has room for, if it is given.
sub _lines
{
	my ($arena, $figure, $way, $clients, $range) = @_;
	my %seen;
	my @names = grep { !$seen{$_}++ }
	  map { $arena->names_of($figure, $way, $_) } @$clients
	  or return;

	return _data('lines',
		map {
			my $n = $_;

			[ $n, map { $arena->median($figure, $way, $n, $_) } @names ]
		} @$clients)
	  . _labels($range, map { my $name = $_;
			[ $name, map { $arena->median($figure, $way, $_, $name) // () } @$clients ]
		  } @names)
	  . "set datafile missing '?'\n"
	  # A tick at the very end of a logarithmic axis has no room for the rounding.
	  . (@$clients > 1 ? "set xrange [$clients->[0]:@{[$clients->[-1] * 1.001]}]\n" : '')
	  . 'set xtics (' . join(', ', @$clients) . ")\n"
	  . 'plot '
	  . join(', ',
		map {
			my $style = $names[$_] =~ /^raw/ ? 'dt 2 pt 6' : 'pt 7';

			"\$lines using 1:@{[$_ + 2]} with linespoints lw 2 $style ps 0.7 lc rgb '#$colour{$names[$_]}'"
		} 0 .. $#names)
	  . "\n";
}

# Labels with the names, each beside the last of its values. They keep a
# distance from one another on a logarithmic axis.
sub _labels
{
	my ($range, @lines) = @_;
	my @by_end = sort { $lines[$a][-1] <=> $lines[$b][-1] } 0 .. $#lines;
	my @all = $range ? @$range : map { my (undef, @values) = @$_; @values } @lines;
	my $step = max((max(@all) / min(@all))**(1 / 18), 1.05);
	my @at = map { $_->[-1] } @lines[@by_end];

	# Moves labels apart that are too close, until all have room.
	for my $i (map { 1 .. $#at } 1 .. 50)
	{
		my $lack = $step * $at[ $i - 1 ] / $at[$i];

		next if $lack <= 1;
		$at[ $i - 1 ] /= sqrt($lack);
		$at[$i] *= sqrt($lack);
	}
	return "unset label\nset rmargin 15\nset key off\n"
	  . sprintf("set yrange [%.4g:%.4g]\n", min(@all) / $step, max(@all) * $step)
	  . join('',
		map {
			my $name = $lines[ $by_end[$_] ][0];

			sprintf("set label %d '%s' at graph 1.02, first %.4g left tc rgb '#%s'\n",
				$_ + 1, $name, $at[$_], $colour{$name})
		} 0 .. $#at);
}

# The ways side by side, with the same range
sub _contended
{
	my ($arena) = @_;
	my @all = map { my $way = $_;
		map { my $n = $_;
			map { $arena->median('one lock', $way, $n, $_) }
			  $arena->names_of('one lock', $way, $n)
		} @{ $arena->{crowds} }
	} $arena->ways;
	my @plots = map {
		my $lines = _lines($arena, 'one lock', $_, $arena->{crowds}, [ min(@all), max(@all) ]);

		$lines ? "set title 'one lock, $_'\n$lines" : ()
	} $arena->ways;

	return if !@plots;
	return "set ylabel 'locks a second'\nset xlabel 'clients'\nset logscale x 2\n"
	  . "set logscale y\nset multiplot layout 1," . @plots . "\n"
	  . join('', @plots)
	  . "unset multiplot\n";
}

sub _herd
{
	my ($arena) = @_;
	my @plots = map {
		my $lines = _lines($arena, "$_ of a hand-over", 'counted', $arena->{depths});

		$lines ? "set title '$_ of a hand-over'\n$lines" : ()
	} qw(requests events);

	return if !@plots;
	return "set xlabel 'waiters'\nset logscale xy\nset multiplot layout 1,"
	  . @plots . "\n" . join('', @plots) . "unset multiplot\n";
}

1;
