# The cost of showing locks to other backends: the same loops with claims in
# shared memory, and without.

package Views;

use strict;
use warnings;

my @libraries = qw(shared_preload_libraries session_preload_libraries);

# The operations of one session in a loop
my @loops = (
	[
		'acquire, release', 400,
		q(PERFORM zk_lock_acquire('/bench/loop');
		  PERFORM zk_lock_release('/bench/loop');)
	],
	[
		're-entrant pair', 50_000,
		q(PERFORM zk_lock_acquire('/bench/held');
		  PERFORM zk_lock_release('/bench/held');)
	]);

sub measure
{
	my ($arena) = @_;
	my %server = map {
		$_ => PgServer->with_zklock($arena->{bindir}, "$arena->{tmp}/$_",
			$arena->hosts('loopback'), $_ => 'zklock')
	} @libraries;

	for (@loops)
	{
		my ($name, $turns, $sql) = @$_;

		for my $round (1 .. 5 * $arena->{rounds})
		{
			for my $i ($round % 2, 1 - $round % 2)
			{
				my $library = $libraries[$i];
				my ($time, $cpu) = _time_loop($server{$library}, $turns, $sql);
				my $scope = $library =~ s/_.*//r;

				$arena->note("seen: $name", 'us', 'loopback', 1, $scope, $round, $time);
				$arena->note("seen: $name processor", 'us', 'loopback', 1, $scope,
					$round, $cpu);
			}
		}
		for my $figure ("seen: $name", "seen: $name processor")
		{
			$arena->show($figure, 'loopback', 1);
			printf("  shared is %.2f x session\n",
				$arena->ratio($figure, 'loopback', 1, 'shared', 'session'));
		}
	}
	$_->stop for values %server;
	return;
}

# Returns the microseconds of one turn of a loop: elapsed time, and CPU time,
# including that of the threads that wait for ZooKeeper.
sub _time_loop
{
	my ($server, $turns, $sql) = @_;
	my $now = q(SELECT extract(epoch FROM clock_timestamp()) * 1e6,
		sum(split_part(
			pg_read_file('/proc/self/task/' || task || '/schedstat'), ' ', 1
			)::bigint) / 1e3
		FROM pg_ls_dir('/proc/self/task') AS task);
	my @seen = map { [ split(/\|/) ] } split(
		/\n/,
		$server->psql(
			'-c', q(DO $$ BEGIN PERFORM zk_lock_acquire('/bench/held'); END $$),
			'-c', $now,
			'-c', "DO \$\$ BEGIN FOR i IN 1 .. $turns LOOP $sql END LOOP; END \$\$",
			'-c', $now));
	return map { ($seen[-1][$_] - $seen[-2][$_]) / $turns } (0, 1);
}

1;
