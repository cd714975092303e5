# The same seen by clients of the server: pgbench's transactions a second, each
# of which acquires a lock and releases it at its end.

package Transactions;

use strict;
use warnings;

use Child;
use List::Util qw(max);
use PgServer;

# Statements that acquire one lock for all clients, and one lock for each
my @advisory = map { "SELECT pg_advisory_xact_lock($_)" } '1', ':client_id';
my @zklock =
  map { "SELECT zk_lock_guard($_)" } q('/bench/one'), q('/bench/many/' || :client_id);

# A new connection takes some time.
use constant { SECONDS => 2, MOST => 32 };

sub measure
{
	my ($arena) = @_;
	my $server = $arena->server('loopback');

	for my $clients (1, max(grep { $_ <= MOST } @{ $arena->{crowds} }))
	{
		for my $round (1 .. $arena->{rounds})
		{
			for (
				[ 'advisory', {}, $server ],
				map({ [ @$_, $server ] } $arena->modes),
				map({ [ @$_, $arena->keeping_server('loopback') ] } $arena->keeping_modes))
			{
				my ($name, $settings, $server) = @$_;
				my ($one, $own) = $name eq 'advisory' ? @advisory : @zklock;

				# No server keeps a lock that others use, too.
				$own =~ s{/many/}{/kept/} if $name eq 'zklock keep';

				local $ENV{PGOPTIONS} = Arena::options($settings);
				for ([ 'one lock', $one ], [ 'own locks', $own ])
				{
					my ($figure, $sql) = @$_;

					$arena->note("pgbench $figure", 'transactions a second',
						'loopback', $clients, $name, $round,
						pgbench($arena, $server, $clients, $sql));
				}
			}
		}
		$arena->show("pgbench $_", 'loopback', $clients) for 'one lock', 'own locks';
	}
	return;
}

# Starts pgbench with $n clients that run statements in a loop.
sub start
{
	my ($arena, $server, $clients, $sql, @options) = @_;
	my ($script, $log) =
	  map { "$arena->{tmp}/pgbench-$server->{port}.$_" } qw(sql log);

	open(my $fh, '>', $script) or die "$script: $!\n";
	print $fh "$sql;\n";
	close($fh) or die "$script: $!\n";
	unlink($log);
	return Child->start(
		$log, "$arena->{bindir}/pgbench", '-n', '-c', $clients, '-f', $script,
		@options ? @options : ('-T', SECONDS),
		PgServer::conninfo($server->{dir}, $server->{port}));
}

sub pgbench
{
	my ($arena, $server, @what) = @_;
	my $pgbench = start($arena, $server, @what);

	$pgbench->finish(SECONDS + 120);
	$pgbench->output =~ /^tps = ([\d.]+)/m
	  or die "pgbench failed:\n", $pgbench->output;
	return $1;
}

1;
