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

-- The function warns if its query has a snapshot that is older than the lock, and may
-- read with it.
CREATE TABLE ticket AS SELECT generate_series(1, 3) AS number;
WITH l AS MATERIALIZED (SELECT zk_lock_guard('/zklock_regress/ticket'))
SELECT coalesce((SELECT max(number) FROM ticket), 0) + 1 AS next FROM l;
\set VERBOSITY sqlstate
SELECT zk_lock_guard('/zklock_regress/ticket') > 0 AS guarded, count(*) FROM ticket;
\set VERBOSITY terse
WITH l AS MATERIALIZED (SELECT zk_lock_guard('/zklock_regress/ticket'))
INSERT INTO ticket SELECT (SELECT max(number) FROM ticket) + 1 FROM l;
SELECT zk_lock_guard('/zklock_regress/ticket') > 0 AS guarded, count(*) FROM ticket;
SELECT zk_lock_guard('/zklock_regress/ticket') > 0 AS guarded, (SELECT max(number) FROM ticket);
SELECT number FROM ticket WHERE zk_lock_guard('/zklock_regress/ticket') > 0 LIMIT 1;
SELECT 1 AS one FROM ticket WHERE zk_lock_guard('/zklock_regress/ticket') > 0 LIMIT 1;
SELECT number, zk_lock_guard('/zklock_regress/ticket_' || number) > 0 AS guarded FROM ticket;
SELECT t.number FROM ticket t, zk_lock_guard('/zklock_regress/ticket') LIMIT 1;
UPDATE ticket SET number = number + 1 WHERE zk_lock_guard('/zklock_regress/ticket') > 0;
DELETE FROM ticket WHERE number = 5 AND zk_lock_guard('/zklock_regress/ticket') > 0;
INSERT INTO ticket SELECT max(number) + least(zk_lock_guard('/zklock_regress/ticket'), 1) FROM ticket;
DO $$
BEGIN
    EXECUTE 'EXPLAIN ANALYZE SELECT number FROM ticket WHERE zk_lock_guard(''/zklock_regress/ticket'') > 0';
END;
$$;
BEGIN;
DECLARE numbers CURSOR FOR
SELECT number FROM ticket WHERE zk_lock_guard('/zklock_regress/ticket') > 0 ORDER BY number;
FETCH numbers;
COMMIT;

-- A function that is not VOLATILE reads with the snapshot of the statement that calls it.
CREATE FUNCTION next_ticket() RETURNS bigint STABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM zk_lock_guard('/zklock_regress/ticket');
    RETURN (SELECT max(number) + 1 FROM ticket);
END;
$$;
\set VERBOSITY default
SELECT next_ticket();
\set VERBOSITY terse
ALTER FUNCTION next_ticket() VOLATILE;
SELECT next_ticket();
SELECT next_ticket() FROM ticket;
SELECT count(*) FROM ticket WHERE next_ticket() > 0;

-- There is no warning if nothing is read too early.
SELECT zk_lock_guard('/zklock_regress/ticket') > 0 AS guarded;
SELECT zk_lock_guard('/zklock_regress/ticket') > 0 AS guarded, zk_lock_guard('/zklock_regress/guard') > 0 AS guarded;
SELECT zk_lock_guard('/zklock_regress/ticket') > 0 AS guarded, now() > '2020-01-01' AS later, 'x' AS x;
SELECT token > 0 AS guarded FROM zk_lock_guard('/zklock_regress/ticket') token;
SELECT count(zk_lock_guard('/zklock_regress/' || i)) FROM generate_series(1, 3) i;
VALUES (zk_lock_guard('/zklock_regress/ticket') > 0), (zk_lock_guard('/zklock_regress/guard') > 0);
WITH l AS MATERIALIZED (SELECT zk_lock_guard('/zklock_regress/ticket') AS token)
SELECT token > 0 AS guarded FROM l;
INSERT INTO ticket VALUES (least(zk_lock_guard('/zklock_regress/ticket'), 9));
PREPARE guard(text, text) AS SELECT zk_lock_guard($1, $2::interval) > 0 AS guarded, $1 AS path;
EXECUTE guard('/zklock_regress/ticket', '1s');
SET plan_cache_mode = force_generic_plan;
EXECUTE guard('/zklock_regress/ticket', '1s');
RESET plan_cache_mode;
DEALLOCATE guard;
DO $$
DECLARE
    token bigint;
BEGIN
    PERFORM zk_lock_guard('/zklock_regress/ticket');
    PERFORM zk_lock_guard('/zklock_regress/ticket_' || number) FROM ticket ORDER BY number;
    PERFORM zk_lock_guard('/zklock_regress/ticket_' || max(number)) FROM ticket;
    token := zk_lock_guard('/zklock_regress/ticket');
    SELECT zk_lock_guard('/zklock_regress/ticket') INTO token;
    EXECUTE 'SELECT zk_lock_guard($1)' INTO token USING '/zklock_regress/ticket';
    IF zk_lock_guard('/zklock_regress/ticket') > 0 THEN
        NULL;
    END IF;
    FOR token IN SELECT number FROM ticket LOOP
        PERFORM zk_lock_guard('/zklock_regress/ticket_' || token);
        token := zk_lock_guard('/zklock_regress/ticket_' || token);
    END LOOP;
    BEGIN
        PERFORM zk_lock_guard('/zklock_regress/ticket', '0') / 0 FROM ticket;
    EXCEPTION WHEN division_by_zero THEN
        PERFORM zk_lock_guard('/zklock_regress/ticket');
    END;
END;
$$;
SELECT zk_lock_guard('/zklock_regress/ticket_' || number) > 0 AS guarded
FROM ticket ORDER BY number DESC LIMIT 1 FOR UPDATE;
SELECT zk_lock_guard('/zklock_regress/ticket_' || (SELECT max(number) FROM ticket)) > 0 AS guarded;
CREATE FUNCTION lock_ticket() RETURNS bigint LANGUAGE sql AS
$$SELECT zk_lock_guard('/zklock_regress/ticket')$$;
SELECT lock_ticket() > 0 AS guarded;
DO $$ BEGIN PERFORM lock_ticket(); END $$;
CREATE FUNCTION count_tickets() RETURNS bigint LANGUAGE sql AS
$$SELECT zk_lock_guard('/zklock_regress/ticket'); SELECT count(*) FROM ticket$$;
SELECT count_tickets() FROM ticket LIMIT 1;
CREATE FUNCTION guard_ticket() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM zk_lock_guard('/zklock_regress/ticket_' || NEW.number); RETURN NEW; END$$;
CREATE TRIGGER guard_before BEFORE INSERT ON ticket FOR EACH ROW EXECUTE FUNCTION guard_ticket();
CREATE TRIGGER guard_after AFTER INSERT ON ticket FOR EACH ROW EXECUTE FUNCTION guard_ticket();
INSERT INTO ticket SELECT max(number) + 1 FROM ticket;
\set VERBOSITY default
DROP TABLE ticket;
DROP FUNCTION next_ticket, lock_ticket, count_tickets, guard_ticket;

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
