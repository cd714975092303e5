# Waiting for a condition, with a deadline.

package Wait;

use strict;
use warnings;

use Exporter qw(import);
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wait_until);

# Seconds after which a test gives up. This is far more than any step takes,
# because a machine may be slow; PostgreSQL's own tests use the same variable.
our $timeout = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 180;

# Calls $condition until it returns something true, and returns that.
sub wait_until
{
	my ($what, $condition, $seconds) = @_;
	my $deadline = time() + ($seconds // $timeout);

	while (1)
	{
		my $late = time() > $deadline;
		my $result = $condition->();

		return $result if $result;
		die "timed out waiting until $what\n" if $late;
		sleep(0.01);
	}
}

1;
