/* sql/zklock--1.0--1.2.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION zklock UPDATE" to load this file. \quit

-- pg_dump saves this table, so the owner of the database, who dumps it, has to read it.  It
-- contains no secret: the paths of locks that have guarded changes of this database, with
-- their tokens.  A token is of no use without the privilege to write a fence or to call
-- zk_fence().
GRANT SELECT ON zk_lock_fences TO pg_database_owner;
