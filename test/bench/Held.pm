# The cost of a lock that is already held, and of one of many that are held.

package Held;

use strict;
use warnings;

# Turns of a loop in the server
use constant TURNS => 20_000;

sub measure
{
	my ($arena) = @_;
	my $server = $arena->server('loopback');
	my @zklock =
	  (q(zk_lock_acquire('/bench/held')), q(zk_lock_release('/bench/held')));
	my @advisory = ('pg_advisory_lock(1)', 'pg_advisory_unlock(1)');

	for my $round (1 .. 3 * $arena->{rounds})
	{
		for ([ 'advisory', {} ], $arena->modes)
		{
			my ($name, $settings) = @$_;
			my $before = _packets($arena);

			local $ENV{PGOPTIONS} = Arena::options($settings);
			$arena->note('re-entrant pair', 'us', 'loopback', 1, $name, $round,
				_time_pair($server, $name eq 'advisory' ? @advisory : @zklock));
			$arena->note('requests of a re-entrant pair', 'requests', 'loopback',
				1, $name, $round, (_packets($arena) - $before) / TURNS);
		}
	}
	$arena->show($_, 'loopback', 1)
	  for 're-entrant pair', 'requests of a re-entrant pair';

	for my $round (1 .. $arena->{rounds})
	{
		for ($arena->modes)
		{
			my ($name, $settings) = @$_;

			local $ENV{PGOPTIONS} = Arena::options($settings);
			_hold_many($arena, $server, $name, $_, $round) for @{ $arena->{holds} };
		}
	}
	for my $figure ('take one of many', 'commit many', 'release all')
	{
		$arena->show($figure, 'loopback', $_) for @{ $arena->{holds} };
	}
	return;
}

# Returns the number of requests that ZooKeeper's members have received so far.
sub _packets
{
	my ($arena) = @_;
	my $sum = 0;

	for my $member ($arena->zk->can('servers') ? $arena->zk->servers : $arena->zk)
	{
		$sum += ($member->four_letter('mntr') =~ /^zk_packets_received\t(\d+)/m)[0];
	}
	return $sum;
}

# Returns the microseconds of an acquire and release of a lock that is held, or
# only local.
sub _time_pair
{
	my ($server, $acquire, $release) = @_;
	my @times = split(
		/\n/,
		$server->psql(
			'-c', q(DO $$ BEGIN PERFORM zk_lock_acquire('/bench/held'); END $$),
			map({ ('-c', $_) } 'SELECT extract(epoch FROM clock_timestamp())',
				"DO \$\$ BEGIN FOR i IN 1 .. @{[TURNS]} LOOP
					PERFORM $acquire; PERFORM $release; END LOOP; END \$\$",
				'SELECT extract(epoch FROM clock_timestamp())')));

	return ($times[1] - $times[0]) / TURNS * 1e6;
}

# Notes, for one transaction each, what the acquires, the commit, and the release cost the
# backend: the microseconds of processor time per lock, of its own thread. The time that
# passes depends on when the client library's threads get the processor.
sub _hold_many
{
	my ($arena, $server, $name, $n, $round) = @_;
	my $used = "SELECT split_part(pg_read_file('/proc/thread-self/schedstat', 0, 99), ' ', 1)";
	my @take = map {
		"DO \$\$ BEGIN
			FOR i IN 0 .. $n / 250 - 1 LOOP
				PERFORM zk_lock_acquire_all(
					(SELECT array_agg('/bench/many/' || j % 10000 || '/x' || j)
					 FROM generate_series(i * 250, i * 250 + 249) AS j),
					scope => '$_');
			END LOOP;
		END \$\$"
	} qw(transaction session);
	my @used = split(
		/\n/,
		$server->psql(
			map { ('-c', $_) } 'BEGIN', $used, $take[0], $used, 'COMMIT', $used,
			$take[1], $used, 'DO $$ BEGIN PERFORM zk_lock_release_all(); END $$', $used));

	for ([ 'take one of many', 0 ], [ 'commit many', 1 ], [ 'release all', 3 ])
	{
		my ($figure, $i) = @$_;

		$arena->note($figure, 'processor us a lock', 'loopback', $n, $name, $round,
			($used[ $i + 1 ] - $used[$i]) / $n / 1e3);
	}
	return;
}

1;
