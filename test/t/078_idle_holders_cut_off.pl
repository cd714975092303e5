# A follower and the PostgreSQL servers are cut off from ZooKeeper's leader: the follower still
# answers, but the clients of idle holders are disconnected when others can have the locks.
# (make losses measures this with more settings.)
#
# Runs once: the test sets the modes itself.

use strict;
use warnings;

use ZkNet;
BEGIN { ZkNet::enter() }

use FindBin;
use PostgreSQL::Test::Utils ();
use Test::More;

use lib "$FindBin::RealBin/../losses";
use Child;
use Idle;
use Stage;

use constant {
	TIMEOUT => 4,        # s
	SYNC_LIMIT => 20,    # ticks for which the follower answers
	BOUND => 1,          # s, as promised
	SLACK => 1,          # s that a busy machine may need
};

my $main_pid = $$;
my $idle;

# Runs before the END block that stops all servers of ZooKeeper.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;

		$idle->stop if $idle;
		Child::stop_all();
		$? = $status;
	}
}

$idle = Idle->new(
	pg_config('bindir'), PostgreSQL::Test::Utils::tempdir_short(),
	sync_limit => SYNC_LIMIT,
	timeouts => [TIMEOUT]);
for my $holder ($idle->play('together'))
{
	my $what = "idle holder of "
	  . ($holder->{kind} eq 'lock' ? 'a lock' : 'an advisory lock')
	  . ", mode $holder->{mode}";

	ok(defined $holder->{told}, "$what: the lock goes to another client");
	cmp_ok($holder->{told} // 'inf', '<=', BOUND + SLACK,
		'... and its client is disconnected in time');
}

done_testing();
