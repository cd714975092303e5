# A load changes from zklock.advisory_locks = 'server' to 'both' and then to 'cluster' on two
# servers, as docs/advisory-locks.md says, without a pause. No two sessions of one server are
# ever in the same critical section, nor two of different servers once the last session with
# 'server' has ended. Without 'both', sessions of one server are.
#
# Left out of make test: it takes long.
# Runs once: the servers of this test have both modes.

use strict;
use warnings;

use List::Util qw(max min);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant { CLIENTS => 3, SECTIONS => 1000 };

my $zk = ZkServer->new->start;
my %modes = (a => 'server', b => 'backend');
my @nodes = map {
	new_node($_, $zk->hosts, shared_preload_libraries => 'zklock', autovacuum => 'off',
		'zklock.session_mode' => $modes{$_})
} sort keys %modes;

# A client's program: n sections of one of two keys, each of which notes when it was entered and
# left; before that, until there are sections with another setting on the server. Locks are taken
# in each way.
for my $node (@nodes)
{
	$node->safe_psql('postgres', q(
		CREATE EXTENSION zklock_advisory;
		CREATE UNLOGGED TABLE sections (pid int, setting text, key int, entered timestamptz, left_at timestamptz);
		CREATE PROCEDURE work(n int, beside text DEFAULT NULL) LANGUAGE plpgsql AS $$
			DECLARE
				k int;
				way int := 0;
				entered timestamptz;
			BEGIN
				WHILE n > 0 LOOP
					IF beside IS NULL OR EXISTS (SELECT FROM sections WHERE setting = beside) THEN
						n := n - 1;
					END IF;
					k := 1 + (random() < 0.5)::int;
					way := (way + 1) % 4;
					IF way = 0 THEN
						PERFORM pg_advisory_lock(k);
					ELSIF way = 1 THEN
						PERFORM pg_advisory_xact_lock(k);
					ELSIF way = 2 THEN
						IF NOT pg_try_advisory_lock(k) THEN
							COMMIT;
							CONTINUE;
						END IF;
					ELSE
						IF NOT pg_try_advisory_xact_lock(k) THEN
							COMMIT;
							CONTINUE;
						END IF;
					END IF;
					entered := clock_timestamp();
					PERFORM pg_sleep(0.0005);
					INSERT INTO sections VALUES (pg_backend_pid(), current_setting('zklock.advisory_locks'),
						k, entered, clock_timestamp());
					IF way IN (0, 2) THEN
						PERFORM pg_advisory_unlock(k);
					END IF;
					COMMIT;
				END LOOP;
			END $$));
}

my @admins = map { ZkTest->new($_) } @nodes;
my @clients = map { my $node = $_; map { ZkTest->new($node) } 1 .. CLIENTS } @nodes;
my @first = @clients[ 0, CLIENTS ];

# The clients work until $is_done. Each begins a new session now and then, as those of a pool do.
sub work_until
{
	my ($what, $is_done) = @_;

	wait_until(
		$what,
		sub {
			for my $client (grep { $_->is_done } @clients)
			{
				die $client->result if $client->result =~ m{[A-Z]:  };
				$client->start("\\connect\nCALL work(40)");
			}
			return $is_done->();
		});
	return;
}

# What the sections of a setting are, on each server
sub count
{
	my ($setting) = @_;

	return map { $_->query("SELECT count(*) FROM sections WHERE setting = '$setting'") } @admins;
}

# Changes the setting on one server after the other, while the clients work, and goes on until
# there are enough sections.
sub change
{
	my ($setting, $sections) = @_;

	for my $i (0 .. $#admins)
	{
		my $admin = $admins[$i];

		# One client goes on with the setting of before, beside others with the new one.
		$first[$i]->result;
		$first[$i]->start("\\connect\nCALL work(40, '$setting')");
		work_until('it works', sub {
			$admin->query("SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE state = 'active' AND query LIKE 'CALL work(40, %')") eq 't' || $first[$i]->is_done });
		$admin->query("ALTER DATABASE postgres SET zklock.advisory_locks = '$setting'");
		work_until("there are sections with '$setting'", sub {
			$admin->query("SELECT EXISTS (SELECT FROM sections WHERE setting = '$setting')") eq 't' });
	}
	work_until("there are enough sections with '$setting'", sub {
		my @count = count($setting);
		return (grep { $_ >= $sections / 4 } @count) == @admins && $count[0] + $count[1] >= $sections });
	return;
}

# How many sections with a setting were entered on a server before the last one with another?
sub mixed
{
	my ($new, $old) = @_;

	return map { $_->query("SELECT count(*) FROM sections WHERE setting = '$new' AND entered <
		(SELECT max(left_at) FROM sections WHERE setting = '$old')") } @admins;
}

# Returns how many sections were entered while another session of the same server was in one of
# the same key, how many while one of the other server was, and how many of these since the last
# one with 'server' was left. All times are those of one clock.
sub violations
{
	my (%entered, %left);
	my ($same, $across, $since) = (0, 0, 0);
	my $last = 0;

	$_->result for @clients;
	for my $i (0 .. $#admins)
	{
		for (split(/\n/, $admins[$i]->query(
			'SELECT key, setting, extract(epoch FROM entered), extract(epoch FROM left_at) FROM sections')))
		{
			my ($key, $setting, $entered, $left) = split(/\|/);

			push(@{ $entered{$key} }, [ $entered, $left, $i ]);
			$last = max($last, $left) if $setting eq 'server';
		}
	}
	for my $key (keys %entered)
	{
		my @left = (0, 0);

		for (sort { $a->[0] <=> $b->[0] } @{ $entered{$key} })
		{
			my ($entered, $left, $i) = @$_;

			$same++ if $entered < $left[$i];
			$across++ if $entered < $left[ 1 - $i ];
			$since++ if $entered < $left[ 1 - $i ] && $entered > $last;
			$left[$i] = max($left[$i], $left);
		}
	}
	$_->query('TRUNCATE sections') for @admins;
	return ($same, $across, $since);
}

change('server', SECTIONS);
change($_, SECTIONS) for qw(both cluster);
note("sections with '$_': " . join(', ', count($_))) for qw(server both cluster);
cmp_ok(min(mixed(@$_)), '>', 0, "sessions of each server had '$_->[0]' and '$_->[1]' at once")
  for [qw(both server)], [qw(cluster both)];
my ($same, $across, $since) = violations();
note("sections with another one: $same on one server, $across across servers, $since later");
is($same, 0, 'no two sessions of one server were in the same section at once');
cmp_ok($across, '>', 0, "... with 'server', those of two servers were");
is($since, 0, "... and never once there was no session with 'server'");

# The same load, from 'server' to 'cluster' at once
change('server', 100);
change('cluster', 100);
($same) = violations();
note("without 'both', sections with another one on one server: $same");
cmp_ok($same, '>', 0, "without 'both', sessions of one server were");
$_->close for @clients, @admins;

done_testing();
