-- The parameters of the functions, and their checks.

-- Only a timeout and a scope may be null.
SELECT zk_lock_acquire(NULL);
SELECT zk_lock_acquire('/zklock_regress/parameters', NULL, NULL);
SELECT zk_lock_acquire('/zklock_regress/parameters', NULL, 'exclusive', NULL);
SELECT session_holds, transaction_holds FROM zk_locks;
SELECT zk_lock_release_all();
SELECT zk_lock_guard(NULL);
SELECT zk_lock_guard('/zklock_regress/parameters', NULL, NULL);
CALL zk_lock_wait(NULL);
CALL zk_lock_wait('/zklock_regress/parameters', NULL, NULL);
CALL zk_lock_wait('/zklock_regress/parameters', NULL, 'shared', NULL);
SELECT mode, session_holds, transaction_holds FROM zk_locks;
SELECT zk_lock_release_all();
SELECT zk_lock_release(NULL);
SELECT zk_lock_release('/zklock_regress/parameters', NULL);
SELECT zk_lock_held(NULL);
SELECT zk_lock_held('/zklock_regress/parameters', NULL);
SELECT zk_lock_token(NULL);
SELECT zk_lock_token('/zklock_regress/parameters', NULL);
\set VERBOSITY sqlstate
SELECT zk_lock_acquire(NULL);
SELECT zk_lock_acquire('/zklock_regress/parameters', NULL, NULL);
\set VERBOSITY default

-- Every function checks the path.
SELECT zk_lock_acquire('product_42');
SELECT zk_lock_guard('product_42');
CALL zk_lock_wait('product_42');
SELECT zk_lock_release('product_42');
SELECT zk_lock_token('product_42');

-- Messages of the check
CREATE FUNCTION verdict(path text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text;
    detail text;
BEGIN
    RETURN CASE WHEN zk_lock_acquire(path) AND zk_lock_release(path)
                THEN 'good' END;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
                            detail = PG_EXCEPTION_DETAIL;
    RETURN state || ': ' || detail;
END;
$$;

SELECT n, path, verdict(path) FROM (VALUES
    (1, ''),
    (2, '/'),
    (3, '//'),
    (4, 'a'),
    (5, ' /a'),
    (6, '/a/'),
    (7, '/a//b'),
    (8, '//a'),
    (9, '/.'),
    (10, '/..'),
    (11, '/a/./b'),
    (12, '/a/../b'),
    (13, '/a/..'),
    (14, '/zookeeper'),
    (15, '/zookeeper/quota')
) AS t (n, path) ORDER BY n;

SELECT n, what, verdict('/zklock_regress/' || path) FROM (VALUES
    (1, 'tab', E'a\tb'),
    (2, 'line feed', E'a\n'),
    (3, '1', E'\001'),
    (4, '31', E'\037'),
    (5, '127', E'\177')
) AS t (n, what, path) ORDER BY n;

-- Other dots, blanks and quotes are ordinary characters.
SELECT n, path, verdict(path) FROM (VALUES
    (1, '/zklock_regress/...'),
    (2, '/zklock_regress/.a'),
    (3, '/zklock_regress/a.'),
    (4, '/zklock_regress/a b'),
    (5, '/zklock_regress/it''s "quoted" \ %s'),
    (6, '/zklock_regress/zookeeper'),
    (7, '/zookeeper_regress'),
    (8, '/zklock_regress/a/b/c/d/e/f/g/h')
) AS t (n, path) ORDER BY n;

SELECT length(path), verdict(path) FROM (VALUES
    ('/zklock_regress/' || repeat('x', 1024 - 16)),
    ('/zklock_regress/' || repeat('x', 1025 - 16))
) AS t (path);

DROP FUNCTION verdict;

-- A free lock is acquired with any timeout.
SELECT t AS timeout,
       zk_lock_acquire('/zklock_regress/parameters', t) AS acquired,
       zk_lock_release('/zklock_regress/parameters') AS released
FROM unnest(ARRAY[NULL, '0', '-1 second', '-1 month', '1 month -31 days',
                  '1 minute', '1 day', '1 month 2 days 3 hours',
                  '100000 years', '-100000 years']::interval[]) AS t;

-- An unknown mode
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/parameters', mode => 'no such mode');
\set VERBOSITY default

-- No lock is left.
SELECT count(*) FROM zk_locks;
