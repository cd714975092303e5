/* sql/zklock_advisory--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION zklock_advisory UPDATE" to load this file. \quit

-- These functions take the place of PostgreSQL's functions that show locks, in the same way.
-- The view has the rows of PostgreSQL's view, and those for advisory locks across servers.
-- A parallel worker does not have the session's table of its own locks, which may have no room
-- in shared memory.  What blocks a session is always read from shared memory.

CREATE FUNCTION zk_advisory.pg_lock_status()
RETURNS SETOF pg_catalog.pg_locks
AS 'MODULE_PATHNAME', 'zk_advisory_lock_status'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_blocking_pids(integer)
RETURNS integer[]
AS 'MODULE_PATHNAME', 'zk_advisory_blocking_pids'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE;

-- Views of others may use this one.
CREATE OR REPLACE VIEW zk_advisory.pg_locks AS
SELECT * FROM zk_advisory.pg_lock_status();

DROP FUNCTION zk_advisory.zk_advisory_status();

COMMENT ON FUNCTION zk_advisory.pg_lock_status() IS
    'data for the view zk_advisory.pg_locks';
COMMENT ON FUNCTION zk_advisory.pg_blocking_pids(integer) IS
    'processes that block one that waits for a lock, also across servers';
