# Three servers with writers whose transactions a guard protects, while the leader changes, on
# purpose and by each fault: by the time of their commits, no transaction of a term was later
# than one of the next.
#
# Runs once: the test sets the modes itself.
# Shortened unless ZKLOCK_LONG is set: the number of changes

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkProxy;
use ZkServer;
use ZkTest;

use constant {
	PLANNED => $ENV{ZKLOCK_LONG} ? 200 : 12,
	FAULTS => $ENV{ZKLOCK_LONG} ? 50 : 1,
	WRITERS => 2,
};

my $zk = ZkServer->new(tick_time => 200)->start;
my (%node, %proxy, %writers);
my %modes = (a => 'backend', b => 'server', c => 'server');

for my $name (sort keys %modes)
{
	$proxy{$name} = ZkProxy->new($zk->hosts);
	$node{$name} = new_node(
		$name, $proxy{$name}->hosts,
		shared_preload_libraries => 'zklock',
		restart_after_crash => 'on',
		track_commit_timestamp => 'on',
		'zklock.session_mode' => $modes{$name},
		'zklock.session_timeout' => '2s',
		'zklock.leaders' => '/leaders/history');
	$node{$name}->safe_psql('postgres', q(
		CREATE TABLE history (token bigint);
		CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
			BEGIN
				LOOP
					BEGIN
						INSERT INTO history VALUES (zk_leader_guard('/leaders/history'));
						PERFORM pg_sleep(random() * 0.01);
					EXCEPTION WHEN object_not_in_prerequisite_state THEN
						PERFORM pg_sleep(0.01);
					END;
					COMMIT;
				END LOOP;
			END $$));
}

# Has each writer at work, also if its last call has failed or its server was down.
sub go_on
{
	for my $name (keys %node)
	{
		for my $i (0 .. WRITERS - 1)
		{
			my $writer = $writers{$name}[$i];

			next if $writer && !$writer->is_done;

			# A call only ends with an error, and without one psql has ended.
			if (!$writer || $writer->result !~ /^ERROR:  \w{5}/m || $writer->result =~ /connection/)
			{
				$writer->close if $writer;
				$writers{$name}[$i] = $writer = eval { ZkTest->new($node{$name}) };
				next if !$writer;
			}
			$writer->start('CALL work()');
		}
	}
	return;
}

# Returns the server that leads, once it is another one than $former and its writers have
# committed, after the time $since if that is given.
sub await_leader
{
	my ($former, $since) = @_;

	return wait_until(
		'another server leads',
		sub {
			go_on();
			for my $name (sort keys %node)
			{
				next if $name eq ($former // '');
				my $led = eval { $node{$name}->safe_psql('postgres', sprintf(q(
					SELECT EXISTS (SELECT FROM history AS h JOIN zk_leaders USING (token)
						WHERE pg_xact_commit_timestamp(h.xmin) > to_timestamp(%f))), $since // 0)) };

				return $name if ($led // '') eq 't';
			}
			return;
		});
}

my %faults = (
	'a postmaster that is killed' => sub {
		my ($name) = @_;
		my @pids = split(/\n/, $node{$name}->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity'));

		$node{$name}->kill9;
		wait_until('all its processes have ended', sub { !kill(0, @pids) });
		return sub { $node{$name}->start };
	},
	'a worker that is killed' => sub {
		my ($name) = @_;

		kill('KILL', worker_of($node{$name}));
		return sub { wait_for_server($node{$name}) };
	},
	'a worker that is suspended' => sub {
		my ($name) = @_;
		my $worker = worker_of($node{$name});

		kill('STOP', $worker);
		return sub { kill('CONT', $worker) };
	},
	'a network that is cut' => sub {
		my ($name) = @_;

		$proxy{$name}->hold;
		return sub { $proxy{$name}->release };
	});
my $leader = await_leader();

for (1 .. PLANNED)
{
	$node{$leader}->safe_psql('postgres', q(SELECT zk_leader_resign('/leaders/history')));
	$leader = await_leader($leader);
}
pass(PLANNED . ' changes on purpose');
for my $fault (sort keys %faults)
{
	my @seconds;

	for (1 .. FAULTS)
	{
		my $began = time();
		my $end = $faults{$fault}->($leader);
		my $next = await_leader($leader);

		push @seconds, sprintf('%.1f', time() - $began);
		$end->();
		$leader = $next;
	}
	pass(FAULTS . " changes by $fault");
	note("after @seconds s");
}

# The leader may remain the same one: its session survives the restart.
for (1 .. FAULTS)
{
	$zk->restart;
	$leader = await_leader(undef, time());
}
pass(FAULTS . ' restarts of ZooKeeper');

# The time of the first and of the last commit of each term
my @terms;
for my $name (sort keys %node)
{
	wait_for_server($node{$name});
	push @terms, map { [ $name, split(/\|/) ] } split(/\n/, $node{$name}->safe_psql('postgres', q(
		SELECT token, min(at), max(at), count(*)
		FROM (SELECT token, extract(epoch FROM pg_xact_commit_timestamp(xmin)) AS at FROM history) AS h
		GROUP BY token)));
}
@terms = sort { $a->[1] <=> $b->[1] } @terms;
my @wrong = grep { $terms[ $_ - 1 ][3] > $terms[$_][2] } 1 .. $#terms;
my $gaps = join(' ', map { sprintf('%.2f', $terms[$_][2] - $terms[ $_ - 1 ][3]) } 1 .. $#terms);

cmp_ok(scalar @terms, '>=', PLANNED + FAULTS * keys %faults, 'the terms have commits');
is(join(' ', map { "$terms[$_][0] $terms[$_][1]" } @wrong), '', '... in their order');
note(scalar @terms . " terms; s between their commits: $gaps");
$_->close for grep { $_ } map { @$_ } values %writers;

done_testing();
