# Tries of a lock that another client holds throughout, so that each is refused: how many a
# second, and how many writes each costs ZooKeeper.

package Tries;

use strict;
use warnings;

use constant { PATH => '/bench/tried', CLIENTS => 8 };

sub measure
{
	my ($arena) = @_;
	my $maker = Program->new('raw', $arena->{tmp}, $arena->hosts('loopback'));

	$maker->ask('make', $_, 0) for PATH, PATH . '/_c_0-lock-0000000000';
	$maker->stop;
	for my $way ($arena->ways)
	{
		my @all = $arena->contestants($way, 'tries');

		$_->open(CLIENTS) for @all;
		$arena->rounds(
			[ 'refused tries', 'tries a second', 'refused tries: writes', 'a try' ],
			$way,
			CLIENTS,
			\@all,
			sub {
				my $before = $arena->writes;
				my ($rate) = $_[0]->run('tries', CLIENTS, $arena->{seconds}, PATH, 1);

				return ($rate, ($arena->writes - $before) / ($rate * $arena->{seconds}));
			});
	}
	return;
}

1;
