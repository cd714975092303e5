# Many sessions of a server take locks in random order, of ZooKeeper and of
# PostgreSQL: all deadlocks are broken, so that all sessions come to an end.
#
# Left out of make test: it takes long.

use strict;
use warnings;

use List::Util qw(sum);
use PostgreSQL::Test::Utils;
use Test::More;
use ZkServer;
use ZkTest;

use constant {
	SESSIONS => 8,
	ROUNDS => 60
};

my $zk = ZkServer->new->start;
my $node = new_node(
	'main', $zk->hosts,
	shared_preload_libraries => 'zklock',
	deadlock_timeout => '20ms');
my $observer = ZkTest->new($node);

# A round takes three of six locks. The second argument is the number of rounds
# that were ended by a deadlock.
$observer->query(<<'EOSQL');
CREATE PROCEDURE play(kinds int, INOUT victims int) LANGUAGE plpgsql AS $$
DECLARE
	rounds int := current_setting('storm.rounds');
	i int;
BEGIN
	FOR round IN 1 .. rounds LOOP
		BEGIN
			FOR i IN SELECT g FROM generate_series(1, 6) AS g
				ORDER BY random() LIMIT 3
			LOOP
				CASE floor(random() * kinds)
				WHEN 0 THEN
					PERFORM zk_lock_acquire('/storm/' || i,
						scope => 'transaction');
				WHEN 1 THEN
					PERFORM zk_lock_acquire('/storm/' || i,
						mode => 'shared', scope => 'transaction');
				WHEN 2 THEN
					PERFORM zk_lock_acquire_all(ARRAY['/storm/' || i, '/storm/7'],
						scope => 'transaction');
				WHEN 3 THEN
					PERFORM zk_semaphore_acquire('/semaphore/' || i % 2, 2,
						scope => 'transaction');
				ELSE
					PERFORM pg_advisory_xact_lock(i);
				END CASE;
			END LOOP;
		EXCEPTION WHEN deadlock_detected THEN
			victims := victims + 1;
		END;
		COMMIT;
	END LOOP;
END $$
EOSQL

sub storm
{
	my ($what, $kinds) = @_;
	my @sessions = map { ZkTest->new($node, 'storm.rounds' => ROUNDS)->connect } 1 .. SESSIONS;

	$_->start("CALL play($kinds, 0)") for @sessions;
	my @victims = map { $_->result } @sessions;
	is(join("\n", grep { !/^\d+$/ } @victims),
		'', "all sessions that use $what come to an end");
	cmp_ok(sum(@victims), '>', 0, '... after deadlocks');
	note(sum(@victims) . ' deadlocks');
	$_->close for @sessions;
	return;
}

storm('exclusive locks', 1);
storm('exclusive and shared locks', 2);
storm('locks of all kinds, and many at once', 4);
storm('locks of PostgreSQL, too', 5);
wait_until('no lock is left', sub { $observer->query('SELECT count(*) FROM zk_locks') eq '0' });

done_testing();
