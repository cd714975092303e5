-- zk_lock_guard() and fencing tokens.  (The isolation tests cover a lock that
-- another session holds.)

-- The function returns the token of the hold.
BEGIN;
SELECT zk_lock_guard('/zklock_regress/guard') AS token \gset first_
SELECT zk_lock_token('/zklock_regress/guard') = :first_token AS same,
       :first_token > 0 AS positive;
SELECT path, session_holds, transaction_holds, token = :first_token AS same
FROM zk_locks;

-- A second call returns the token of the same grant.
SELECT zk_lock_guard('/zklock_regress/guard', '1 second') = :first_token AS same;
SELECT zk_lock_guard('/zklock_regress/guard', '0') = :first_token AS same;
SELECT zk_lock_guard('/zklock_regress/guard', timeout => NULL,
                     mode => 'exclusive') = :first_token AS same;
SELECT transaction_holds FROM zk_locks;
COMMIT;

-- The hold ends with the transaction.
SELECT count(*) FROM zk_locks;
SELECT zk_lock_token('/zklock_regress/guard');
\set VERBOSITY sqlstate
SELECT zk_lock_token('/zklock_regress/guard');
\set VERBOSITY default

-- Tokens grow from grant to grant, also after a rollback.
BEGIN;
SELECT zk_lock_guard('/zklock_regress/guard') AS token \gset second_
SELECT :second_token > :first_token AS later;
ROLLBACK;
BEGIN;
SELECT zk_lock_guard('/zklock_regress/guard') AS token \gset third_
SELECT :third_token > :second_token AS later;
COMMIT;

-- Tokens grow across locks, too, and a session-level hold keeps its own.
SELECT zk_lock_acquire('/zklock_regress/guard_session');
SELECT zk_lock_token('/zklock_regress/guard_session') AS token \gset session_
BEGIN;
SELECT zk_lock_guard('/zklock_regress/guard') > :session_token AS later;
SELECT zk_lock_guard('/zklock_regress/guard_session') = :session_token AS same;
ROLLBACK;
SELECT zk_lock_token('/zklock_regress/guard_session') = :session_token AS same;
SELECT zk_lock_release('/zklock_regress/guard_session');
SELECT zk_lock_token('/zklock_regress/guard_session');

-- A snapshot that is older than the lock would not show the changes of the
-- last holder.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT zk_lock_guard('/zklock_regress/guard');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT zk_lock_guard('/zklock_regress/guard');
ROLLBACK;
\set VERBOSITY sqlstate
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT zk_lock_guard('/zklock_regress/guard');
ROLLBACK;
CALL zk_lock_wait('/zklock_regress/guard');
BEGIN ISOLATION LEVEL SERIALIZABLE;
CALL zk_lock_wait('/zklock_regress/guard');
ROLLBACK;
\set VERBOSITY default
BEGIN ISOLATION LEVEL REPEATABLE READ;
CALL zk_lock_wait('/zklock_regress/guard', scope => 'session');
ROLLBACK;
SELECT zk_lock_release_all();
SELECT count(*) FROM zk_locks;

-- Other isolation levels are accepted, and zk_lock_acquire() does not check
-- the level.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT zk_lock_guard('/zklock_regress/guard') > 0 AS guarded;
COMMIT;
BEGIN ISOLATION LEVEL READ UNCOMMITTED;
SELECT zk_lock_guard('/zklock_regress/guard') > 0 AS guarded;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT zk_lock_acquire('/zklock_regress/guard', scope => 'transaction');
SELECT zk_lock_token('/zklock_regress/guard') > 0 AS token;
COMMIT;

-- The purpose of the function
CREATE TABLE product (id int PRIMARY KEY, stock int NOT NULL);
INSERT INTO product VALUES (1, 2);
CREATE FUNCTION reduce_stock(product_id int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    available int;
BEGIN
    PERFORM zk_lock_guard('/zklock_regress/product_' || product_id, '1 minute');
    SELECT stock INTO available FROM product WHERE id = product_id;
    IF available < 1 THEN
        RETURN false;
    END IF;
    UPDATE product SET stock = available - 1 WHERE id = product_id;
    RETURN true;
END;
$$;
SELECT reduce_stock(1) FROM generate_series(1, 3);
SELECT stock FROM product;
SELECT count(*) FROM zk_locks;
DROP FUNCTION reduce_stock;
DROP TABLE product;

-- In a parallel worker the lock would not be held, even if a function is
-- marked parallel safe.
CREATE FUNCTION in_worker(query text) RETURNS text LANGUAGE plpgsql PARALLEL SAFE COST 10000 AS $$
DECLARE
    result text;
BEGIN
    EXECUTE query INTO result;
    RETURN result;
END;
$$;
CREATE TABLE worker WITH (parallel_workers = 2) AS SELECT generate_series(1, 2);
SELECT zk_lock_acquire('/zklock_regress/worker');
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET parallel_leader_participation = off;
\set VERBOSITY terse
SELECT in_worker($$SELECT zk_lock_guard('/zklock_regress/guard')$$) FROM worker;
SELECT in_worker($$CALL zk_lock_wait('/zklock_regress/guard')$$) FROM worker;
SELECT in_worker($$SELECT zk_lock_acquire('/zklock_regress/guard')$$) FROM worker;
SELECT in_worker($$SELECT zk_lock_acquire_all('{/zklock_regress/guard}')$$) FROM worker;
SELECT in_worker($$SELECT zk_semaphore_acquire('/zklock_regress/guard', 1)$$) FROM worker;
SELECT in_worker($$SELECT zk_lock_release('/zklock_regress/worker')$$) FROM worker;
SELECT in_worker($$SELECT zk_lock_release_all()$$) FROM worker;
SELECT in_worker($$SELECT zk_lock_token('/zklock_regress/worker')$$) FROM worker;
SELECT in_worker($$SELECT mode FROM zk_lock_queue('/zklock_regress/worker')$$) FROM worker;
SELECT in_worker($$SELECT state FROM zk_session()$$) FROM worker;
\set VERBOSITY default
SELECT in_worker($$SELECT zk_lock_guard('/zklock_regress/guard')$$) FROM worker;
-- The leader can acquire a lock again that it holds.
SELECT zk_lock_guard('/zklock_regress/guard') > 0 AS guarded FROM worker;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET parallel_leader_participation;
SELECT zk_lock_release_all();
DROP FUNCTION in_worker;
DROP TABLE worker;
