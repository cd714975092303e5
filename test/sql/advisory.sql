-- The same calls for PostgreSQL's advisory locks and for zklock, side by side:
-- both columns must agree, and each warning comes twice.

CREATE FUNCTION take(key integer, shared boolean, scope zk_lock_scope,
                     OUT core boolean, OUT ours boolean)
LANGUAGE plpgsql AS $$
BEGIN
    core := CASE
        WHEN scope = 'session' AND shared THEN pg_try_advisory_lock_shared(key)
        WHEN scope = 'session' THEN pg_try_advisory_lock(key)
        WHEN shared THEN pg_try_advisory_xact_lock_shared(key)
        ELSE pg_try_advisory_xact_lock(key)
    END;
    ours := zk_lock_acquire('/zklock_regress/advisory/' || key, '1 minute',
                            CASE WHEN shared THEN 'shared' ELSE 'exclusive' END::zk_lock_mode,
                            scope);
END
$$;

CREATE FUNCTION release(key integer, shared boolean,
                        OUT core boolean, OUT ours boolean)
LANGUAGE plpgsql AS $$
BEGIN
    core := CASE WHEN shared THEN pg_advisory_unlock_shared(key)
                 ELSE pg_advisory_unlock(key) END;
    ours := zk_lock_release('/zklock_regress/advisory/' || key,
                            CASE WHEN shared THEN 'shared' ELSE 'exclusive' END::zk_lock_mode);
END
$$;

CREATE VIEW held AS
SELECT coalesce(core.key, ours.key) AS key, core.mode AS core, ours.mode AS ours
FROM (SELECT objid::integer AS key,
             CASE mode WHEN 'ShareLock' THEN 'shared' ELSE 'exclusive' END AS mode
      FROM pg_locks
      WHERE locktype = 'advisory' AND pid = pg_backend_pid()
        AND database = (SELECT oid FROM pg_database
                        WHERE datname = current_database())) AS core
FULL JOIN (SELECT substring(path FROM '\d+$')::integer AS key, mode
           FROM zk_locks) AS ours USING (key, mode)
ORDER BY 1, 2, 3;

-- Transaction-level holds cannot be released before the end.
BEGIN;
SELECT k, core, ours FROM generate_series(1, 4) AS k, take(k, k % 2 = 0, 'transaction');
SELECT * FROM held;
SELECT pg_advisory_unlock_all(), zk_lock_release_all();
SELECT * FROM held;
SELECT k, core, ours FROM generate_series(1, 4) AS k, release(k, k % 2 = 0);
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- Holds of both scopes on the same keys: the transaction-level ones end with
-- the transaction.
BEGIN;
SELECT k, core, ours FROM generate_series(1, 4) AS k, take(k, k % 2 = 0, 'transaction');
SELECT k, core, ours FROM generate_series(1, 4) AS k, take(k, k % 2 = 0, 'session');
SELECT * FROM held;
ROLLBACK;
SELECT * FROM held;
SELECT k, core, ours FROM generate_series(1, 4) AS k, release(k, k % 2 = 0);
SELECT * FROM held;

-- Transaction-level holds are not affected by a release within the
-- transaction.
BEGIN;
SELECT k, core, ours FROM generate_series(1, 4) AS k, take(k, k % 2 = 0, 'session');
SELECT k, core, ours FROM generate_series(1, 4) AS k, take(k, k % 2 = 0, 'transaction');
SELECT k, core, ours FROM generate_series(1, 4) AS k, release(k, k % 2 = 0);
SELECT * FROM held;
ROLLBACK;
SELECT * FROM held;

-- Several transaction-level holds are one lock.
BEGIN;
SELECT k, n, core, ours
FROM generate_series(1, 4) AS k, generate_series(1, 2) AS n,
     take(k, k % 2 = 0, 'transaction');
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- Session-level holds must be released as often as they were acquired.
SELECT k, n, core, ours
FROM generate_series(1, 4) AS k, generate_series(1, 2) AS n,
     take(k, k % 2 = 0, 'session');
SELECT * FROM held;
SELECT n, k, core, ours
FROM generate_series(1, 3) AS n, generate_series(1, 4) AS k,
     release(k, k % 2 = 0);
SELECT * FROM held;

-- Release of all locks
SELECT k, n, core, ours
FROM generate_series(1, 4) AS k, generate_series(1, 2) AS n,
     take(k, k % 2 = 0, 'session');
SELECT pg_advisory_unlock_all(), zk_lock_release_all() AS released;
SELECT * FROM held;

-- Both modes on one key: shared beside the session's own exclusive lock
SELECT * FROM take(1, false, 'session');
SELECT * FROM take(1, true, 'session');
SELECT * FROM held;
SELECT * FROM release(1, false);
SELECT * FROM held;
SELECT * FROM release(1, true);
SELECT * FROM held;

-- Savepoints
BEGIN;
SELECT * FROM take(1, false, 'transaction');
SAVEPOINT a;
SELECT * FROM take(1, false, 'transaction');
SELECT * FROM take(2, false, 'transaction');
SAVEPOINT b;
SELECT * FROM take(3, false, 'transaction');
RELEASE SAVEPOINT b;
SELECT * FROM held;
ROLLBACK TO a;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

DROP VIEW held;
DROP FUNCTION take, release;
