# Runs the client's threads under ThreadSanitizer and AddressSanitizer while connections are
# lost and the name of the server gets other addresses: the thread that resolves names, and
# the hand-over of its addresses to the library.
#
# Left out of make test: it takes long.
# Runs once: the result does not depend on the mode.
# Runs first: it takes long.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";
use ZkNames;

BEGIN { ZkNames::enter() }

use POSIX ();
use Races;
use Test::More;
use Time::HiRes qw(sleep);
use ZkProxy;
use ZkServer;

my $rounds = 8;    # sessions of each of the four threads
my $zk = ZkServer->new->start;
my $proxy = ZkProxy->new($zk->hosts);
my ($port) = $proxy->hosts =~ /:(\d+)$/;

build_stress_programs();

# The proxy is at the first address, and nobody is at the others.
my @sets = (
	['127.0.0.1'],
	[ '127.0.0.1', '127.0.7.1' ],
	['127.0.7.2'],
	[ '127.0.7.3', '127.0.7.4', '127.0.0.1' ],
	[]);
my $seed = 1;

ZkNames::set(zk => $sets[0]);
for my $checker (qw(thread address))
{
	my $output = '';

	# A fast run may end before a changed list has been handed over.
	for my $try (1 .. 10)
	{
		# Changes the addresses and cuts all connections for some seconds. Then the
		# program can see that no node is left.
		my $pid = fork() // die "fork: $!\n";
		if ($pid == 0)
		{
			for my $i (1 .. 8 * @sets)
			{
				ZkNames::set(zk => $sets[ $i % @sets ]);
				$proxy->cut;
				sleep(0.3);
			}
			POSIX::_exit(0);
		}

		$output .= stress_ok($checker, "zk:$port,127.0.0.1:$port", $seed++, $rounds,
			'with other addresses');
		kill('KILL', $pid);
		waitpid($pid, 0);
		ZkNames::set(zk => $sets[0]);
		last if $output =~ /^stress: the names of the servers have other addresses/m;
	}
	like($output, qr/^stress: the names of the servers have other addresses/m,
		'the addresses were others meanwhile');
}

done_testing();
