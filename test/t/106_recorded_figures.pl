# The figures in docs/benchmarks.md, docs/server-session.md and README.md are those of the
# recording in test/bench/results, and what the pages say about them holds there.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../bench";
use Arena;
use List::Util qw(max min);
use PostgreSQL::Test::Utils;
use Test::More;
use Verdict;

my $top = "$FindBin::RealBin/../..";
my $results = "$top/test/bench/results";
my ($page, $server_page, $readme) =
  map { slurp_file("$top/$_") } qw(docs/benchmarks.md docs/server-session.md README.md);
my $verdict = slurp_file("$results/verdict.txt");
my $text = join(' ', split(/\s+/, "$page $server_page"));
my $arena = Arena->of_csv(slurp_file("$results/bench.csv"));

sub median
{
	my ($figure, @which) = @_;

	return $arena->median($figure =~ s/,//gr, @which);
}

# Least and greatest of the ratios of two contestants, as "0.50 to 0.60"
sub ratios
{
	my ($name, $other, @which) = @_;
	my @sorted = sort { $a <=> $b }
	  map { my ($figure, @more) = @$_; $arena->ratio($figure =~ s/,//gr, @more, $name, $other) }
	  @which;
	my ($least, $most) = map { sprintf('%.2f', $_) } @sorted[ 0, -1 ];

	return $least eq $most ? $least : "$least to $most";
}

# Checks a sentence of the pages. "%s" stands for the figure.
sub says
{
	my ($sentence, $figure) = @_;

	like($text, qr/\Q@{[sprintf($sentence, $figure)]}\E/, "sentence: $sentence");
	return;
}

# The cells of the Markdown table that begins with $head, by row, without the line below
# the header
sub cells_of
{
	my ($in, $head) = @_;
	my ($table) = $in =~ /^(\Q$head\E.*?\n)(?:\n|\z)/ms or return;

	return map { [ split(/ *\| */, $_, -1) ] } grep { !/^---/ } split(/\n/, $table);
}

my ($head, @lines) = cells_of($page, 'Figure | Unit');
my (undef, undef, undef, undef, @names) = @$head;

cmp_ok(scalar @lines, '>', 30, 'benchmarks.md has a table');
for my $line (@lines)
{
	my ($figure, undef, $way, $clients, @values) = @$line;

	is_deeply(
		\@values,
		[ map { Verdict::number('%.4g', median($figure, $way, $clients, $_)) } @names ],
		"benchmarks.md: $figure, $way, $clients clients");
}
is_deeply(
	[ cells_of($page, 'Waiters |') ],
	[ cells_of($verdict, 'Waiters |') ],
	'benchmarks.md: cost of a hand-over');

# Rows of README.md: the figure, way and clients, and the contestant that is meant by zklock
# server, if another
my %row = (
	'acquire and release, us' => [ 'acquire, release', 'loopback', 1 ],
	'the same for a kept lock, us' => [ 'acquire, release', 'loopback', 1, 'zklock keep' ],
	'acquire and release at 2 ms of network, us' => [ 'acquire, release', '2 ms', 1 ],
	'one lock, 8 clients, locks a second' => [ 'one lock', 'loopback', 8 ],
	'one lock, 32 clients, locks a second' => [ 'one lock', 'loopback', 32 ],
	'32 clients, 10,000 locks, locks a second' => [ '10000 locks', 'loopback', 32 ]);
my @above;

($head, @lines) = cells_of($readme, 'Figure | zklock |');
(undef, @names) = @$head;
for my $line (@lines)
{
	my ($label, @values) = @$line;
	my ($figure, $way, $clients, $keep) =
	  $label eq 'the same at 2 ms of network' ? ($above[0], '2 ms', $above[2]) :
	  @{ $row{$label} // die "$label\n" };

	@above = ($figure, $way, $clients);
	is_deeply(
		[ map { s/,//gr } @values ],
		[
			map {
				my $name = $keep && $_ eq 'zklock server' ? $keep : $_;
				my $value = median($figure, $way, $clients, $name);

				!defined $value || $keep && $name !~ /$keep|advisory/ ? '' :
				  sprintf($value < 100 ? '%.1f' : '%.0f', $value)
			} @names
		],
		"README.md: $label, $way");
}

my @one = map {
	my $way = $_;

	[ map { [ 'one lock', $way, $_ ] } 2, 8, 32, 64 ]
} 'loopback', '2 ms';
my @many = map { [ '10000 locks', $_, 32 ] } 'loopback', '2 ms';

for (
	[ 'has %s times the rate of `raw safe`.', 'zklock', 'raw safe', @{ $one[0] } ],
	[ 'It has %s times the rate of Curator, which', 'zklock', 'Curator', @{ $one[0] } ],
	[ 'is as fast: zklock has %s times its rate.', 'zklock', 'go-zookeeper', @{ $one[0] } ],
	[ 'It has %s times the rate of Curator, and', 'zklock', 'Curator', @{ $one[1] } ],
	[ 'and %s times that of go-zookeeper.', 'zklock', 'go-zookeeper', @{ $one[1] } ],
	[ 'has %s times the rate of `pg_advisory_lock`.', 'zklock server', 'advisory', @{ $one[0] } ],
	[
		'takes %s times the time of `pg_advisory_lock` and', 'zklock keep', 'advisory',
		[ 'acquire, release', 'loopback', 1 ]
	],
	[ 'it has %s times the rate of go-zookeeper', 'zklock', 'go-zookeeper', $many[1] ],
	[ 'and %s times that of Curator, because', 'zklock', 'Curator', $many[1] ],
	[ '`raw shared` has %s times the rate of `raw` on', 'raw shared', 'raw', $many[0] ],
	[ 'and %s times at 2 ms, and zklock server', 'raw shared', 'raw', $many[1] ],
	[ 'and zklock server %s and', 'zklock server', 'zklock', $many[0] ],
	[ ' and %s times the rate of zklock.', 'zklock server', 'zklock', $many[1] ],
	[ 'one session had %s times the rate of separate', 'zklock server', 'zklock', $many[0] ],
	[ 'separate sessions, and %s times at 2 ms', 'zklock server', 'zklock', $many[1] ],
	[ 'and at 2 ms the ratio is %s.', 'zklock keep', 'zklock server', $many[1] ],
	[
		'zklock server has %s times the rate of `pg_advisory_lock_shared`', 'zklock server',
		'advisory', [ 'readers', 'loopback', 8 ]
	],
	[
		'has %s times the rate of Curator, and writes nothing', 'zklock', 'Curator',
		map { [ 'refused tries', $_, 8 ] } 'loopback', '2 ms'
	],
	[
		'A lock on such a path takes %s times the time of Curator', 'zklock', 'Curator',
		map { [ 'new path', $_, 1 ] } 'loopback', '2 ms'
	],
	[
		'zklock takes %s times the time of Curator on', 'zklock', 'Curator',
		[ 'first lock', 'loopback', 1 ]
	],
	[ 'ahead of both, and %s times at 2 ms.', 'zklock', 'Curator', [ 'first lock', '2 ms', 1 ] ],
	[
		'it takes %s times the time.', 'zklock server', 'Curator',
		map { [ 'first lock', $_, 1 ] } 'loopback', '2 ms'
	],
	map({
			my ($setting, $pair, $one) = @$_;

			([ $pair, 'zklock keep', 'advisory', [ "$setting: acquire, release", 'loopback', 1 ] ],
				[ $one, 'zklock server', 'advisory', [ "$setting: one lock", 'loopback', 8 ] ]);
		} [
			'cluster', '`cluster` takes %s times the time of',
			'zklock server has %s times the rate with `cluster`'
		],
		[ 'both', 'and `both` %s times.', 'and %s times with `both`.' ]))
{
	my ($sentence, @of) = @$_;

	says($sentence, ratios(@of));
}
for (
	[ '%s context switches', '%.1f', '10000 locks: switches', 'zklock' ],
	[ 'This takes %s us', '%.0f', '10000 locks: processor', 'zklock' ],
	[ '`raw`, takes %s us', '%.0f', '10000 locks: processor', 'raw' ],
	[ 'to do: %s switches', '%.1f', '10000 locks: switches', 'go-zookeeper' ],
	[ 'switches and %s us', '%.0f', '10000 locks: processor', 'go-zookeeper' ],
	[ '%s switches instead of', '%.1f', '10000 locks: switches', 'zklock server' ],
	[ 'switches instead of %s,', '%.1f', '10000 locks: switches', 'raw shared' ],
	[ 'and %s us of processor time instead', '%.0f', '10000 locks: processor', 'zklock server' ],
	[ 'processor time instead of %s.', '%.0f', '10000 locks: processor', 'raw shared' ])
{
	my ($sentence, $format, $figure, $name) = @$_;

	says($sentence, sprintf($format, median($figure, 'loopback', 32, $name)));
}
says($_->[0],
	Verdict::number('%.0f', median('polls: writes', 'loopback', 50, $_->[1])) =~
	  s/(\d)(?=\d{3}$)/$1,/r)
  for [ 'carries out in a second is %s with zklock', 'zklock' ],
  [ ', %s with Curator', 'Curator' ], [ ', and %s with kazoo', 'kazoo' ];

# How much the rounds differ
my %rounds;
push @{ $rounds{ join(',', @$_{qw(figure way clients name)}) } }, $_->{value}
  for @{ $arena->{figures} };
my @spread = sort { $a <=> $b }
  map { max(@$_) / min(@$_) } grep { @$_ > 2 && min(@$_) > 0 } values %rounds;
says($_->[0], sprintf('%.1f', $spread[ $_->[1] * @spread ]))
  for [ 'round is at most %s times the least; in', 0.5 ],
  [ 'in a tenth of them, it is %s times or more.', 0.9 ];

says('%s writes with zklock', sprintf('%.0f', median('new path: writes', 'loopback', 1, 'zklock')));

# A recording is that of a commit. The page explains each target that was missed.
unlike(($verdict =~ /^commit: (\S+)$/m)[0], qr/dirty|unknown/, 'the recording has a commit');
says('`%s`', /MISSED (.*) \(/) for grep { /MISSED/ } split(/\n/, $verdict);

done_testing();
