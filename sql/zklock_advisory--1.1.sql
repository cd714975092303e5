/* sql/zklock_advisory--1.1.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zklock_advisory" to load this file. \quit

-- The schema belongs to the extension.  If there already is one of this name, its owner
-- could replace what is in it, so this is an error.
CREATE SCHEMA zk_advisory;

GRANT USAGE ON SCHEMA zk_advisory TO PUBLIC;

-- These functions take the place of those of PostgreSQL that have the same names and
-- arguments.  With zklock.advisory_locks = 'cluster' or 'both', calls of PostgreSQL's functions
-- become calls of these.  The caller needs the privilege EXECUTE on PostgreSQL's function,
-- too.  What each of them does depends on the function that it replaces (advisory.c).

CREATE FUNCTION zk_advisory.pg_advisory_lock(bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_lock_shared(bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_lock(bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_lock_shared(bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_unlock(bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_unlock_shared(bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_xact_lock(bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_xact_lock_shared(bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_xact_lock(bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_xact_lock_shared(bigint)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_lock(integer, integer)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_lock_shared(integer, integer)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_lock(integer, integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_lock_shared(integer, integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_unlock(integer, integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_unlock_shared(integer, integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_xact_lock(integer, integer)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_xact_lock_shared(integer, integer)
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_xact_lock(integer, integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_try_advisory_xact_lock_shared(integer, integer)
RETURNS boolean
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE FUNCTION zk_advisory.pg_advisory_unlock_all()
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

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

CREATE VIEW zk_advisory.pg_locks AS
SELECT * FROM zk_advisory.pg_lock_status();

GRANT SELECT ON zk_advisory.pg_locks TO PUBLIC;

-- Shown by \d+ and similar commands of psql.
COMMENT ON SCHEMA zk_advisory IS
    'advisory locks across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_lock(bigint) IS
    'obtain exclusive advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_lock_shared(bigint) IS
    'obtain shared advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_lock(bigint) IS
    'obtain exclusive advisory lock across servers if available';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_lock_shared(bigint) IS
    'obtain shared advisory lock across servers if available';
COMMENT ON FUNCTION zk_advisory.pg_advisory_unlock(bigint) IS
    'release exclusive advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_unlock_shared(bigint) IS
    'release shared advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_xact_lock(bigint) IS
    'obtain exclusive advisory lock across servers, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_advisory_xact_lock_shared(bigint) IS
    'obtain shared advisory lock across servers, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_xact_lock(bigint) IS
    'obtain exclusive advisory lock across servers if available, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_xact_lock_shared(bigint) IS
    'obtain shared advisory lock across servers if available, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_advisory_lock(integer, integer) IS
    'obtain exclusive advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_lock_shared(integer, integer) IS
    'obtain shared advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_lock(integer, integer) IS
    'obtain exclusive advisory lock across servers if available';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_lock_shared(integer, integer) IS
    'obtain shared advisory lock across servers if available';
COMMENT ON FUNCTION zk_advisory.pg_advisory_unlock(integer, integer) IS
    'release exclusive advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_unlock_shared(integer, integer) IS
    'release shared advisory lock across servers';
COMMENT ON FUNCTION zk_advisory.pg_advisory_xact_lock(integer, integer) IS
    'obtain exclusive advisory lock across servers, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_advisory_xact_lock_shared(integer, integer) IS
    'obtain shared advisory lock across servers, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_xact_lock(integer, integer) IS
    'obtain exclusive advisory lock across servers if available, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_try_advisory_xact_lock_shared(integer, integer) IS
    'obtain shared advisory lock across servers if available, until the end of the transaction';
COMMENT ON FUNCTION zk_advisory.pg_advisory_unlock_all() IS
    'release all advisory locks of the session, across servers';
COMMENT ON FUNCTION zk_advisory.pg_lock_status() IS
    'data for the view zk_advisory.pg_locks';
COMMENT ON FUNCTION zk_advisory.pg_blocking_pids(integer) IS
    'processes that block one that waits for a lock, also across servers';
COMMENT ON VIEW zk_advisory.pg_locks IS
    'locks of this server, and advisory locks across servers';
