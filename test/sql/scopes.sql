-- Holds of session and of transaction scope: how they count and what ends them.

CREATE VIEW held AS
SELECT replace(path, '/zklock_regress/scopes/', '') AS lock,
       session_holds AS session, transaction_holds AS transaction, lost
FROM zk_locks ORDER BY path COLLATE "C";

CREATE FUNCTION take(lock text, scope zk_lock_scope) RETURNS boolean
LANGUAGE sql AS $$
    SELECT zk_lock_acquire('/zklock_regress/scopes/' || lock, '1 minute',
                           scope => scope)
$$;

CREATE FUNCTION release(lock text) RETURNS boolean LANGUAGE sql AS $$
    SELECT zk_lock_release('/zklock_regress/scopes/' || lock)
$$;

--
-- Transaction scope
--

-- ends with the transaction, explicit or not
SELECT take('a', 'transaction');
SELECT * FROM held;

BEGIN;
SELECT take('a', 'transaction'), take('a', 'transaction'),
       take('b', 'transaction');
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

BEGIN;
SELECT take('a', 'transaction');
ROLLBACK;
SELECT * FROM held;

BEGIN;
SELECT take('a', 'transaction');
SELECT 1 / 0;
ROLLBACK;
SELECT * FROM held;

-- cannot be released before
BEGIN;
SELECT take('a', 'transaction');
SELECT release('a');
SELECT zk_lock_release_all();
SELECT * FROM held;
COMMIT;

-- writes nothing
BEGIN READ ONLY;
SELECT take('a', 'transaction'), take('b', 'session');
SELECT * FROM held;
COMMIT;
SELECT release('b');

--
-- Session scope
--

-- survives the transaction, committed or not
BEGIN;
SELECT take('a', 'session');
COMMIT;
BEGIN;
SELECT take('b', 'session'), take('b', 'session');
ROLLBACK;
BEGIN;
SELECT take('c', 'session');
SELECT 1 / 0;
ROLLBACK;
SELECT * FROM held;

-- A release stays as well.
BEGIN;
SELECT release('c');
ROLLBACK;
SELECT * FROM held;

-- counts
SELECT release('b');
SELECT * FROM held;
SELECT release('b');
SELECT release('b');
SELECT * FROM held;
SELECT count(take('a', 'session')) FROM generate_series(1, 5);
SELECT * FROM held;

-- release_all says how many holds there were
SELECT take('b', 'session');
SELECT zk_lock_release_all();
SELECT * FROM held;
SELECT zk_lock_release_all();

-- A release that has nothing to release warns.
SELECT release('a');
SELECT release('never taken');

--
-- Both at once: counted apart, on one node in ZooKeeper
--

BEGIN;
SELECT take('a', 'session');
SELECT node, token FROM zk_locks \gset first_
SELECT take('a', 'transaction'), take('a', 'transaction');
SELECT * FROM held;
SELECT node = :'first_node' AS same_node, token = :first_token AS same_token
FROM zk_locks;

-- release and release_all take from the session's only
SELECT release('a');
SELECT * FROM held;
SELECT release('a');
SELECT take('a', 'session'), take('a', 'session');
SELECT zk_lock_release_all();
SELECT * FROM held;

-- what is left to the session outlives the transaction, on the same node
SELECT take('a', 'session');
COMMIT;
SELECT * FROM held;
SELECT node = :'first_node' AS same_node FROM zk_locks;

-- A transaction may join the session's hold, and leaves it there.
BEGIN;
SELECT take('a', 'transaction');
ROLLBACK;
SELECT * FROM held;
SELECT node = :'first_node' AS same_node FROM zk_locks;
SELECT release('a');

-- The next hold is a new grant.
SELECT take('a', 'session');
SELECT node = :'first_node' AS same_node, token > :first_token AS later
FROM zk_locks;
SELECT release('a');

--
-- Savepoints
--

-- ROLLBACK TO gives back what was taken since, but for session scope
BEGIN;
SELECT take('before', 'transaction');
SAVEPOINT s;
SELECT take('before', 'transaction'), take('since', 'transaction'),
       take('since', 'session'), take('session', 'session');
SELECT * FROM held;
ROLLBACK TO s;
SELECT * FROM held;
-- and again, since the savepoint is still there
SELECT take('before', 'transaction'), take('again', 'transaction');
SELECT * FROM held;
ROLLBACK TO s;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;
SELECT zk_lock_release_all();

-- RELEASE hands it to the parent
BEGIN;
SAVEPOINT s_outer;
SELECT take('outer', 'transaction'), take('both', 'transaction');
SAVEPOINT s_inner;
SELECT take('inner', 'transaction'), take('both', 'transaction');
RELEASE s_inner;
SELECT * FROM held;
ROLLBACK TO s_outer;
SELECT * FROM held;
SAVEPOINT s_inner;
SELECT take('inner', 'transaction');
RELEASE s_outer;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- Only the innermost goes.
BEGIN;
SELECT take('a', 'transaction');
SAVEPOINT one;
SELECT take('a', 'transaction');
SAVEPOINT two;
SELECT take('a', 'transaction');
SAVEPOINT three;
SELECT take('a', 'transaction');
SELECT * FROM held;
RELEASE three;
ROLLBACK TO two;
SELECT * FROM held;
ROLLBACK TO one;
SELECT * FROM held;
ROLLBACK;
SELECT * FROM held;

-- An error rolls back to the savepoint.
BEGIN;
SELECT take('a', 'transaction');
SAVEPOINT s;
SELECT take('b', 'transaction'), take('c', 'session');
SELECT zk_lock_acquire('no path');
ROLLBACK TO s;
SELECT * FROM held;
COMMIT;
SELECT zk_lock_release_all();

-- PL/pgSQL's blocks with EXCEPTION are savepoints.
BEGIN;
DO $$
BEGIN
    PERFORM take('outside', 'transaction');
    BEGIN
        PERFORM take('kept', 'transaction');
    EXCEPTION WHEN division_by_zero THEN
        NULL;
    END;
    BEGIN
        PERFORM take('outside', 'transaction');
        PERFORM take('given back', 'transaction');
        PERFORM take('session', 'session');
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        PERFORM take('in the handler', 'transaction');
    END;
END;
$$;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;
SELECT release('session');

-- Procedures may end transactions.
CREATE PROCEDURE two_transactions() LANGUAGE plpgsql AS $$
BEGIN
    PERFORM take('first', 'transaction');
    PERFORM take('session', 'session');
    COMMIT;
    PERFORM take('second', 'transaction');
    RAISE NOTICE '%', (SELECT string_agg(lock, ', ') FROM held);
    ROLLBACK;
END;
$$;
CALL two_transactions();
SELECT * FROM held;

--
-- DISCARD
--

SELECT take('session', 'session'), take('a', 'session');
SELECT * FROM held;
DISCARD PLANS;
DISCARD TEMP;
DISCARD SEQUENCES;
SELECT * FROM held;
DISCARD ALL;
SELECT * FROM held;
SELECT release('a');

-- It must not be in a transaction, and does nothing then.
SELECT take('a', 'session');
BEGIN;
DISCARD ALL;
ROLLBACK;
SELECT * FROM held;

--
-- PREPARE TRANSACTION
--

-- Transaction scope cannot go on without its backend...
BEGIN;
SELECT take('a', 'transaction');
PREPARE TRANSACTION 'regress_zklock';
SELECT * FROM held;

\set VERBOSITY sqlstate
BEGIN;
SELECT take('b', 'transaction');
PREPARE TRANSACTION 'regress_zklock';
\set VERBOSITY default

-- ... but session scope may stay here.  (Most servers cannot prepare.)
SELECT current_setting('max_prepared_transactions') <> '0' AS can_prepare \gset
BEGIN;
SELECT take('a', 'session');
\if :can_prepare
PREPARE TRANSACTION 'regress_zklock';
COMMIT PREPARED 'regress_zklock';
\else
COMMIT;
\endif
SELECT * FROM held;
SELECT zk_lock_release_all();

-- A hold that was rolled back is none.
BEGIN;
SAVEPOINT s;
SELECT take('a', 'transaction');
ROLLBACK TO s;
\if :can_prepare
PREPARE TRANSACTION 'regress_zklock';
ROLLBACK PREPARED 'regress_zklock';
\else
ROLLBACK;
\endif
SELECT * FROM held;

--
-- Fences: a lock that is fenced stays as long as the row that is written
--

-- however often it was taken
BEGIN;
SELECT take('a', 'session'), take('a', 'session'), take('b', 'session');
SELECT zk_lock_fence('/zklock_regress/scopes/a') > 0 AS fenced;
SELECT * FROM held;
SELECT release('a');
SELECT * FROM held;
SELECT release('a');
SELECT * FROM held;
SELECT take('a', 'session'), take('a', 'transaction');
SELECT zk_lock_release_all();
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- What the session keeps is not the transaction's.
BEGIN;
SELECT take('a', 'session');
SELECT zk_lock_fence('/zklock_regress/scopes/a') > 0 AS fenced;
COMMIT;
SELECT * FROM held;
BEGIN;
SELECT release('a');
SELECT * FROM held;
COMMIT;

-- A fence that is rolled back holds nothing any more.
BEGIN;
SELECT take('a', 'session'), take('b', 'session');
SAVEPOINT s;
SELECT zk_lock_fence('/zklock_regress/scopes/' || lock) > 0 AS fenced FROM held;
SELECT release('a');
SELECT * FROM held;
ROLLBACK TO s;
SELECT * FROM held;
SELECT release('b');
SELECT * FROM held;
COMMIT;

-- RELEASE hands it to the parent.
BEGIN;
SELECT take('a', 'session'), take('b', 'session');
SAVEPOINT s_outer;
SELECT take('a', 'transaction');
SAVEPOINT s_inner;
SELECT zk_lock_fence('/zklock_regress/scopes/' || lock) > 0 AS fenced FROM held;
RELEASE s_inner;
SELECT release('a'), release('b');
SELECT * FROM held;
ROLLBACK TO s_outer;
SELECT * FROM held;
COMMIT;

-- The outermost fence counts, which is the last to go.
BEGIN;
SELECT take('a', 'session');
SELECT zk_lock_fence('/zklock_regress/scopes/a') > 0 AS fenced;
SAVEPOINT s;
SELECT take('a', 'transaction');
SELECT zk_lock_fence('/zklock_regress/scopes/a') > 0 AS fenced;
SELECT release('a');
SELECT * FROM held;
ROLLBACK TO s;
SELECT * FROM held;
ROLLBACK;
SELECT * FROM held;
DELETE FROM zk_lock_fences;

--
-- Many at once
--

BEGIN;
SELECT count(take('many/' || n, 'transaction')) FROM generate_series(1, 100) AS n;
SELECT count(take('many/' || n, 'session')) FROM generate_series(1, 100, 3) AS n;
SELECT count(*), sum(session) AS session, sum(transaction) AS transaction FROM held;
COMMIT;
SELECT count(*), sum(session) AS session, sum(transaction) AS transaction FROM held;
SELECT zk_lock_release_all();
SELECT count(*) FROM held;

DROP PROCEDURE two_transactions;
DROP FUNCTION take, release;
DROP VIEW held;
