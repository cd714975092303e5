# Many clients want one lock at once, and each holds it for a while: how much later than
# that time is the next one served?

package Turns;

use strict;
use warnings;

use Transactions;

use constant CLIENTS => 50;

sub measure
{
	my ($arena) = @_;
	my $server = $arena->server('loopback');

	# As in a well-known demonstration of ZooKeeper's locks, which takes a second
	my $seconds = $arena->{rounds} > 1 ? 1 : 0.05;

	for ([ 'advisory', {} ], $arena->modes)
	{
		my ($name, $settings) = @$_;
		my $lock = $name eq 'advisory' ?
		  'pg_advisory_xact_lock(1)' : "zk_lock_guard('/bench/turns')";

		local $ENV{PGOPTIONS} = Arena::options($settings);
		my $rate = Transactions::pgbench($arena, $server, CLIENTS,
			"SELECT $lock, pg_sleep($seconds)", '-t', 1);

		$arena->note('next turn', 'ms', 'loopback', CLIENTS, $name, 1,
			(1 / $rate - $seconds) * 1e3);
	}
	$arena->show('next turn', 'loopback', CLIENTS);
	return;
}

1;
