# Waiting for a condition, with a deadline.

package Wait;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(max min);
use Time::HiRes qw(sleep time);

our @EXPORT = qw(wait_until);

# Seconds after which a test gives up. This is far more than any step takes,
# because a machine may be slow; PostgreSQL's own tests use the same variable.
our $timeout = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 180;

# Calls $condition until it returns something true, and returns that.
sub wait_until
{
	my ($what, $condition, $seconds) = @_;
	my $begin = time();

	while (1)
	{
		my $waited = time() - $begin;
		my $result = $condition->();

		return $result if $result;
		die "timed out waiting until $what\n" if $waited > ($seconds // $timeout);

		# Conditions cost time of the processor, which the other tests need.
		sleep(min(max($waited / 20, 0.01), 0.1));
	}
}

1;
