# Job queues that claim jobs by advisory locks and look at them in pg_locks: GoodJob's and
# Que's loops. The jobs are in a table of one server, which the other one reaches through
# postgres_fdw. With 'cluster', each job is executed once, and no lock is left; with 'server',
# jobs are executed on both servers. One of them has a session of the server, the other one
# sessions of backends.
#
# Left out of make test: it takes long.
# Shortened unless ZKLOCK_LONG is set: 400 jobs, not 2,000.
# Runs once: the test sets the mode itself.
#
# What the statements do and call, and their order, is that of the programs' sources:
#
#	GoodJob 4.19.2, https://github.com/bensheldon/good_job
#		app/models/good_job/job.rb: perform_with_advisory_lock, executable?
#		app/models/concerns/good_job/advisory_lockable.rb: advisory_lock,
#		advisory_unlock_key!, owns_advisory_lock_key?
#	Que 2.4.1, https://github.com/que-rb/que
#		lib/que/poller.rb: poll_jobs, setup
#		lib/que/locker.rb: push_jobs, unlock_jobs
#		lib/que/worker.rb: work_loop; lib/que/utils/introspection.rb: job_stats

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use Sample;
use Test::More;
use ZkServer;
use ZkTest;

use constant {
	JOBS => sample_of(2000, 400),
	WORKERS => 8,    # on each server
};

my $zk = ZkServer->new->start;
my ($a, $b) = map {
	new_node(
		$_->[0], $zk->hosts,
		shared_preload_libraries => 'zklock',
		'zklock.session_mode' => $_->[1])
} [ 'a', 'server' ], [ 'b', 'backend' ];

# Each execution of a job inserts a row.
my $tables = q(
	CREATE TABLE executed (job text, server text);
	CREATE TABLE good_jobs (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), active_job_id uuid,
		priority integer, scheduled_at timestamptz DEFAULT now(), created_at timestamptz DEFAULT clock_timestamp(),
		finished_at timestamptz);
	CREATE INDEX ON good_jobs (priority, created_at) WHERE finished_at IS NULL;
	CREATE TABLE que_jobs (priority smallint NOT NULL DEFAULT 100, run_at timestamptz NOT NULL DEFAULT now(),
		id bigint PRIMARY KEY, job_class text NOT NULL DEFAULT 'Job', error_count integer NOT NULL DEFAULT 0,
		queue text NOT NULL DEFAULT 'default', finished_at timestamptz, expired_at timestamptz,
		job_schema_version integer NOT NULL DEFAULT 2);
	CREATE INDEX ON que_jobs (job_schema_version, queue, priority, run_at, id)
		WHERE finished_at IS NULL AND expired_at IS NULL);
$a->safe_psql('postgres', $tables);
import_tables($b, $a, qw(executed good_jobs que_jobs));
$_->safe_psql('postgres', 'CREATE EXTENSION zklock_advisory') for $a, $b;

# If there is no job to claim, a program polls again later: here soon.
my $later = 'PERFORM pg_sleep(0.05); COMMIT; CONTINUE';

# The row of a job that was executed twice may be changed by the other server meanwhile.
my $changed = 'EXCEPTION WHEN serialization_failure THEN NULL; END';

# GoodJob. A key is the first 64 bits of a hash; pg_locks has their halves.
my $key = q[('x' || substr(md5('good_jobs' || '-' || %s::text), 1, 16))::bit(64)::bigint];
my $of_job = sprintf($key, 'job.active_job_id');
my $of_row = sprintf($key, 'rows.active_job_id');
my $good_job = qq(
CREATE PROCEDURE work(server text) LANGUAGE plpgsql AS \$\$
DECLARE
	job good_jobs;
	finished timestamptz;
BEGIN
	LOOP
		SELECT good_jobs.* INTO job FROM good_jobs WHERE good_jobs.id IN (
			WITH rows AS MATERIALIZED (
				SELECT good_jobs.id, good_jobs.active_job_id FROM good_jobs
				WHERE good_jobs.finished_at IS NULL AND good_jobs.scheduled_at <= clock_timestamp()
				ORDER BY priority ASC NULLS LAST, good_jobs.created_at ASC LIMIT 100)
			SELECT rows.id FROM rows WHERE pg_try_advisory_lock($of_row) LIMIT 1)
		ORDER BY priority ASC NULLS LAST, good_jobs.created_at ASC;
		COMMIT;
		IF job.id IS NULL THEN
			PERFORM FROM good_jobs WHERE finished_at IS NULL LIMIT 1;
			EXIT WHEN NOT FOUND;
			$later;
		END IF;

		-- It is read again, since it may have been finished before it was locked.
		SELECT finished_at INTO finished FROM good_jobs WHERE good_jobs.id = job.id LIMIT 1;
		COMMIT;
		IF finished IS NULL THEN
			INSERT INTO executed VALUES (job.active_job_id, server);
			COMMIT;
			BEGIN
				UPDATE good_jobs SET finished_at = clock_timestamp() WHERE good_jobs.id = job.id;
			$changed;
			COMMIT;
		END IF;

		-- It unlocks until it does not own the lock any more.
		LOOP
			PERFORM 1 AS one FROM pg_locks
			WHERE pg_locks.locktype = 'advisory'
				AND pg_locks.objsubid = 1
				AND pg_locks.classid = substring(($of_job)::bit(64) from 1 for 32)::bit(32)::int
				AND pg_locks.objid = substring(($of_job)::bit(64) from 33 for 32)::bit(32)::int
				AND pg_locks.pid = pg_backend_pid()
			LIMIT 1;
			EXIT WHEN NOT FOUND;
			PERFORM pg_advisory_unlock($of_job) AS unlocked;
			COMMIT;
		END LOOP;
	END LOOP;
END \$\$);

# Que. The number of a job is its key. A function of the session locks one job of the queue
# after the other, until it has as many as it wants.
my $jobs = q(SELECT j FROM que_jobs AS j
	WHERE queue = 'default' AND job_schema_version = 2 AND priority <= pg_temp.que_highest_remaining_priority(%s)
		AND run_at <= now() AND finished_at IS NULL AND expired_at IS NULL %s
	ORDER BY priority, run_at, id LIMIT 1);
my $first = sprintf($jobs, 'wanted', '');
my $next = sprintf($jobs, 'jobs.remaining_priorities',
	'AND (priority, run_at, id) > (jobs.priority, jobs.run_at, jobs.id)');
my $que_setup = q(
CREATE TYPE pg_temp.que_query_result AS (locked boolean, remaining_priorities jsonb);
CREATE FUNCTION pg_temp.lock_and_update_priorities(priorities jsonb, job que_jobs)
RETURNS pg_temp.que_query_result STABLE LANGUAGE sql AS $$
	WITH lock_taken AS (SELECT pg_try_advisory_lock((job).id) AS taken),
	relevant AS (
		SELECT key::smallint AS priority, value::text::integer AS count FROM jsonb_each(priorities)
		WHERE key::smallint >= (job).priority ORDER BY 1 LIMIT 1)
	SELECT (SELECT taken FROM lock_taken),
		CASE WHEN NOT (SELECT taken FROM lock_taken) THEN priorities
			WHEN count = 1 THEN priorities - priority::text
			ELSE jsonb_set(priorities, ARRAY[priority::text], to_jsonb(count - 1)) END
	FROM relevant $$;
CREATE FUNCTION pg_temp.que_highest_remaining_priority(priorities jsonb) RETURNS smallint STABLE LANGUAGE sql AS
	$$ SELECT max(key::smallint) FROM jsonb_each(priorities) $$);
my $que = qq(
CREATE PROCEDURE work(server text) LANGUAGE plpgsql AS \$\$
DECLARE
	wanted jsonb := '{"100": 5}';
	ids bigint[];
	i bigint;
	unlocked boolean;
BEGIN
	LOOP
		WITH RECURSIVE jobs AS (
			SELECT (j).*, l.locked, l.remaining_priorities
			FROM ($first) AS t1
			JOIN LATERAL (SELECT * FROM pg_temp.lock_and_update_priorities(wanted, j)) AS l ON true
			UNION ALL (
				SELECT (j).*, l.locked, l.remaining_priorities
				FROM (
					SELECT remaining_priorities, ($next) AS j
					FROM jobs
					WHERE jobs.id IS NOT NULL AND jobs.remaining_priorities != '{}'::jsonb
					LIMIT 1) AS t1
				JOIN LATERAL (SELECT * FROM pg_temp.lock_and_update_priorities(remaining_priorities, j)) AS l ON true))
		SELECT array_agg(jobs.id) INTO ids FROM jobs WHERE locked;
		COMMIT;
		IF ids IS NULL THEN
			PERFORM FROM que_jobs LIMIT 1;
			EXIT WHEN NOT FOUND;
			$later;
		END IF;
		FOREACH i IN ARRAY ids LOOP
			PERFORM 1 AS one FROM que_jobs WHERE id = i;
			IF FOUND THEN
				COMMIT;
				INSERT INTO executed VALUES (i, server);
				COMMIT;
				BEGIN
					DELETE FROM que_jobs WHERE id = i;
				$changed;
			END IF;
			COMMIT;
		END LOOP;
		SELECT bool_and(pg_advisory_unlock(v.i)) INTO unlocked FROM unnest(ids) v (i);
		COMMIT;
		IF NOT unlocked THEN
			RAISE 'a job was not locked';
		END IF;
	END LOOP;
END \$\$);

my $locks = q(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory');

# Que's look at its jobs: how many are being worked on
my $working = q(
	SELECT count(locks.id) FROM que_jobs
	LEFT JOIN (SELECT (classid::bigint << 32) + objid::bigint AS id FROM pg_locks WHERE locktype = 'advisory') locks
		USING (id)
	WHERE finished_at IS NULL AND expired_at IS NULL);

sub work
{
	my ($program, $set, $insert, $procedure, $setup) = @_;
	my (@workers, @observers);

	$a->safe_psql('postgres', "TRUNCATE executed, good_jobs, que_jobs; $insert; ANALYZE good_jobs, que_jobs");
	for my $node ($a, $b)
	{
		$node->safe_psql('postgres', "DROP PROCEDURE IF EXISTS work(text); SET check_function_bodies = off; $procedure");
		push(@observers, ZkTest->new($node, 'zklock.advisory_locks' => $set));
		push(@workers, map { ZkTest->new($node, 'zklock.advisory_locks' => $set) } 1 .. WORKERS);
	}
	$_->query($setup) for @workers;

	# All begin with a job at the same time.
	my $gate = ZkTest->new($a);
	$gate->query('BEGIN; LOCK TABLE executed');
	$workers[$_]->start(sprintf("CALL work('%s')", $_ < WORKERS ? 'a' : 'b')) for 0 .. $#workers;
	wait_until('all workers have claimed a job', sub {
		$gate->query(q(SELECT count(*) FROM pg_locks WHERE relation = 'executed'::regclass AND NOT granted)) == @workers });
	cmp_ok($_->query($locks), '>=', WORKERS, "$program, '$set': a server shows the locks of its workers") for @observers;
	cmp_ok($_->query($working), '>=', WORKERS, '... and on which jobs they work')
	  for $program eq 'Que' ? @observers : ();
	$gate->query('COMMIT');
	$gate->close;
	is(join('', map { $_->result } @workers), '', '... all workers end, and see no error');
	is($_->query($locks), '0', '... and no lock is left') for @observers;
	my $executed = $a->safe_psql('postgres', q(
		SELECT count(*), count(DISTINCT job), count(DISTINCT server) FROM executed));
	if ($set eq 'cluster')
	{
		is($executed, JOBS . '|' . JOBS . '|2', '... and each job was executed once, on one of the servers');
	}
	else
	{
		like($executed, qr/^\d+\|${\ JOBS}\|2$/, '... and each job was executed');
		cmp_ok((split(/\|/, $executed))[0], '>', JOBS, '... but some on both servers');
	}
	$_->close for @workers, @observers;
	return;
}

for my $set (qw(server cluster))
{
	work('GoodJob', $set, 'INSERT INTO good_jobs (active_job_id) SELECT gen_random_uuid() FROM generate_series(1, '
		  . JOBS . ')', $good_job, 'SELECT');
	work('Que', $set, 'INSERT INTO que_jobs (id) SELECT generate_series(1, ' . JOBS . ')', $que, $que_setup);
}

done_testing();
