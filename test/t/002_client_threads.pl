# Runs the client's threads under ThreadSanitizer and AddressSanitizer: many
# short sessions, over a connection that is cut at inconvenient moments.
#
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Test::More;
use ZkProxy;
use ZkServer;

my $rounds = 5;    # sessions of each of the four threads
my $unit = "$FindBin::RealBin/../unit";

# The library leaks requests that are unanswered when it is closed.
$ENV{LSAN_OPTIONS} = "suppressions=$unit/lsan.supp:print_suppressions=0";
$ENV{TSAN_OPTIONS} = 'exitcode=0';

# Returns the reports of ThreadSanitizer in which our code makes one of the two
# accesses. The library itself is built without ThreadSanitizer and has races
# of its own.
sub our_races
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

my $zk = ZkServer->new->start;

is(system('make', '-s', '-C', $unit, 'stress'), 0, 'the stress programs are built')
  or BAIL_OUT('no stress program');

for my $checker (qw(thread address))
{
	my $proxy = ZkProxy->new($zk->hosts);
	my $seed = 1;

	# Requests and replies of each kind get lost, early and late.
	my @rules = map {
		my $nth = $_;

		map { $proxy->rule(%$_, nth => $nth, action => 'drop') } (
			{ dir => 's2c', op => 'create2' },
			{ dir => 'c2s', op => 'create2' },
			{ dir => 's2c', op => 'delete' },
			{ dir => 'c2s', op => 'delete' },
			{ dir => 's2c', op => 'getChildren' },
			{ dir => 's2c', op => 'removeWatches' },
			{ dir => 'c2s', op => 'removeWatches' });
	} (7, 31, 77, 130);

	for my $hosts ($zk->hosts, $proxy->hosts)
	{
		my $how = $hosts eq $zk->hosts ? 'directly' : 'with losses';
		my $output = qx{$unit/build/stress-$checker $hosts $seed $rounds 2>&1};

		ok($? == 0 && !our_races($output),
			"$checker sanitizer reports no error in zklock, $how")
		  or diag($output);
		like($output, qr/nothing left/, "no node is left, $how");
		$seed++;
	}
	ok((grep { $proxy->fired($_) } @rules) > @rules / 2,
		'most of the losses took place');
}

done_testing();
