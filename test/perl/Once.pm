# What tests need and is expensive to make: the first that needs it makes it in the
# directory of the test data, and all others find it there.
#
#	my $dir = made_once('template', sub { my ($path) = @_; ... make it at $path });

package Once;

use strict;
use warnings;

use Exporter qw(import);
use Fcntl qw(LOCK_EX);
use PostgreSQL::Test::Utils;

our @EXPORT = qw(made_once);

# Returns the path. If it is not there yet, $make is called to make it at another path.
# Tests that run at the same time wait for it.
sub made_once
{
	my ($name, $make) = @_;
	my $path = "$PostgreSQL::Test::Utils::tmp_check/$name";

	open(my $lock, '>', "$path.lock") or die "$path.lock: $!\n";
	flock($lock, LOCK_EX) or die "$path.lock: $!\n";
	if (!-e $path)
	{
		$make->("$path.new");
		rename("$path.new", $path) or die "$path: $!\n";
	}
	return $path;
}

1;
