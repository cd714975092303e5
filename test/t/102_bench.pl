# A minimal run of make bench with the installed extension: the figures exist,
# whatever their values. As in a checkout that only root may read, the sources
# are made unreadable after the setup.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use Child;
use File::Temp;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;
use Wait;

my $dir = File::Temp->newdir('bench-XXXXXX', TMPDIR => 1);
my %least = (
	ZKLOCK_INSTALLED => 1, QUICK => 1, RESULTS => $dir,
	PIECES => 'Locks,Tries,Held,Herd,Advisory,Keys',
	CONTESTANTS => 'zklock,zklock server,zklock keep,raw,raw safe,advisory',
	CROWDS => 2, DEPTHS => 2, HOLDS => 250, DURATION => 0.1);

my @sources = map { "$FindBin::RealBin/../$_" } qw(bench demo perl);
my $gone = <<'EOPERL';
package Gone;
INIT
{
	no warnings;
	my $set_up = \&main::set_up;

	*main::set_up = sub {
		my @result = $set_up->(@_);

		rename($ENV{SOURCES}, "$ENV{SOURCES}.gone") or die "rename: $!\n";
		return @result;
	};
}
1;
EOPERL

mkdir("$dir/test") or die "$dir/test: $!\n";
Child->run("$dir/log", $Wait::timeout, 'cp', '-R', @sources, "$dir/test");
append_to_file("$dir/Gone.pm", $gone);
@ENV{ keys %least } = values %least;
$ENV{SOURCES} = "$dir/test";
Child->run("$dir/log", $Wait::timeout, 'perl', "-I$dir", '-MGone', "$dir/test/bench/run");
ok(-e "$dir/test.gone/bench/run", 'sources are not needed after the setup');

my @rows = split(/\n/, slurp_file("$dir/bench.csv"));
is(shift(@rows), 'figure,unit,way,clients,name,round,value', 'bench.csv has a header');
for my $row (
	'acquire release,us,loopback,1,zklock',
	'acquire release,us,2 ms,1,raw',
	'acquire release,us,loopback,1,zklock keep',
	'one lock,locks a second,2 ms,2,zklock',
	'one lock,locks a second,loopback,2,zklock server',
	'one lock,locks a second,loopback,2,advisory',
	'one lock,locks a second,2 ms,2,raw safe',
	'refused tries,tries a second,loopback,8,zklock',
	'free try release,us,2 ms,1,zklock server',
	'polls,tries a second,loopback,50,zklock',
	'cluster: acquire release,us,loopback,1,zklock',
	'both: one lock,locks a second,loopback,8,zklock keep',
	'new path: writes,a lock,loopback,1,zklock',
	'read-mostly,locks a second,loopback,8,zklock',
	'readers,locks a second,loopback,8,zklock server',
	'readers,locks a second,loopback,8,advisory',
	'semaphore of 4,locks a second,loopback,8,zklock',
	'first lock,us,loopback,1,raw',
	'first lock,us,2 ms,1,advisory',
	'passed on,us,relay,1,raw',
	're-entrant pair,us,loopback,1,zklock',
	'release all,processor us a lock,loopback,250,zklock',
	'events of a hand-over,events,counted,2,zklock',
	'bytes of a hand-over,bytes,counted,2,zklock simple')
{
	my @values = map { /^\Q$row\E,1,([\d.e+]+)$/ } @rows;

	ok(@values == 1 && $values[0] > 0, $row) or diag("@values");
}

# With the simulated network delay, no figure is smaller than the delay.
my ($us) = map { /^acquire release,us,2 ms,1,zklock,1,(.*)/ } @rows;
cmp_ok($us, '>', 2000, 'figures include the network delay');

like(slurp_file("$dir/verdict.txt"),
	qr/^  (holds |MISSED) zklock, acquire, release, loopback: [\d.]+ x raw/m,
	'verdict.txt has a verdict');
like(slurp_file("$dir/$_"), qr/^<svg.*<\/svg>\s*\z/ms, "$_ is a picture")
  for qw(pair.svg readers.svg contended.svg herd.svg);

done_testing();
