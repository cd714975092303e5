-- Holds of session and transaction scope: how they are counted, and when they
-- end.

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

-- end with the transaction, explicit or implicit
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

-- cannot be released before the end
BEGIN;
SELECT take('a', 'transaction');
SELECT release('a');
SELECT zk_lock_release_all();
SELECT * FROM held;
COMMIT;

-- write nothing
BEGIN READ ONLY;
SELECT take('a', 'transaction'), take('b', 'session');
SELECT * FROM held;
COMMIT;
SELECT release('b');

--
-- Session scope
--

-- survive the transaction, committed or not
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

-- A release is not undone by a rollback, either.
BEGIN;
SELECT release('c');
ROLLBACK;
SELECT * FROM held;

-- are counted
SELECT release('b');
SELECT * FROM held;
SELECT release('b');
SELECT release('b');
SELECT * FROM held;
SELECT count(take('a', 'session')) FROM generate_series(1, 5);
SELECT * FROM held;

-- release_all returns the number of holds
SELECT take('b', 'session');
SELECT zk_lock_release_all();
SELECT * FROM held;
SELECT zk_lock_release_all();

-- A release without a hold warns.
SELECT release('a');
SELECT release('never taken');

--
-- Both at once: counted separately, on one node in ZooKeeper
--

BEGIN;
SELECT take('a', 'session');
SELECT node, token FROM zk_locks \gset first_
SELECT take('a', 'transaction'), take('a', 'transaction');
SELECT * FROM held;
SELECT node = :'first_node' AS same_node, token = :first_token AS same_token
FROM zk_locks;

-- release and release_all affect session-level holds only
SELECT release('a');
SELECT * FROM held;
SELECT release('a');
SELECT take('a', 'session'), take('a', 'session');
SELECT zk_lock_release_all();
SELECT * FROM held;

-- a remaining session-level hold outlives the transaction, on the same node
SELECT take('a', 'session');
COMMIT;
SELECT * FROM held;
SELECT node = :'first_node' AS same_node FROM zk_locks;

-- A transaction can join the session-level hold, which is kept.
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

-- ROLLBACK TO releases later holds, except session-level ones
BEGIN;
SELECT take('before', 'transaction');
SAVEPOINT s;
SELECT take('before', 'transaction'), take('since', 'transaction'),
       take('since', 'session'), take('session', 'session');
SELECT * FROM held;
ROLLBACK TO s;
SELECT * FROM held;
-- and again, because the savepoint still exists
SELECT take('before', 'transaction'), take('again', 'transaction');
SELECT * FROM held;
ROLLBACK TO s;
SELECT * FROM held;
COMMIT;
SELECT * FROM held;
SELECT zk_lock_release_all();

-- RELEASE assigns them to the parent
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

-- Only those of the innermost subtransaction are released.
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

-- PL/pgSQL's blocks with EXCEPTION are subtransactions.
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

-- Procedures can end transactions.
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

-- It is refused in a transaction, and has no effect then.
SELECT take('a', 'session');
BEGIN;
DISCARD ALL;
ROLLBACK;
SELECT * FROM held;

--
-- PREPARE TRANSACTION
--

-- A transaction-level hold prevents PREPARE TRANSACTION ...
BEGIN;
SELECT take('a', 'transaction');
PREPARE TRANSACTION 'regress_zklock';
SELECT * FROM held;

\set VERBOSITY sqlstate
BEGIN;
SELECT take('b', 'transaction');
PREPARE TRANSACTION 'regress_zklock';
\set VERBOSITY default

-- ... but a session-level one does not.  (By default, servers cannot prepare
-- transactions.)
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

-- A rolled back hold does not count.
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
-- Fences: a fenced lock is held until the transaction that has written the row
-- ends
--

-- however often it was acquired
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

-- A remaining session-level hold does not belong to the transaction.
BEGIN;
SELECT take('a', 'session');
SELECT zk_lock_fence('/zklock_regress/scopes/a') > 0 AS fenced;
COMMIT;
SELECT * FROM held;
BEGIN;
SELECT release('a');
SELECT * FROM held;
COMMIT;

-- A fence that was rolled back does not keep the lock.
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

-- RELEASE assigns it to the parent
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

-- The outermost fence counts, because it ends last.
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
