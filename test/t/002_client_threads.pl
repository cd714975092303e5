# Runs the client's threads under ThreadSanitizer and AddressSanitizer: many
# short sessions, over a connection that is cut at inconvenient moments.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use Races;
use Test::More;
use ZkProxy;
use ZkServer;

my $rounds = 5;    # sessions of each of the four threads
my $zk = ZkServer->new->start;

build_stress_programs();

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
		stress_ok($checker, $hosts, $seed++, $rounds,
			$hosts eq $zk->hosts ? 'directly' : 'with losses');
	}

	# A session that is lost early sends few requests, as on a busy machine.
	my $most_fired = sub { (grep { $proxy->fired($_) } @rules) > @rules / 2 };
	for my $try (1 .. 3)
	{
		last if $most_fired->();
		stress_ok($checker, $proxy->hosts, $seed++, $rounds, 'with more losses');
	}
	ok($most_fired->(), 'most of the losses took place');
}

done_testing();
