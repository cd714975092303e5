# Locks on paths that are used once. They leave nodes that ZooKeeper removes later, so this
# comes last.

package Keys;

use strict;
use warnings;

# So many that hardly any path is used twice
use constant PATHS => 2_000_000_000;

# No more than a role creates at once: see docs/security.md.
use constant MOST_SECONDS => 0.5;

sub measure
{
	my ($arena) = @_;
	my $seconds = $arena->{seconds} < MOST_SECONDS ? $arena->{seconds} : MOST_SECONDS;

	for my $way ($arena->ways)
	{
		# raw creates no parents.
		my @all = grep { $_->name !~ /^raw/ } $arena->contestants($way, 'mutex');

		$_->open(1) for @all;
		$arena->rounds(
			[ 'new path', 'us', 'new path: writes', 'a lock' ],
			$way, 1, \@all,
			sub {
				my $before = $arena->writes;
				my ($rate) = $_[0]->run('mutex', 1, $seconds, '/bench/new', PATHS);

				return (1e6 / $rate,
					($arena->writes - $before) / ($rate * $seconds));
			});
	}
	return;
}

1;
