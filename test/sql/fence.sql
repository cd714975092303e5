-- zk_lock_fence() and zk_fence(): tokens recorded in the database.  (The
-- isolation tests cover waits, which need two sessions.)

\set VERBOSITY terse

-- The token of a holder is recorded.
BEGIN;
SELECT zk_lock_guard('/zklock_regress/fence') AS token \gset first_
SELECT zk_lock_fence('/zklock_regress/fence') = :first_token AS same;
SELECT zk_lock_fence('/zklock_regress/fence') = :first_token AS again;
SELECT path, token = :first_token AS token, grant_number, shared_token FROM zk_lock_fences;
COMMIT;

-- The token of the next holder is recorded, too, unless the transaction is
-- rolled back.
BEGIN;
SELECT zk_lock_guard('/zklock_regress/fence') AS token \gset second_
SELECT zk_lock_fence('/zklock_regress/fence') = :second_token AS same;
ROLLBACK;
SELECT token = :first_token AS first FROM zk_lock_fences;
BEGIN;
SELECT zk_lock_guard('/zklock_regress/fence') AS token \gset second_
SELECT zk_lock_fence('/zklock_regress/fence') = :second_token AS same;
COMMIT;
SELECT token = :second_token AS second FROM zk_lock_fences;

-- After that, an older token is refused.
SELECT zk_fence('/zklock_regress/fence', :second_token) = :second_token AS same;
\set VERBOSITY sqlstate
SELECT zk_fence('/zklock_regress/fence', :first_token);
\set VERBOSITY default
TRUNCATE zk_lock_fences;
SELECT zk_fence('/zklock_regress/fence', 8);
SELECT zk_fence('/zklock_regress/fence', 7);
SELECT zk_fence('/zklock_regress/fence', 8);
SELECT zk_fence('/zklock_regress/fence', 9);
SELECT path, token, grant_number, shared_token, fenced_at BETWEEN now() - interval '1 minute' AND clock_timestamp() AS fenced_at
FROM zk_lock_fences;

-- Holders that share a node have numbers: the larger pair of token and number
-- is the newer one.
SELECT zk_fence('/zklock_regress/fence', 9, 3);
SELECT zk_fence('/zklock_regress/fence', 9, 3);
SELECT zk_fence('/zklock_regress/fence', 9, 2);
SELECT zk_fence('/zklock_regress/fence', 8, 4);
SELECT zk_fence('/zklock_regress/fence', 9, 5);
SELECT token, grant_number FROM zk_lock_fences;

-- A call without a number can come from any holder of the node, and does not
-- change the recorded number.
SELECT zk_fence('/zklock_regress/fence', 9);
SELECT token, grant_number FROM zk_lock_fences;
SELECT zk_fence('/zklock_regress/fence', 8);
SELECT zk_fence('/zklock_regress/fence', 9, 4);
SELECT zk_fence('/zklock_regress/fence', 9, 6);
SELECT zk_fence('/zklock_regress/fence', 10);
SELECT token, grant_number FROM zk_lock_fences;
SELECT zk_fence('/zklock_regress/fence', 9, 7);
SELECT zk_fence('/zklock_regress/fence', 10, 2);
SELECT zk_fence('/zklock_regress/fence', 11, 0);
SELECT zk_fence('/zklock_regress/fence', 11, 9223372036854775807);
SELECT token, grant_number FROM zk_lock_fences;
UPDATE zk_lock_fences SET token = 9, grant_number = 0;

-- A reader with the same node's token refuses no holder, and a later reader
-- refuses all of them, whatever their numbers.
UPDATE zk_lock_fences SET shared_token = 9;
SELECT zk_fence('/zklock_regress/fence', 9, 1);
UPDATE zk_lock_fences SET grant_number = 0, shared_token = 10;
SELECT zk_fence('/zklock_regress/fence', 9, 1);
UPDATE zk_lock_fences SET shared_token = 0;

-- A reader on another server passes its mode: readers that share a lock are
-- not newer than one another, but newer than any earlier exclusive holder.
SELECT zk_fence('/zklock_regress/fence_shared', 20, 0, 'write');
SELECT zk_fence('/zklock_regress/fence_shared', 22, 0, 'shared');
SELECT zk_fence('/zklock_regress/fence_shared', 21, 0, 'shared');
SELECT zk_fence('/zklock_regress/fence_shared', 19, 0, 'shared');
SELECT token, grant_number, shared_token FROM zk_lock_fences
WHERE path = '/zklock_regress/fence_shared';
SELECT zk_fence('/zklock_regress/fence_shared', 21, 0);
SELECT zk_fence('/zklock_regress/fence_shared', 23, 2);
SELECT zk_fence('/zklock_regress/fence_shared', 22, 0, 'shared');
SELECT zk_fence('/zklock_regress/fence_shared', 23, 2, mode => 'shared');
SELECT zk_fence('/zklock_regress/fence_shared', 23, 1, 'exclusive');
SELECT token, grant_number, shared_token FROM zk_lock_fences
WHERE path = '/zklock_regress/fence_shared';
DELETE FROM zk_lock_fences WHERE path = '/zklock_regress/fence_shared';

-- A fence in a rolled back subtransaction is not recorded.
BEGIN;
SAVEPOINT s;
SELECT zk_fence('/zklock_regress/fence', 10);
ROLLBACK TO s;
SELECT zk_fence('/zklock_regress/fence', 9);
COMMIT;

-- Tokens that are older than the recorded ones, because ZooKeeper was set up
-- anew
SELECT zk_fence('/zklock_regress/fence', 1);
DELETE FROM zk_lock_fences WHERE path = '/zklock_regress/fence';
SELECT zk_fence('/zklock_regress/fence', 1);
DELETE FROM zk_lock_fences;

-- If the held lock looks older, and ZooKeeper confirms that it is held, a
-- retry would not help.
CREATE FUNCTION refusal(mode zk_lock_mode) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    token text = zk_lock_token('/zklock_regress/fence', mode);
    state text;
    message text;
    detail text;
    hint text;
BEGIN
    PERFORM zk_lock_fence('/zklock_regress/fence', mode);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
                            message = MESSAGE_TEXT,
                            detail = PG_EXCEPTION_DETAIL,
                            hint = PG_EXCEPTION_HINT;
    RETURN QUERY VALUES (state), (message), (replace(detail, token, '...')), (hint);
END;
$$;
SELECT zk_fence('/zklock_regress/fence', 9000000000000000000);
SELECT zk_lock_acquire('/zklock_regress/fence');
SELECT refusal('exclusive');
UPDATE zk_lock_fences SET token = zk_lock_token(path), grant_number = 7;
SELECT refusal('exclusive');
UPDATE zk_lock_fences SET token = 9000000000000000000;
SELECT zk_lock_acquire('/zklock_regress/fence', mode => 'shared');
SELECT zk_lock_release('/zklock_regress/fence');
SELECT refusal('shared');
UPDATE zk_lock_fences SET token = 0, grant_number = 0, shared_token = token;
SELECT zk_lock_fence('/zklock_regress/fence', 'shared') > 0 AS shared;
SELECT zk_lock_release_all();
SELECT zk_lock_acquire('/zklock_regress/fence');
SELECT refusal('exclusive');
SELECT zk_lock_release_all();
DELETE FROM zk_lock_fences;
DROP FUNCTION refusal;

-- Fences that were not written for a long time can be deleted.
SELECT zk_fence('/zklock_regress/fence_' || n, 7) FROM generate_series(1, 3) n;
UPDATE zk_lock_fences SET fenced_at = now() - interval '2 days';
SELECT zk_fence('/zklock_regress/fence_2', 8);
UPDATE zk_lock_fences SET fenced_at = now() - interval '2 hours'
WHERE path = '/zklock_regress/fence_3';
SELECT zk_fence_prune('1 day');
SELECT path FROM zk_lock_fences ORDER BY path;
SELECT zk_fence_prune('1 hour');
SELECT zk_fence_prune('1 hour');
SELECT path FROM zk_lock_fences ORDER BY path;
SELECT zk_fence_prune('0');
SELECT zk_fence_prune('-1 second');
SELECT zk_fence_prune(NULL);

-- The trigger is for replication only, even if it is enabled otherwise; a row
-- without a path or a token is no fence.
ALTER TABLE zk_lock_fences DISABLE TRIGGER ALL;
ALTER TABLE zk_lock_fences ENABLE TRIGGER ALL;
SELECT zk_fence('/zklock_regress/fence', 5);
SELECT zk_fence('/zklock_regress/fence', 6, 6);
UPDATE zk_lock_fences SET token = 4, grant_number = 4;
ALTER TABLE zk_lock_fences ENABLE REPLICA TRIGGER zk_fence_merge;
SET session_replication_role = replica;
INSERT INTO zk_lock_fences VALUES ('/zklock_regress/fence', 3, 5, 1), ('/zklock_regress/fence_2', 2, 5, 2), ('/zklock_regress/fence_3', 2, 5, 2), ('/zklock_regress/fence_4', 2, 5, 2), ('/zklock_regress/fence_5', 2, 5, 2);
INSERT INTO zk_lock_fences VALUES ('/zklock_regress/fence_3', 3, 1, 1), ('/zklock_regress/fence_4', 2, 6, 1), ('/zklock_regress/fence_5', 2, 4, 1);
SELECT path, token, grant_number, shared_token FROM zk_lock_fences ORDER BY path;
UPDATE zk_lock_fences SET token = 1, grant_number = 6, shared_token = 3;
UPDATE zk_lock_fences SET token = 2, grant_number = 6 WHERE path = '/zklock_regress/fence_2';
UPDATE zk_lock_fences SET token = 4, grant_number = 1 WHERE path = '/zklock_regress/fence_3';
UPDATE zk_lock_fences SET grant_number = 5 WHERE path = '/zklock_regress/fence_4';
DELETE FROM zk_lock_fences;
\set VERBOSITY sqlstate
INSERT INTO zk_lock_fences VALUES (NULL, 3, 0, 1);
INSERT INTO zk_lock_fences VALUES ('/zklock_regress/fence', NULL, 0, 1);
INSERT INTO zk_lock_fences VALUES ('/zklock_regress/fence', 7, NULL, 1);
\set VERBOSITY default
RESET session_replication_role;
SELECT path, token, grant_number, shared_token FROM zk_lock_fences ORDER BY path;
DELETE FROM zk_lock_fences;

-- Locks of all modes have tokens, and readers are not newer than one another.
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/fence', mode => 'shared');
SELECT zk_lock_token('/zklock_regress/fence', 'shared') AS token \gset reader_
SELECT zk_lock_fence('/zklock_regress/fence', 'shared') = :reader_token AS same;
SELECT token, grant_number, shared_token = :reader_token AS shared FROM zk_lock_fences;
UPDATE zk_lock_fences SET shared_token = :reader_token + 1;
SELECT zk_lock_fence('/zklock_regress/fence', 'shared') = :reader_token AS same;
SELECT shared_token = :reader_token + 1 AS kept FROM zk_lock_fences;
SELECT zk_fence('/zklock_regress/fence', :reader_token);
SELECT zk_fence('/zklock_regress/fence', :reader_token + 2) > 0 AS writer;
SELECT zk_lock_fence('/zklock_regress/fence', 'shared');
SELECT zk_lock_release('/zklock_regress/fence', 'shared');
DELETE FROM zk_lock_fences;
SELECT zk_lock_acquire('/zklock_regress/fence', mode => 'write');
SELECT zk_lock_fence('/zklock_regress/fence', 'write') = zk_lock_token('/zklock_regress/fence', 'write') AS write;
SELECT zk_lock_acquire('/zklock_regress/fence', mode => 'shared');
SELECT zk_lock_release('/zklock_regress/fence', 'write');
SELECT zk_lock_fence('/zklock_regress/fence', 'shared') = zk_lock_token('/zklock_regress/fence', 'shared') AS downgraded;
SELECT zk_lock_grant_number('/zklock_regress/fence', 'shared');
SELECT token = shared_token AS same, grant_number FROM zk_lock_fences;
SELECT zk_lock_acquire('/zklock_regress/fence_simple', mode => 'simple');
SELECT zk_lock_fence('/zklock_regress/fence_simple', 'simple') = zk_lock_token('/zklock_regress/fence_simple', 'simple') AS simple;
SELECT zk_lock_release_all();
DELETE FROM zk_lock_fences;
\set VERBOSITY default

-- Invalid calls
SELECT zk_lock_fence('/zklock_regress/fence');
SELECT zk_lock_fence('/zklock_regress/fence', 'shared');
SELECT zk_lock_grant_number('/zklock_regress/fence');
SELECT zk_fence('/zklock_regress/fence', 0);
SELECT zk_fence('/zklock_regress/fence', 1, -1);
\set VERBOSITY sqlstate
SELECT zk_lock_fence(NULL);
SELECT zk_lock_fence('/zklock_regress/fence', NULL);
SELECT zk_lock_fence('zklock_regress/fence');
SELECT zk_fence(NULL, 1);
SELECT zk_fence('/zklock_regress/fence', NULL);
SELECT zk_fence('/zklock_regress/fence', -1);
SELECT zk_fence('/zklock_regress/fence', 0, 0);
SELECT zk_fence('/zklock_regress/fence', 1, 0, NULL);
SELECT zk_lock_grant_number(NULL);
SELECT zk_lock_grant_number('/zklock_regress/fence', NULL);
SELECT zk_fence('/zklock_regress/fence/', 1);
BEGIN READ ONLY;
SELECT zk_fence('/zklock_regress/fence', 1);
ROLLBACK;
\set VERBOSITY default

-- A role that may lock can fence with the token of that lock, but not with any
-- other token, whatever other objects have the names that the functions use.
CREATE ROLE regress_zklock_fence;
CREATE SCHEMA regress_zklock_fence AUTHORIZATION regress_zklock_fence;
SET ROLE regress_zklock_fence;
CREATE TABLE regress_zklock_fence.zk_lock_fences (path text);
CREATE FUNCTION regress_zklock_fence.le(bigint, bigint) RETURNS boolean
LANGUAGE sql AS 'SELECT 1 / 0 = 1';
CREATE OPERATOR regress_zklock_fence.<=
    (FUNCTION = regress_zklock_fence.le, LEFTARG = bigint, RIGHTARG = bigint);
SET search_path = regress_zklock_fence, pg_catalog, public;
SELECT zk_lock_acquire('/zklock_regress/fence');
SELECT zk_lock_fence('/zklock_regress/fence') = zk_lock_token('/zklock_regress/fence') AS same;
SELECT zk_lock_fence('/zklock_regress/fence') = zk_lock_token('/zklock_regress/fence') AS again;
\set VERBOSITY terse
SELECT zk_fence('/zklock_regress/fence', 1);
SELECT zk_fence('/zklock_regress/fence', 1, 0);
SELECT zk_fence_prune('0');
SELECT * FROM public.zk_lock_fences;
CREATE TRIGGER merge BEFORE INSERT ON zk_lock_fences
    FOR EACH ROW EXECUTE FUNCTION zk_fence_merge();
INSERT INTO zk_lock_fences VALUES ('/zklock_regress/fence');
RESET ROLE;
RESET search_path;
SELECT zk_lock_release('/zklock_regress/fence');
DROP SCHEMA regress_zklock_fence CASCADE;
DROP ROLE regress_zklock_fence;

-- A trigger on the table can release the lock that is being fenced.
CREATE FUNCTION release_fenced() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM public.zk_lock_release_all(); RETURN NEW; END $$;
CREATE TRIGGER release_fenced BEFORE INSERT ON zk_lock_fences
    FOR EACH ROW EXECUTE FUNCTION release_fenced();
SELECT zk_lock_acquire('/zklock_regress/fence_released');
SELECT zk_lock_fence('/zklock_regress/fence_released') > 0 AS fenced;
SELECT zk_fence('/zklock_regress/fence_released', 9223372036854775807);
SELECT zk_lock_acquire('/zklock_regress/fence_released');
SELECT zk_lock_fence('/zklock_regress/fence_released');
DROP FUNCTION release_fenced CASCADE;
DELETE FROM zk_lock_fences WHERE path = '/zklock_regress/fence_released';

-- The table follows the extension to another schema.
CREATE SCHEMA zklock_elsewhere;
ALTER EXTENSION zklock SET SCHEMA zklock_elsewhere;
SELECT zklock_elsewhere.zk_fence('/zklock_regress/fence_moved', 3);
SELECT path FROM zklock_elsewhere.zk_lock_fences ORDER BY path;
ALTER SCHEMA zklock_elsewhere RENAME TO zklock_renamed;
SELECT zklock_renamed.zk_fence('/zklock_regress/fence_moved', 2);
ALTER EXTENSION zklock SET SCHEMA public;
DROP SCHEMA zklock_renamed;
SELECT zk_fence('/zklock_regress/fence_moved', 3);
DELETE FROM zk_lock_fences;
