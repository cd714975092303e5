# How much of a long test is run. With ZKLOCK_LONG set it is all of it.

package Sample;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT = qw(sample_of every);

# The number to use: the first, or in a shortened test the second.
sub sample_of
{
	my ($all, $sample) = @_;

	return $ENV{ZKLOCK_LONG} ? $all : $sample;
}

# Of these the ones to use: all, or in a shortened test the first of each n.
sub every
{
	my ($n, @all) = @_;

	$n = sample_of(1, $n);
	return @all[ grep { $_ % $n == 0 } 0 .. $#all ];
}

1;
