/* sql/zklock--1.0--1.2.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION zklock UPDATE" to load this file. \quit

-- pg_dump saves this table, so the owner of the database, who dumps it, has to read it.  It
-- contains no secret: the paths of locks that have guarded changes of this database, with
-- their tokens.  A token is of no use without the privilege to write a fence or to call
-- zk_fence().
GRANT SELECT ON zk_lock_fences TO pg_database_owner;

-- Wait until this server shows what anyone had committed on its primary before the call,
-- or raise 55P03 once "timeout" or zklock.catch_up_timeout has passed.  On a standby, a
-- transaction that has taken a lock calls it before it reads what earlier holders of the
-- lock may have written.  Returns at once on a server that is not in recovery.  It is called
-- with CALL, and waits without a snapshot where zk_lock_wait() does.
-- Raises 55000 if replay is paused, or if the primary does not answer: it needs zklock in
-- shared_preload_libraries, zklock.answer_positions, and a connection to ZooKeeper.  Raises
-- 40001 if replay waits for this transaction, 25001 at REPEATABLE READ and above, and 0A000
-- if this database subscribes to another one.
CREATE PROCEDURE zk_catch_up(timeout interval DEFAULT NULL)
AS 'MODULE_PATHNAME'
LANGUAGE C;

-- The same for queries and functions, which have a snapshot: the next one shows what has
-- been committed.  Returns false once the time has passed.
CREATE FUNCTION zk_caught_up(timeout interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON PROCEDURE zk_catch_up(interval) IS
    'wait until a standby shows what was committed on its primary, or raise an error';
COMMENT ON FUNCTION zk_caught_up(interval) IS
    'wait until a standby shows what was committed on its primary; false if not in time';
