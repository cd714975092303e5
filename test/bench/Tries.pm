# Tries: of a lock that is free; of one that another client holds throughout, so that each is
# refused, as fast as possible, and by clients that poll. How many writes those cost ZooKeeper.

package Tries;

use strict;
use warnings;

use constant { FREE => '/bench/one', HELD => '/bench/tried', CLIENTS => 8, POLLERS => 50 };

sub measure
{
	my ($arena) = @_;
	my $maker = Program->new('raw', $arena->{tmp}, $arena->hosts('loopback'));

	$maker->ask('make', $_, 0) for HELD, HELD . '/_c_0-lock-0000000000';
	$maker->stop;
	for my $way ($arena->ways)
	{
		my @all = $arena->contestants($way, 'tries');

		$_->open(CLIENTS) for @all;
		$arena->rounds(
			[ 'free try, release', 'us' ],
			$way, 1, \@all,
			sub {
				# No server keeps a lock that others use, too.
				my $path = $_[0]->name eq 'zklock keep' ? '/bench/kept' : FREE;

				return 1e6 / ($_[0]->run('free-tries', 1, $arena->{seconds}, $path, 1))[0];
			});
		$arena->rounds(
			[ 'refused tries', 'tries a second', 'refused tries: writes', 'a try' ],
			$way,
			CLIENTS,
			\@all,
			sub {
				my ($rate, $writes) = _refused($arena, $_[0], 'tries', CLIENTS);

				return ($rate, $writes / $rate);
			});
	}
	_poll($arena);
	return;
}

# Returns the tries and the writes in a second.
sub _refused
{
	my ($arena, $contestant, $kind, $clients) = @_;
	my $before = $arena->writes;
	my ($rate) = $contestant->run($kind, $clients, $arena->{seconds}, HELD, 1);

	return ($rate, ($arena->writes - $before) / $arena->{seconds});
}

# The first round is not counted: a client that was never refused does not know that the lock
# is held.
sub _poll
{
	my ($arena) = @_;
	my @all = $arena->contestants('loopback', 'polls');

	for my $contestant (@all)
	{
		$contestant->open(POLLERS);
		_refused($arena, $contestant, 'polls', POLLERS);
	}
	$arena->rounds(
		[ 'polls', 'tries a second', 'polls: writes', 'writes a second' ],
		'loopback', POLLERS, \@all,
		sub { _refused($arena, $_[0], 'polls', POLLERS) });
	return;
}

1;
