/* sql/zklock_advisory--1.1--1.2.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION zklock_advisory UPDATE" to load this file. \quit

-- Warn if the library is not preloaded: in a session that has not loaded it, PostgreSQL takes
-- its own locks, with any value of zklock.advisory_locks, and says nothing.
CREATE FUNCTION zk_advisory.warn_if_local()
RETURNS void
AS 'MODULE_PATHNAME', 'zk_advisory_warn_if_local'
LANGUAGE C;

SELECT zk_advisory.warn_if_local();

DROP FUNCTION zk_advisory.warn_if_local();
