# ZooKeeper ends a session just after a follower has heard it, because the leader does not
# know that yet: a holder does not commit once another client has its lock. (make losses plays
# this many times.)
#
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils ();
use Test::More;

use lib "$FindBin::RealBin/../losses";
use Child;
use Rounds;
use Stage;
use ZkEnsemble;

use constant {
	TIMEOUT => 4,    # s
	TICK => 2000,    # ms
	TRIES => 3,
};

my $main_pid = $$;
my $rounds;

# Runs before the END block that stops all servers of ZooKeeper.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;

		$rounds->stop if $rounds;
		Child::stop_all();
		$? = $status;
	}
}

my $ensemble = ZkEnsemble->new(tick_time => TICK)->start;
$ensemble->wait_for_all;
$rounds = Rounds->new(pg_config('bindir'), PostgreSQL::Test::Utils::tempdir_short(), $ensemble);

my @lanes = map {
	my $stops = $_;
	map {
		[ $rounds->lane(mode => $_, timeout => TIMEOUT, member => 'follower'), { stops => $stops } ]
	} qw(server backend)
} 2, 1;

# On a busy machine, a round may not come to what it is to show. Then it is played again.
my $telling = 0;
for (1 .. TRIES)
{
	my @results = $rounds->play(@lanes);
	my %told;

	for my $result (@results)
	{
		my $what = "mode $result->{mode}, suspended "
		  . ($result->{stops} == 2 ? 'twice' : 'once');

		ok(!$result->{wrong}, "$what: no commit after another client has got the lock")
		  or diag("outcome: $result->{outcome}, $result->{late} s late");
		note("$what: $result->{outcome}, $result->{message}");
		$told{"$result->{mode} $result->{stops}"} = $result->{telling};
	}
	@lanes = grep { !$told{"$_->[0]{mode} $_->[1]{stops}"} } @lanes;
	$telling = 4 - @lanes;
	last if !@lanes;
}
cmp_ok($telling, '>=', 1, "$telling kinds of rounds have shown something");

done_testing();
