# Three servers with several backends each want one lock all the time: never two
# have it at once, and it goes from server to server in time. A node that somebody
# deletes by hand costs that much, and no more.
#
# Runs once: of server mode.

use strict;
use warnings;

use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Worker;
use ZkServer;
use ZkTest;

use constant {
	BACKENDS => 8,         # of each server
	SECONDS => 4,
	WINDOW => 0.1,         # s
	SLACK => 0.5,          # s, for a machine that has other things to do
};

my $zk = ZkServer->new->start;
my %conf = ('zklock.session' => 'server', max_connections => 100);
my @nodes = map { new_node($_, $zk->hosts, %conf) } qw(a b c);

for my $node (@nodes)
{
	$node->safe_psql('postgres', q(
		CREATE TABLE used (token bigint, since timestamptz, till timestamptz);
		CREATE PROCEDURE use(path text, seconds float8, section float8)
		LANGUAGE plpgsql AS $$
		DECLARE
			until timestamptz := clock_timestamp() + seconds * interval '1 s';
			t bigint;
			b timestamptz;
			e timestamptz;
		BEGIN
			WHILE clock_timestamp() < until LOOP
				PERFORM zk_lock_acquire(path);
				b := clock_timestamp();
				t := zk_lock_token(path);
				IF section > 0 THEN
					PERFORM pg_sleep(section);
				END IF;
				e := clock_timestamp();
				PERFORM zk_lock_release(path);
				INSERT INTO used VALUES (t, b, e);
				COMMIT;
			END LOOP;
		END $$));
}

# Has them all use the lock, and returns what they did in the order of time: the
# server, token, begin and end of each.
sub start_users
{
	my ($path, $seconds, $section, @homes) = @_;
	my @sessions;

	for my $home (@homes)
	{
		$home->safe_psql('postgres', 'TRUNCATE used');
		push @sessions, map { ZkTest->new($home) } 1 .. BACKENDS;
	}
	$_->start("CALL use('$path', $seconds, $section)") for @sessions;
	return @sessions;
}

sub uses_of
{
	my ($n) = @_;

	return map { [ $n, split(/\|/, $_) ] } split(/\n/,
		$nodes[$n]->safe_psql('postgres',
			q(SELECT token, extract(epoch FROM since), extract(epoch FROM till)
			  FROM used)));
}

for my $handover ('100ms', '0')
{
	for my $node (@nodes)
	{
		$node->append_conf('postgresql.conf',
			"zklock.local_handover = '$handover'");
		$node->reload;
		$node->poll_query_until('postgres',
			"SELECT current_setting('zklock.local_handover') = '$handover'");
	}
	for my $section (0, 0.02)
	{
		my $path = "/turns/$handover$section";
		my @users = start_users($path, SECONDS, $section, @nodes);
		is(join('', map { $_->result } @users), '', "$path: nobody has an error");

		my @uses = sort { $a->[2] <=> $b->[2] } map { uses_of($_) } 0 .. $#nodes;
		my ($overlaps, $disorder, $longest, $turns, $began) = (0, 0, 0, 1, $uses[0][2]);
		for my $i (1 .. $#uses)
		{
			my ($before, $this) = @uses[ $i - 1, $i ];

			$overlaps++ if $this->[2] < $before->[3];
			$disorder++
			  if $this->[1] < $before->[1]
			  || $this->[1] == $before->[1] && ($handover eq '0' || $this->[0] != $before->[0]);
			if ($this->[0] != $before->[0])
			{
				$turns++;
				$began = $this->[2];
			}
			# The last ones are alone.
			$longest = max($longest, $this->[2] - $began)
			  if $this->[3] < $uses[0][2] + 0.8 * SECONDS;
		}
		note(sprintf('%d uses, %d turns, longest %.3f s',
				scalar(@uses), $turns, $longest));
		cmp_ok(scalar(@uses), '>', 50, '... and it is used');
		is($overlaps, 0, '... by one at a time');
		is($disorder, 0, '... in the order of their tokens');
		cmp_ok($longest, '<', ($handover eq '0' ? 0 : WINDOW) + $section + SLACK,
			'... and by each server in its turn');
		cmp_ok($turns, '>=', SECONDS / (2 * (WINDOW + $section)),
			'... as often as can be');
		wait_for_calm($_, $zk, $path) for @nodes;
	}
}

# A node that is deleted by hand while those of one server pass it on

for my $node (@nodes)
{
	$node->append_conf('postgresql.conf', "zklock.local_handover = '1s'");
	$node->reload;
	$node->poll_query_until('postgres',
		"SELECT current_setting('zklock.local_handover') = '1s'");
}
my $next = ZkTest->new($nodes[1]);
my @users = start_users('/turns/robbed', 8, 0.02, $nodes[0]);
wait_until('the lock is in use', sub { $zk->children('/turns/robbed') });
$next->start(q(SELECT zk_lock_acquire('/turns/robbed')));
# The other waits, and the first one's turn has just begun.
my $deleted;
wait_until(
	'a node is deleted, and the other comes in',
	sub {
		my @q = sort { substr($a, -10) <=> substr($b, -10) } $zk->children('/turns/robbed');
		my $seen = @q ? $zk->get("/turns/robbed/$q[0]") : undef;

		return 1 if $next->is_done;
		return 0 if @q < 2 || !$seen || $seen->{data} =~ /pid=${\ $next->pid}\b/;
		$deleted = time();
		$zk->delete("/turns/robbed/$q[0]");
		return 1;
	});
is($next->result, 't', 'the next in line does not know that it was robbed');
my $granted = time();
is($next->query('SELECT pg_sleep(3)'), '', '... and has it for long');
my $released = time();
is($next->query('SELECT zk_lock_release_all()'), 1, '... and gives it back');
is(join('', map { $_->result } @users), '', 'the others go on');
my @uses = uses_of(0);
ok(defined $deleted, 'it was deleted');
is( scalar(
		grep { $_->[2] > $deleted + 1 + 0.02 + SLACK && $_->[3] < $released } @uses),
	0,
	'... those of the first server have done so for the rest of their turn at most');
ok(scalar(grep { $_->[2] > $released } @uses), '... and when it was theirs again');
wait_for_calm($_, $zk, '/turns/robbed') for @nodes;

# Who is in the way is told, be he behind the same node or elsewhere.
{
	my ($holder, $first, $second) = map { ZkTest->new($nodes[0]) } 1 .. 3;
	my $rival = ZkTest->new($nodes[1]);
	my $blockers = sub {
		my ($session, $node) = @_;

		return $node->safe_psql('postgres',
			'SELECT blocking_state, blocking_pid FROM zk_lock_blockers
			 WHERE pid = ' . $session->pid . ' ORDER BY 1, 2');
	};
	my $waits = sub {
		my ($session, $node) = @_;

		wait_until(
			'it waits',
			sub {
				$node->safe_psql('postgres',
					'SELECT count(*) FROM zk_locks
					 WHERE NOT granted AND node IS NOT NULL AND pid = '
					  . $session->pid) eq '1';
			});
	};

	$holder->query(q(SELECT zk_lock_acquire('/blocked')));
	for ([ $first, $nodes[0] ], [ $second, $nodes[0] ], [ $rival, $nodes[1] ])
	{
		$_->[0]->start(q(SELECT zk_lock_acquire('/blocked')));
		$waits->(@$_);
	}
	is($blockers->($first, $nodes[0]), 'holder|' . $holder->pid,
		'who waits for a backend of his server is told of it');
	is($blockers->($second, $nodes[0]),
		'holder|' . $holder->pid . "\nwaiter|" . $first->pid,
		'... and of those who came before');
	is($blockers->($rival, $nodes[1]),
		'holder|' . $holder->pid, '... and who waits for another server');
	$_->close for $holder, $first, $second, $rival;
}

done_testing();
