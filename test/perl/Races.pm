# Runs the stress programs of test/unit, which have been built under ThreadSanitizer and
# under AddressSanitizer.

package Races;

use strict;
use warnings;

use Exporter qw(import);
use FindBin;
use Test::More;

our @EXPORT = qw(build_stress_programs stress_ok);

my $unit = "$FindBin::RealBin/../unit";

# The library leaks requests that are unanswered when it is closed.
$ENV{LSAN_OPTIONS} = "suppressions=$unit/lsan.supp:print_suppressions=0";
$ENV{TSAN_OPTIONS} = 'exitcode=0';

sub build_stress_programs
{
	is(system('make', '-s', '-C', $unit, 'stress'), 0, 'the stress programs are built')
	  or BAIL_OUT('no stress program');
	return;
}

# Runs the program of a checker, 'thread' or 'address', tests what it reports, and returns
# that. $rounds is the number of sessions of each of its four threads.
sub stress_ok
{
	my ($checker, $hosts, $seed, $rounds, $how) = @_;
	my $output = qx{$unit/build/stress-$checker $hosts $seed $rounds 2>&1};

	ok($? == 0 && !_our_races($output),
		"$checker sanitizer reports no error in zklock, $how")
	  or diag($output);
	like($output, qr/nothing left/, "no node is left, $how");
	return $output;
}

# Returns the reports of ThreadSanitizer in which our code makes one of the two
# accesses. The library itself is built without ThreadSanitizer and has races
# of its own.
sub _our_races
{
	my ($output) = @_;
	my @ours;

	for my $report (split(/(?=WARNING: ThreadSanitizer)/, $output))
	{
		my (undef, @stacks) = split(/\n\n|\n(?=  \S)/, $report);

		for my $stack (@stacks[ 0, 1 ])
		{
			my ($culprit) =
			  grep { !/sanitizer/ } ($stack // '') =~ /^ *(#\d+ .*)/mg;

			push @ours, $report
			  if ($culprit // '') =~ m{\bsrc/|stress\.c};
		}
	}
	return @ours;
}

1;
