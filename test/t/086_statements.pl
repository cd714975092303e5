# Random statements: the server does not crash, no backend hangs, and no node
# or claim is left. (make fuzz runs them for longer.)
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: 5 seconds, not 30. The statements change
# zklock.session_mode, so that those of both modes test the same code.
# Runs first: it takes long.

use strict;
use warnings;

use Child;
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

use lib "$FindBin::RealBin/../fuzz";
use Fuzz;
use Sample;
use Stage;

use constant SECONDS => sample_of(30, 5);

my $seed = $ENV{SEED} // int(rand(1_000_000));
my $main_pid = $$;
my $dir = tempdir(TMPDIR => 1, CLEANUP => 1);
my $fuzz;

# Runs before the END block that stops all servers of ZooKeeper.
END
{
	if ($$ == $main_pid)
	{
		my $status = $?;

		$fuzz->stop if $fuzz;
		Child::stop_all();
		$? = $status;
	}
}

copy("$FindBin::RealBin/../fuzz/statements.sql", $dir) or die "statements.sql: $!\n";
$fuzz = Fuzz->new(pg_config('bindir'), $dir, $seed);
$fuzz->start;
my @problems = $fuzz->run(SECONDS);
is(join('', @problems), '', "random statements cause no problem, SEED=$seed");
note($fuzz->clients, ' clients');
done_testing();
