# How much of a long test is run. With ZKLOCK_LONG set it is all of it.

package Sample;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(sample_of);

# The number to use: the first, or in a shortened test the second.
sub sample_of
{
	my ($all, $sample) = @_;

	return $ENV{ZKLOCK_LONG} ? $all : $sample;
}

1;
