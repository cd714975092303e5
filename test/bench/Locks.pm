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
	_share_sessions($arena, '10000 locks', 32, '/bench/many', 10_000);
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

# The minimal program, with its clients in one session, in a few, and in one each
sub _share_sessions
{
	my ($arena, $figure, $clients, @paths) = @_;

	return if !grep { $_ eq 'raw shared' } @{ $arena->{names} };
	my %raw = map {
		("$figure, sessions: $_" =>
			Program->new('raw shared', $arena->{tmp}, $arena->hosts('loopback'), $_))
	} 1, 2, 4, $clients;

	for my $round (1 .. $arena->{rounds})
	{
		for my $shared (sort keys %raw)
		{
			my ($rate) = $raw{$shared}->run('mutex', $clients, $arena->{seconds}, @paths);

			$arena->note($shared, 'locks a second', 'loopback', $clients, 'raw shared', $round,
				$rate);
		}
	}
	$arena->show($_, 'loopback', $clients) for sort keys %raw;
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
		[
			$figure, 'locks a second',
			"$figure: switches", 'a lock',
			"$figure: processor", 'us a lock'
		],
		$way, $clients, \@all,
		sub {
			my ($contestant) = @_;
			my @before = _work($contestant);
			my ($rate) = $contestant->run($kind, $clients, $arena->{seconds}, $path, $paths);
			my @after = _work($contestant);
			my $locks = $rate * $arena->{seconds};

			return ($rate, map { ($after[$_] - $before[$_]) / $locks } 0 .. $#after);
		});
	return;
}

# How often the threads of a contestant have gone to sleep, and the microseconds that they
# have run
sub _work
{
	my ($contestant) = @_;
	my ($switches, $ns) = (0, 0);

	for my $task (map { glob("/proc/$_/task/*") } $contestant->pids)
	{
		$switches += (Program::slurp("$task/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m)[0] // 0;
		$ns += (Program::slurp("$task/schedstat") =~ /^(\d+)/)[0] // 0;
	}
	return ($switches, $ns / 1e3);
}

1;
