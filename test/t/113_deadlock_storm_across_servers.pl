# Many sessions of two servers take locks in random order. All deadlocks are broken, so
# that all sessions come to an end.
#
# Shortened unless ZKLOCK_LONG is set: the number of rounds

use strict;
use warnings;

use List::Util qw(sum);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant {
	SESSIONS => 20,
	ROUNDS => $ENV{ZKLOCK_LONG} ? 2000 : 20
};

my $zk = ZkServer->new->start;
my @nodes = map {
	new_node($_, $zk->hosts, deadlock_timeout => '50ms',
		shared_preload_libraries => 'zklock')
} 'a', 'b';

# A round takes three of six locks. The results are the number of rounds that were ended by
# a deadlock, and the details of errors that are no cycle.
$_->safe_psql('postgres', <<'EOSQL') for @nodes;
CREATE FUNCTION is_cycle(detail text) RETURNS boolean LANGUAGE sql AS $$
	WITH line AS (
		SELECT i, regexp_match(l, '^(?:The p|P)rocess (.*) waits for .*; blocked by (?:the )?process (.*)\.$') AS m
			FROM regexp_split_to_table(detail, '\n') WITH ORDINALITY AS t (l, i))
	SELECT count(*) > 1 AND bool_and(coalesce(m[2] = next, false))
	FROM (SELECT m, coalesce(lead(m[1]) OVER (ORDER BY i),
			first_value(m[1]) OVER (ORDER BY i)) AS next FROM line) AS pair
$$;

CREATE PROCEDURE play(modes text[], INOUT victims int, INOUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	rounds int := current_setting('storm.rounds');
	i int;
	detail text;
BEGIN
	FOR round IN 1 .. rounds LOOP
		BEGIN
			FOR i IN SELECT g FROM generate_series(1, 6) AS g
				ORDER BY random() LIMIT 3
			LOOP
				PERFORM zk_lock_acquire('/storm/' || i, scope => 'transaction',
					mode => modes[1 + floor(random() * cardinality(modes))]::zk_lock_mode);
			END LOOP;
		EXCEPTION WHEN deadlock_detected THEN
			GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
			victims := victims + 1;
			wrong := wrong || CASE WHEN is_cycle(detail) THEN '' ELSE detail END;
		END;
		COMMIT;
	END LOOP;
END $$
EOSQL

sub storm
{
	my ($modes) = @_;
	my @sessions = map { ZkTest->new($nodes[ $_ % 2 ], 'storm.rounds' => ROUNDS)->connect } 1 .. SESSIONS;

	$_->start("CALL play('{$modes}', 0, '')") for @sessions;
	my @results = map { $_->result } @sessions;
	is(join("\n", grep { !/^\d+\|$/ } @results),
		'', "$modes: all sessions come to an end, and each deadlock is a cycle");
	my $victims = sum(map { /^(\d+)/ } @results);
	cmp_ok($victims, '>', 0, '... after deadlocks');
	note("$victims deadlocks");
	$_->close for @sessions;
	return;
}

storm('exclusive');
storm('exclusive,write,shared');
wait_until('no lock is left',
	sub { !grep { $_->safe_psql('postgres', 'SELECT count(*) FROM zk_locks') } @nodes });
wait_until('no record is left', sub { !$zk->children('/zklock/waits') });

done_testing();
