# The same from outside: pgbench's transactions a second, each of which takes a lock
# and gives it back at its end.

package Transactions;

use strict;
use warnings;

use Child;
use PgServer;

my @contests = (
	[ 'one lock', 'advisory', 'SELECT pg_advisory_xact_lock(1)' ],
	[ 'one lock', 'zklock', q(SELECT zk_lock_guard('/bench/one')) ],
	[ 'own locks', 'advisory', 'SELECT pg_advisory_xact_lock(:client_id)' ],
	[
		'own locks', 'zklock',
		q(SELECT zk_lock_guard('/bench/many/' || :client_id))
	]);

sub measure
{
	my ($arena) = @_;
	my $server = $arena->server('loopback');

	for my $clients (1, @{ $arena->{crowds} })
	{
		for my $round (1 .. $arena->{rounds})
		{
			for (@contests)
			{
				my ($figure, $name, $sql) = @$_;

				$arena->note("pgbench $figure", 'transactions a second',
					'loopback', $clients, $name, $round,
					pgbench($arena, $server, $clients, $sql));
			}
		}
		$arena->show("pgbench $_", 'loopback', $clients) for 'one lock', 'own locks';
	}
	return;
}

# Starts pgbench with so many clients, to run statements over and over.
sub start
{
	my ($arena, $server, $clients, $sql, @options) = @_;
	my $script = "$arena->{tmp}/pgbench.sql";
	my $log = "$arena->{tmp}/pgbench-" . $server->{port} . '.log';

	open(my $fh, '>', $script) or die "$script: $!\n";
	print $fh "$sql;\n";
	close($fh) or die "$script: $!\n";
	unlink($log);
	return Child->start(
		$log, "$arena->{bindir}/pgbench", '-n', '-c', $clients, '-f', $script,
		@options ? @options : ('-T', int($arena->{seconds} + 0.9)),
		PgServer::conninfo($server->{dir}, $server->{port}));
}

sub pgbench
{
	my ($arena, $server, @what) = @_;
	my $pgbench = start($arena, $server, @what);

	$pgbench->finish($arena->{seconds} + 120);
	$pgbench->output =~ /^tps = ([\d.]+)/m
	  or die "pgbench failed:\n", $pgbench->output;
	return $1;
}

1;
