/* sql/zklock--1.0--1.2.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION zklock UPDATE" to load this file. \quit

-- pg_dump saves this table, so the owner of the database, who dumps it, has to read it.  It
-- contains no secret: the paths of locks that have guarded changes of this database, with
-- their tokens.  A token is of no use without the privilege to write a fence or to call
-- zk_fence().
GRANT SELECT ON zk_lock_fences TO pg_database_owner;

-- Wait until this server shows what anyone had committed before the call where its data comes
-- from, or raise 55P03 once "timeout" or zklock.catch_up_timeout has passed: on the primary of a
-- standby; on the publishers of this database's subscriptions, and on the sources that were added
-- (zk_source_add).  A transaction that has taken a
-- lock calls it before it reads what earlier holders of the lock may have written elsewhere.
-- Other servers return at once.  It is called with CALL, and waits without a snapshot where
-- zk_lock_wait() does.
-- Raises 25001 at REPEATABLE READ and above.
-- On a standby: 55000 if replay is paused, or if the primary does not answer: it needs zklock in
-- shared_preload_libraries, zklock.answer_positions, and a connection to ZooKeeper; 08001 if
-- this server has none; 40001 if replay waits for this transaction; 0A000 if the primary
-- subscribes in this database, or has sources that were added.
-- On a subscriber, which needs zklock in shared_preload_libraries: 55000 if a subscription is
-- disabled, has no worker or a table that is not synchronized, if a publisher refuses, or if the
-- query of a source that was added returns no position; 40P01 if a worker waits for this
-- transaction; 53000 if there is no process to ask; 08001 if there is no connection to a publisher
-- or source.
-- "visited" is for servers that ask each other (42501 without REPLICATION): the databases that
-- wait for this one.
CREATE PROCEDURE zk_catch_up(timeout interval DEFAULT NULL, visited text[] DEFAULT NULL)
AS 'MODULE_PATHNAME'
LANGUAGE C;

-- The same for queries and functions, which have a snapshot: the next one shows what has
-- been committed.  Returns false once the time has passed.
CREATE FUNCTION zk_caught_up(timeout interval DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

COMMENT ON PROCEDURE zk_catch_up(interval, text[]) IS
    'wait until this server shows what was committed where its data comes from, or raise an error';
COMMENT ON FUNCTION zk_caught_up(interval) IS
    'wait until this server shows what was committed where its data comes from; false if not in time';

-- As before, but the holders on this server are joined with all rows of zk_locks at once, and
-- no more compared with each of them for each node ahead.
CREATE OR REPLACE VIEW zk_lock_blockers AS
(SELECT w.pid, w.path, w.mode, w.waitstart, q.state AS blocking_state,
        q.mode AS blocking_mode, q.node AS blocking_node,
        q.host AS blocking_host, q.port AS blocking_port,
        coalesce(h.pid, q.pid) AS blocking_pid,
        CASE WHEN h.pid IS NULL THEN q.datname ELSE h.datname::text END AS blocking_datname,
        CASE WHEN h.pid IS NULL THEN q.usename ELSE h.usename::text END AS blocking_usename,
        CASE WHEN h.pid IS NULL THEN q.application_name ELSE h.application_name END
            AS blocking_application_name,
        q.data AS blocking_data
 FROM zk_locks AS w CROSS JOIN LATERAL (
        SELECT a.*,
               pg_catalog.max(a.mode) FILTER (WHERE a.node = w.node) OVER () AS waits_as,
               pg_catalog.max(a.position) FILTER (WHERE a.node = w.node) OVER () AS place
        FROM zk_lock_queue(w.path) WITH ORDINALITY AS a) AS q
      LEFT JOIN (
        SELECT b.path, b.node, b.pid, a.datname, a.usename, a.application_name
        FROM zk_locks AS b LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
        WHERE b.granted) AS h ON h.path = w.path AND h.node = q.node
 WHERE NOT w.granted AND
       CASE q.waits_as
           WHEN 'simple' THEN true        -- the only node, that of the holder
           WHEN 'semaphore' THEN q.mode = 'semaphore' AND q.state = 'holder'
           WHEN 'mutex' THEN q.mode = 'mutex' AND q.position < q.place
           WHEN 'shared' THEN q.mode <> 'shared' AND q.position < q.place
           ELSE q.position < q.place
       END
 ORDER BY w.waitstart, w.pid, q.ordinality, h.pid)
UNION ALL
SELECT w.pid, w.path, w.mode, w.waitstart,
       CASE WHEN b.granted THEN 'holder' ELSE 'waiter' END, b.mode, b.node,
       NULL, pg_catalog.current_setting('port')::integer, b.pid,
       a.datname::text, a.usename::text, a.application_name, NULL
FROM zk_locks AS w
     JOIN zk_locks AS b ON b.path = w.path AND b.mode = w.mode AND b.node = w.node
     LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
WHERE NOT w.granted AND w.mode IN ('exclusive', 'write') AND b.pid <> w.pid AND
      (b.granted OR b.waitstart < w.waitstart);

CREATE FUNCTION zk_source_status(
    OUT kind text,
    OUT name text,
    OUT state text,
    OUT "position" pg_lsn,
    OUT bytes_behind bigint,
    OUT asked timestamptz,
    OUT reached timestamptz,
    OUT catch_ups bigint,
    OUT failures bigint,
    OUT wait_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Where the data of this server comes from, as far as zk_catch_up() waits for that: on a
-- standby, its primary; otherwise, the subscriptions of this database, and the sources that were
-- added to it.  Reads only the memory of this server: the last answers, not what the source has
-- written since.
--
--   kind          'primary', 'subscription', or 'added' (see zk_source_add)
--   name          'primary', or that of the subscription or of the source
--   state         'unknown' until an answer is needed, 'asked' until there is one, 'answers',
--                 'silent' (nobody answers, or ZooKeeper cannot be reached), 'forgotten'
--                 (see zk_source_forget), or 'paused' (replay is).
--                 Of a subscription: 'applies', 'copies' (a table is not synchronized),
--                 'stopped' (it has no apply worker), 'disabled'
--                 Of one that was added: 'unknown' before its first answer, 'reached' if its
--                 last position is shown, 'behind'
--   position      of the source, in its last answer
--   bytes_behind  how far this server is from showing that; of one that was added, when that was
--                 last looked at
--   asked         when the last wait began
--   reached       when the last successful wait ended
--   catch_ups     successful waits since the server was started or the counters were reset
--   failures      waits that ended otherwise: not in time, with an error, or cancelled
--   wait_time     the sum of all these waits, in milliseconds
--
-- From "position" on, all are null if the library is not in shared_preload_libraries.
CREATE VIEW zk_sources AS
SELECT kind, name, state, "position", bytes_behind, asked, reached, catch_ups, failures,
       wait_time
FROM zk_source_status();

GRANT SELECT ON zk_sources TO PUBLIC;

-- Have zk_catch_up() wait also for a source whose data comes to this database otherwise than by a
-- subscription.  "conninfo" is how to connect to it; it is asked for a position like a
-- publisher.  "query" returns, as pg_lsn, the position of the source up to which this database
-- shows everything; null, no row or an error of it is an error 55000 of zk_catch_up().  It is run
-- with the rights of "role", and only pg_catalog in its search path.  With "origin" 'none', what
-- the source has from others does not come here, so that it need not catch up itself.
-- The source is a foreign server "name", truncated as in statements, of the wrapper zk_source,
-- and "conninfo" an option of the user mapping of the superuser who calls this, which other roles
-- do not see, except for members of pg_read_all_data.  Better, it has no password, but names a service, or the password
-- is in the file of libpq of this server's user.
-- Raises 42501 unless the user is a superuser, 25006 in recovery, 42710 if there is a foreign
-- server of this name, 42601 if "conninfo" is malformed, 42704 if there is no such role, 42804 if
-- the query returns another type, and what the query raises.
CREATE FOREIGN DATA WRAPPER zk_source;

CREATE FUNCTION zk_source_add(
    name text,
    conninfo text,
    query text,
    role text,
    origin text DEFAULT 'any')
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION zk_source_add(text, text, text, text, text) FROM PUBLIC;

COMMENT ON FOREIGN DATA WRAPPER zk_source IS
    'for the sources that zk_source_add() adds';
COMMENT ON FUNCTION zk_source_add(text, text, text, text, text) IS
    'wait for a source of data that does not come by a subscription, too';

-- Have zk_catch_up() wait no longer for the primary of this standby, which does not come back:
-- what it has committed and no standby has received is lost.  The caller promises that it does
-- not write any more, or not before it answers.  This is for all standbys of it, and ends when
-- it answers again, or another server that was promoted.  Raises
-- 55006 if it answers, and 42704 unless this server is a standby and "name" is 'primary'.
-- Or wait no longer for a source that was added: its foreign server is dropped (42501 unless the
-- user is a superuser).
CREATE FUNCTION zk_source_forget(name text)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;

REVOKE EXECUTE ON FUNCTION zk_source_forget(text) FROM PUBLIC;

COMMENT ON FUNCTION zk_source_forget(text) IS
    'wait no longer for a source that does not come back';
COMMENT ON FUNCTION zk_source_status() IS
    'data for the view zk_sources';
COMMENT ON VIEW zk_sources IS
    'where the data of this server comes from, and waits for it';

-- Does this server lead at a path of zklock.leaders?  It does while its worker has the lock at this
-- path.  Reads only the memory of this server, so it can be a condition of a query, and may be
-- true for a moment longer than a commit that zk_leader_guard() guards would be permitted.  False
-- for a path that is not in zklock.leaders, and in recovery.
-- Raises 55000 if the library is not in shared_preload_libraries.
CREATE FUNCTION zk_leads(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Guard the transaction: it commits only if this server still leads at "path", in the same term.
-- If the term ends before, the running statement is cancelled, and the commit raises 40001.
-- Other transactions of this server may be guarded at the same time.  Returns the token of the
-- term, which zk_lock_fence(path) then records.
-- Raises 55000 if this server does not lead, or the library is not in shared_preload_libraries;
-- 40001 if ZooKeeper does not confirm its session in time; 25001 at REPEATABLE READ and above;
-- PREPARE TRANSACTION raises 0A000.
CREATE FUNCTION zk_leader_guard(path text)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- End the term of this server at "path": transactions that it guards and whose commit has not begun
-- are lost.  Returns true when those commits have ended and the node is deleted, so that the
-- next in the queue leads; false if this server did not lead.  The server then queues again,
-- behind all others.  If the call is cancelled, the term ends all the same.
-- Raises 08006 if the worker does not run, 55000 if the library is not preloaded.
CREATE FUNCTION zk_leader_resign(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

REVOKE EXECUTE ON FUNCTION zk_leader_resign(text) FROM PUBLIC;

CREATE FUNCTION zk_leader_status(
    OUT path text,
    OUT state text,
    OUT token bigint,
    OUT since timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The paths of zklock.leaders, and what this server is there.  Reads only its memory.
--
--   path    the path
--   state   'leads', 'waits' (another client leads, or is ahead in the queue), 'joins' (the
--           server has no node in the queue yet: there is no session, or ZooKeeper refuses),
--           'ends' (the term is over, and its node is not deleted yet: a commit may be under
--           way), 'lost' (the session is over, or ZooKeeper has not confirmed it for as long
--           as its timeout), 'recovery' (this server is a standby)
--   token   of the term; null unless it leads
--   since   when the state began; of 'lost', when the term did
CREATE VIEW zk_leaders AS
SELECT path, state, token, since FROM zk_leader_status();

GRANT SELECT ON zk_leaders TO PUBLIC;

COMMENT ON FUNCTION zk_leads(text) IS
    'does this server lead at a path of zklock.leaders?';
COMMENT ON FUNCTION zk_leader_guard(text) IS
    'have the transaction commit only while this server leads; returns the token';
COMMENT ON FUNCTION zk_leader_resign(text) IS
    'end the term of this server, and queue again';
COMMENT ON FUNCTION zk_leader_status() IS
    'data for the view zk_leaders';
COMMENT ON VIEW zk_leaders IS
    'where this server leads, or queues for that';

-- Holders with a token that is recorded do not write it again.
COMMENT ON FUNCTION zk_fence_prune(interval) IS
    'delete fences that were not written for that long';
