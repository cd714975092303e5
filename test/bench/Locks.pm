# Acquire and release: by one client, by many for one lock or for any of
# several locks, by readers and writers, by readers only, through a semaphore, and
# the first lock of a client.

package Locks;

use strict;
use warnings;

sub measure
{
	my ($arena) = @_;

	for my $way ($arena->ways)
	{
		my @all = $arena->contestants($way, 'mutex');

		$_->open(1) for @all;
		$arena->rounds(
			[ 'acquire, release', 'us', 'acquire', 'us' ],
			$way, 1, \@all,
			sub {
				# No server keeps a lock that others use, too.
				my $path = $_[0]->name eq 'zklock keep' ? '/bench/kept' : '/bench/one';
				my ($rate, $us) =
				  $_[0]->run('mutex', 1, $arena->{seconds}, $path, 1);
				return (1e6 / $rate, $us);
			});
		_contend($arena, 'one lock', $way, $_, 'mutex', '/bench/one', 1)
		  for @{ $arena->{crowds} };
		_contend($arena, '10000 locks', $way, 32, 'mutex', '/bench/many', 10_000)
		  if grep { $_ == 32 } @{ $arena->{crowds} };
	}
	_time_relay($arena);
	_contend($arena, 'read-mostly', 'loopback', 8, 'read-mostly', '/bench/mix', 1);
	_contend($arena, 'readers', 'loopback', 8, 'readers', '/bench/read', 1);
	_contend($arena, 'semaphore of 4', 'loopback', 8, 'semaphore', '/bench/four', 1);
	for my $way ($arena->ways)
	{
		# Advisory locks do not depend on the way.
		$arena->rounds(
			[ 'first lock', 'us' ],
			$way, 1,
			[
				$arena->contestants($way, 'mutex'),
				$way eq 'loopback' ? () :
				  grep { $_->name eq 'advisory' } $arena->contestants('loopback', 'mutex')
			],
			sub { $_[0]->first(5, '/bench/fresh') });
	}
	return;
}

# The cost of the relay, without a delay
sub _time_relay
{
	my ($arena) = @_;
	my %raw = map {
		$_ => Program->new('raw', $arena->{tmp}, $arena->hosts($_))
	} qw(loopback relay);

	for my $round (1 .. $arena->{rounds})
	{
		for my $way (sort keys %raw)
		{
			my ($rate) = $raw{$way}->run('mutex', 1, $arena->{seconds}, '/bench/one', 1);

			$arena->note('passed on', 'us', $way, 1, 'raw', $round, 1e6 / $rate);
		}
	}
	$arena->show('passed on', $_, 1) for sort keys %raw;
	$_->stop for values %raw;
	return;
}

# A contestant that takes part in one of these figures only
my %more = ('one lock' => ['crowd'], '10000 locks' => ['lanes']);

sub _contend
{
	my ($arena, $figure, $way, $clients, $kind, $path, $paths) = @_;
	my @all = $arena->contestants($way, $kind, @{ $more{$figure} // [] });

	$_->open($clients) for @all;
	$arena->rounds(
		[ $figure, 'locks a second' ],
		$way, $clients, \@all,
		sub {
			($_[0]->run($kind, $clients, $arena->{seconds}, $path, $paths))[0];
		});
	return;
}

1;
