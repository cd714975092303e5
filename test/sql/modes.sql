-- The modes other than exclusive, semaphores, and several locks at once, as
-- far as one session can test them.

CREATE VIEW held AS
SELECT replace(path, '/zklock_regress/modes/', '') AS lock, mode,
       session_holds AS session, transaction_holds AS transaction,
       regexp_replace(node, '^_c_[0-9a-f-]{36}-|[0-9]+$', '', 'g') AS node
FROM zk_locks ORDER BY path COLLATE "C", mode COLLATE "C";

-- Each mode has its own node and token.
SELECT zk_lock_acquire('/zklock_regress/modes/s', mode => 'shared'),
       zk_lock_acquire('/zklock_regress/modes/w', mode => 'write'),
       zk_lock_acquire('/zklock_regress/modes/simple', mode => 'simple'),
       zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2);
SELECT * FROM held;
SELECT zk_lock_token('/zklock_regress/modes/s', 'shared') <
       zk_lock_token('/zklock_regress/modes/w', 'write') AS grows,
       zk_lock_token('/zklock_regress/modes/w', 'write') <
       zk_lock_token('/zklock_regress/modes/simple', 'simple') AS grows;
SELECT zk_lock_token('/zklock_regress/modes/s');

-- Further holds are counted.
BEGIN;
SELECT zk_lock_acquire('/zklock_regress/modes/s', '0', 'shared', 'transaction'),
       zk_lock_acquire('/zklock_regress/modes/simple', '0', 'simple', 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2, '0', 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2, '0');
SELECT zk_lock_guard('/zklock_regress/modes/w', '0', 'write') =
       zk_lock_token('/zklock_regress/modes/w', 'write') AS same;
SELECT * FROM held;
SAVEPOINT a;
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', 2, '0', 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/other', 1, '1 minute', 'transaction');
SELECT * FROM held;
ROLLBACK TO a;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- A release in a mode that is not held
SELECT zk_lock_release('/zklock_regress/modes/s'),
       zk_lock_release('/zklock_regress/modes/w', 'shared'),
       zk_lock_release('/zklock_regress/modes/s', 'simple'),
       zk_semaphore_release('/zklock_regress/modes/s'),
       zk_lock_release('/zklock_regress/modes/semaphore');
BEGIN;
SELECT zk_lock_acquire('/zklock_regress/modes/x', mode => 'write', scope => 'transaction'),
       zk_semaphore_acquire('/zklock_regress/modes/other', 1, scope => 'transaction');
SELECT zk_lock_release('/zklock_regress/modes/x'),
       zk_lock_release('/zklock_regress/modes/x', 'write'),
       zk_lock_release('/zklock_regress/modes/other'),
       zk_semaphore_release('/zklock_regress/modes/other');

-- zk_lock_held() in one mode and any scope
SELECT zk_lock_held('/zklock_regress/modes/x') AS exclusive,
       zk_lock_held('/zklock_regress/modes/x', 'write') AS write,
       zk_lock_held('/zklock_regress/modes/s', 'shared') AS shared,
       zk_lock_held('/zklock_regress/modes/simple', 'simple') AS simple,
       zk_lock_held('/zklock_regress/modes/other') AS semaphore,
       zk_lock_held('/zklock_regress/modes/never') AS never;
COMMIT;
SELECT zk_lock_held('/zklock_regress/modes/x', 'write') AS write,
       zk_lock_held('/zklock_regress/modes/s', 'shared') AS shared;
SELECT zk_lock_release('/zklock_regress/modes/s', 'shared'),
       zk_lock_release('/zklock_regress/modes/w', 'write'),
       zk_lock_release('/zklock_regress/modes/simple', 'simple'),
       zk_semaphore_release('/zklock_regress/modes/semaphore'),
       zk_semaphore_release('/zklock_regress/modes/semaphore'),
       zk_semaphore_release('/zklock_regress/modes/semaphore');
SELECT * FROM held;

-- Downgrade: shared beside the session's own stronger lock, and after that one
-- is released
SELECT zk_lock_acquire('/zklock_regress/modes/a'),
       zk_lock_acquire('/zklock_regress/modes/a', '0', 'shared'),
       zk_lock_acquire('/zklock_regress/modes/b', mode => 'write'),
       zk_lock_acquire('/zklock_regress/modes/b', '0', 'shared');
SELECT * FROM held;
SELECT path, count(DISTINCT right(node, 10)) AS numbers,
       count(DISTINCT token) AS tokens
FROM zk_locks GROUP BY path ORDER BY path;
SELECT zk_lock_release('/zklock_regress/modes/a'),
       zk_lock_release('/zklock_regress/modes/b', 'write');
SELECT * FROM held;

-- An upgrade would wait for the session's own lock.
SELECT zk_lock_acquire('/zklock_regress/modes/a');
SELECT zk_lock_acquire('/zklock_regress/modes/a', '0', 'write');
SELECT zk_lock_acquire_all('{/zklock_regress/modes/0, /zklock_regress/modes/a}');
SELECT * FROM held;
SELECT zk_lock_release_all();
SELECT zk_lock_acquire('/zklock_regress/modes/a', mode => 'write');
SELECT zk_lock_acquire('/zklock_regress/modes/a');
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/modes/a');
\set VERBOSITY default
SELECT zk_lock_release_all();

-- A simple lock and a queue cannot share a path.
SELECT zk_lock_acquire('/zklock_regress/modes/simple', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/modes/simple');
SELECT zk_lock_acquire('/zklock_regress/modes/simple/below', mode => 'simple');
SELECT zk_semaphore_acquire('/zklock_regress/modes/simple', 1);
SELECT zk_lock_acquire('/zklock_regress/modes/simple/far/below');
SELECT zk_semaphore_acquire('/zklock_regress/modes/simple/below', 1);
SELECT zk_shared_count_set('/zklock_regress/modes/simple/below', 1);
SELECT zk_lock_acquire('/zklock_regress/modes/s');
SELECT zk_lock_acquire('/zklock_regress/modes/s', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/modes/s', '0', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/modes/' || repeat('x', 256), mode => 'simple');
SELECT * FROM held;
SELECT zk_lock_release_all();

-- Semaphores
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', 0);
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', -1);
SELECT zk_semaphore_acquire('/zklock_regress/modes/semaphore', NULL);
SELECT zk_semaphore_acquire(NULL, 1);
SELECT zk_semaphore_acquire('semaphore', 1);
SELECT zk_semaphore_release(NULL);
SELECT zk_semaphore_release('semaphore');

-- A semaphore is refused if the backend would wait for its own lock on the
-- mutex.
SELECT zk_lock_acquire('/zklock_regress/modes/in1/locks', mode => 'shared'),
       zk_lock_acquire('/zklock_regress/modes/in2/locks', mode => 'simple'),
       zk_lock_acquire('/zklock_regress/modes/in3/locks2'),
       zk_lock_acquire('/zklock_regress/modes/in3/locks/x'),
       zk_semaphore_acquire('/zklock_regress/modes/in4', 2),
       zk_lock_acquire('/zklock_regress/modes/in4/locks', '0');
SELECT zk_semaphore_acquire('/zklock_regress/modes/in1', 1);
SELECT zk_semaphore_acquire('/zklock_regress/modes/in2', 1, '0');
SELECT zk_semaphore_acquire('/zklock_regress/modes/in3', 1),
       zk_semaphore_acquire('/zklock_regress/modes/in4', 2);
SELECT zk_lock_release_all();

-- A path that names a node of a queue or a lease is refused by every function.
CREATE FUNCTION is_refused(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || what;
    RETURN false;
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN true;
END;
$$;
CREATE TABLE refused (part text);
INSERT INTO refused VALUES
    ('_c_6a0f-lock-0000000000'), ('lock-0'), ('x__READ__7'), ('x__WRIT__-8'),
    ('__lock__9'), ('x__rlock__0000000001'), ('leases'), ('lock-0/x'),
    ('x/lock-0/a/a'), ('leases/x'), ('x/leases/x');
SELECT call, count(*) AS paths, bool_and(is_refused(format(call, part))) AS refused
FROM refused, unnest(ARRAY[
    'zk_lock_acquire(''/zklock_regress/modes/%s'')',
    'zk_lock_acquire(''/zklock_regress/modes/%s'', mode => ''shared'')',
    'zk_lock_acquire(''/zklock_regress/modes/%s'', mode => ''write'')',
    'zk_lock_acquire(''/zklock_regress/modes/%s'', mode => ''simple'')',
    'zk_lock_acquire_all(''{/zklock_regress/modes/%s}'')',
    'zk_lock_guard(''/zklock_regress/modes/%s'')',
    'zk_semaphore_acquire(''/zklock_regress/modes/%s'', 1)',
    'zk_semaphore_acquire_counted(''/zklock_regress/modes/%s'', ''/zklock_regress/c'')',
    'zk_semaphore_acquire_counted(''/zklock_regress/modes/in5'', ''/zklock_regress/modes/%s'')',
    'zk_shared_count_get(''/zklock_regress/modes/%s'')',
    'zk_shared_count_set(''/zklock_regress/modes/%s'', 1)',
    'zk_lock_release(''/zklock_regress/modes/%s'')',
    'zk_semaphore_release(''/zklock_regress/modes/%s'')',
    'zk_lock_held(''/zklock_regress/modes/%s'')',
    'zk_lock_token(''/zklock_regress/modes/%s'')',
    'zk_lock_grant_number(''/zklock_regress/modes/%s'')',
    'zk_lock_fence(''/zklock_regress/modes/%s'')',
    'zk_fence(''/zklock_regress/modes/%s'', 1)',
    'zk_lock_revoke(''/zklock_regress/modes/%s'')']) AS call
GROUP BY call ORDER BY call COLLATE "C";
SELECT zk_lock_acquire('/zklock_regress/modes/a-lock-0000000000');
SELECT zk_lock_acquire('/zklock_regress/modes/leases/a');
SET zklock.path_prefix = '/zklock_regress/leases';

-- Such nodes of other clients can be shown.
SELECT count(*) FROM refused, zk_lock_queue('/zklock_regress/modes/' || part);
DROP TABLE refused;
DROP FUNCTION is_refused;
SELECT zk_lock_acquire('/zklock_regress/modes/' || part)
FROM unnest('{lock-, lock-0x, 0000000000, lease-0000000000, leases2, Leases, locks}'::text[]) AS part;
SELECT zk_lock_release_all();

-- Several locks at once: sorted, each once, all or none
SELECT zk_lock_acquire_all('{/zklock_regress/modes/c, /zklock_regress/modes/a, /zklock_regress/modes/c}');
SELECT * FROM held;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/b, /zklock_regress/modes/a}', '0');
SELECT * FROM held;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/d, /zklock_regress/modes/a}', '0', 'shared');
SELECT * FROM held;
SELECT zk_lock_release_all();
BEGIN;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a, /zklock_regress/modes/b}', scope => 'transaction');
SAVEPOINT a;
SELECT zk_lock_acquire_all('{/zklock_regress/modes/b, /zklock_regress/modes/c}', scope => 'transaction');
SELECT * FROM held;
ROLLBACK TO a;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;
SELECT zk_lock_acquire_all('{}');
SELECT zk_lock_acquire_all(NULL);
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a, NULL}');
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a, a}');
SELECT zk_lock_acquire_all('{/zklock_regress/modes/a}', NULL, NULL);
SELECT zk_lock_acquire_all(array_agg('/zklock_regress/modes/' || i))
FROM generate_series(1, 1001) AS i;
SELECT zk_lock_acquire_all(array_agg('/zklock_regress/modes/many/' || i))
FROM generate_series(1, 1000) AS i;
SELECT count(*) FROM zk_locks;
SELECT zk_lock_release_all();
SELECT * FROM held;

DROP VIEW held;
