# How test/run counts the results that prove and pg_regress print: no failed
# test may get lost. What it shows until then, and what make test leaves out.
#
# Runs once: the result does not depend on the mode.

use strict;
use warnings;

use FindBin;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $run = slurp_file("$FindBin::RealBin/../run");
my %function = reverse($run =~ /^((\w+)\(\)\n\{.*?^\})$/msg);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $n = 0;

# Returns what a function of test/run prints of a text.
sub result_of
{
	my ($name, $text) = @_;
	my $result;

	IPC::Run::run([ 'sh', '-c', "$function{$name}\n$name" ], '<', \$text, '>', \$result)
	  or die "sh failed\n";
	chomp $result;
	return $result;
}

# Returns the numbers of tests passed, failed and skipped.
sub count_of
{
	return result_of('count_tests', @_);
}

# Returns the output of prove for files with these programs.
sub prove
{
	my @files = map { my $file = "$dir/" . ++$n . '.t'; append_to_file($file, $_); $file } @_;
	my $said;

	IPC::Run::run([ 'prove', '-j2', @files ], '>&', \$said);
	return $said;
}

my $good = 'print "1..2\nok 1\nok 2\n"';
my $bad = 'print "1..2\nok 1\nnot ok 2\n"; exit 1';
my $skipped = 'print "1..0 # SKIP not here\n"';
my $todo = 'print "1..2\nok 1 # TODO one day\nok 2\n"';
my %dead = (
	'at once' => 'die "no\n"',
	'midway' => 'print "ok 1\nok 2\n"; die "no\n"',
	'after its tests' => 'print "1..2\nok 1\nok 2\n"; exit 3',
	'by a signal' => 'print "ok 1\nok 2\n"; $| = 1; kill("KILL", $$); sleep(60)',
	'in silence' => 'exit 0',
	'before its plan' => 'print "ok 1\nok 2\n"');

is(count_of(prove($good)), '2 0 0', 'passing tests are counted');
is(count_of(prove($good, $bad)), '3 1 0', 'a failing test is counted');
is(count_of(prove($good, $skipped)), '2 0 1', 'a skipped file counts as one skipped test');
is(count_of(prove($good, $todo)), '4 0 0', 'a TODO test that passes counts as passed');
for my $how (sort keys %dead)
{
	like(count_of(prove($good, $bad, $dead{$how}, $dead{$how})),
		qr/^\d+ 3 0$/, "two files that die $how are counted beside a failed test");
}

is( count_of(<<'EOTEXT'), '2 1 0', 'output of pg_regress is counted');
ok 1         - extension                                  60 ms
not ok 2     - modes                                      90 ms
ok 3         - scopes                                     70 ms
1..3
EOTEXT
is( count_of(<<'EOTEXT'), '2 1 0', 'output of pg_regress before PostgreSQL 16 is counted');
test extension                    ... ok           60 ms
test modes                        ... FAILED       90 ms
     scopes                       ... ok           70 ms
EOTEXT

# The files that run again, and what is counted of them then instead
my $failures = <<'EOTEXT';
backend/100_build.pl              (Wstat: 6400 (exited 25) Tests: 0 Failed: 0)
gate/085_hostile_role.pl          (Wstat: 1792 (exited 7) Tests: 121 Failed: 7)
unit/check-untimed                (Wstat: 256 (exited 1) Tests: 9 Failed: 2)
Files=3, Tests=130, 9 wallclock secs
EOTEXT
is(result_of('failing_files', $failures), "backend/100_build.pl\ngate/085_hostile_role.pl\nunit/check-untimed",
	'the files that failed');
is(result_of('passed_in_failing', $failures), 114 + 7, '... and the tests that passed there');
is(result_of('failing_files', "Files=1, Tests=1, 9 wallclock secs\n"), '', '... none');

# The progress of four files, of which one fails and one is not done, on a clock that
# stops after $seconds
append_to_file("$dir/log", prove($good, $bad, $skipped));
my $clock = <<"EOSH";
. '$FindBin::RealBin/../progress.sh'
clock=0
date() { echo \$clock; }
sleep() { clock=\$((clock + 1)); [ \$clock -lt \$seconds ]; }
EOSH

sub progress_of
{
	my ($seconds, $to, @what) = @_;
	my $said;

	IPC::Run::run([ 'sh', '-c', "seconds=$seconds\n${clock}tick \"\$\@\"", 'sh', @what ],
		$to, \$said);
	return $said =~ s/\r\n/\n/gr;
}

is( progress_of(150, '>', 'server tests', "$dir/log", 4),
	"server tests: 3 of 4 files, 1 failed, about 0:20 left, 1:00\n"
	  . "server tests: 3 of 4 files, 1 failed, about 0:40 left, 2:00\n",
	'without a terminal, there is a plain line for each minute');
is(progress_of(150, '>', 'build'), "build: 1:00\nbuild: 2:00\n",
	'... with the time alone if nothing is counted');
is( progress_of(4, '>pty>', 'build'),
	join('', map { "\r\e[K$_\r" } 'build: 0:01', 'build: 0:02', 'build: 0:03'),
	'on a terminal, one line is drawn again each second');

# The tests that test/run chooses, as MODE/NAME
sub chosen
{
	my ($left_out) = @_;
	my @functions = map { $run =~ /^($_\(\)\n\{.*?^\})$/ms } qw(tests tap_tests in_mode in_make_test);
	my $chosen;

	IPC::Run::run(
		[ 'sh', '-c', join("\n", "cd '$FindBin::RealBin/../..'", @functions, "MODES= LEFT_OUT=$left_out", 'tests') ],
		'>', \$chosen)
	  or die "sh failed\n";
	return sort split(/\n/, $chosen);
}

my @chosen = chosen('');
my @left_out = chosen('only');
my %times;

$times{ s,.*/,,r }++ for grep { /\.pl$/ } @chosen;
my @unmarked = grep { slurp_file("$FindBin::RealBin/$_") !~ /^# Left out of make test: /m }
  map { s,.*/,,r } glob("$FindBin::RealBin/*.pl");

is_deeply([ sort(@chosen, @left_out) ], [ chosen('too') ], 'what make test leaves out is all the rest');
is_deeply([ sort keys %times ], \@unmarked, '... by marks in the tests');
is_deeply([ grep { $times{$_} > 1 } sort keys %times ], [], '... and modes: no test runs in two');

done_testing();
