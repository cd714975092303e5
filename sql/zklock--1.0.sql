/* sql/zklock--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zklock" to load this file. \quit

-- The mode of a lock.  Any two holders of one path exclude each other, unless both
-- are 'shared'.
CREATE TYPE zk_lock_mode AS ENUM ('exclusive', 'shared', 'write', 'simple');

-- How long a lock is held: until it is released or the session ends, or until the
-- transaction ends.
CREATE TYPE zk_lock_scope AS ENUM ('session', 'transaction');

-- These errors are common to all functions:
--
-- 22004: the path is null.
-- 22023: ZooKeeper does not accept the path, or a part of it is "leases" or is named
--     like a node in a lock's queue.  zk_lock_queue() and zk_lock_paths() accept such
--     parts, since they only read.
-- 42501: the path is not below zklock.path_prefix, or the call is in an index expression
--     or in the query of a materialized view.
-- 08001: there was no connection within zklock.connect_timeout.
-- 08006: the connection was lost and did not come back.
-- 28000: the authentication or an access control list refuses.
-- 53400: a quota in ZooKeeper, or zklock.max_locks_per_backend, is exceeded.
-- 40001: a lock that was held is lost.

-- Take a lock.  Returns true once it is held, and false if others were ahead when
-- "timeout" passed.  A null timeout waits without limit.  Zero or less takes the lock
-- only if it is free.  If ZooKeeper does not answer within the timeout, or within a
-- second if the timeout is zero, the error is 08001 or 08006.
-- A holder may call the function again.  Holds are counted, as by pg_advisory_lock().
-- If scope is null, here and below, zklock.default_scope applies.
CREATE FUNCTION zk_lock_acquire(
    path text,
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive',
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Take locks on all of the paths, or on none.  Takes one round trip if all are free.
-- Callers that name overlapping paths in different orders do not deadlock.  More than
-- 1000 paths are an error 53400.
CREATE FUNCTION zk_lock_acquire_all(
    paths text[],
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive',
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Take a lock for the rest of the transaction, or raise 55P03 (lock_not_available).
-- For procedures, where a result can be overlooked.  Returns the fencing token, which
-- grows from each holder to the next, except as zk_lock_grant_number() describes.
-- Raises 25001 at REPEATABLE READ and above.
CREATE FUNCTION zk_lock_guard(
    path text,
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Take a lock, or raise 55P03 once "timeout" has passed.  It is called with CALL, and then
-- waits without a snapshot, so that VACUUM and CREATE INDEX CONCURRENTLY need not wait for
-- the waiter: at the top level, in a transaction block or not, and in DO and procedures
-- that can commit.  Elsewhere, for example in a function or an exception block, and with an
-- open cursor, it waits with a snapshot, as the functions do.  A transaction that has
-- written something holds back VACUUM in any case.  Raises 25001 at REPEATABLE READ and
-- above.
CREATE PROCEDURE zk_lock_wait(
    path text,
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive',
    scope zk_lock_scope DEFAULT NULL)
AS 'MODULE_PATHNAME'
LANGUAGE C;

-- Release one hold of session scope.  If there is none, warns and returns false.
-- Checks first, as a commit does, that the lock is still held; a lost lock is an error
-- 40001.  If the transaction has fenced the lock, the last hold becomes one of
-- transaction scope.
CREATE FUNCTION zk_lock_release(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Release all holds of session scope, including leases.  Returns their number.
CREATE FUNCTION zk_lock_release_all()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Does this backend hold the lock, in this mode and either scope?  False also if the
-- lock is known to be lost.  Does not ask ZooKeeper; a commit does if necessary.
CREATE FUNCTION zk_lock_held(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The fencing token of a lock that this backend holds; otherwise an error 55000.
CREATE FUNCTION zk_lock_token(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The number of the grant, which distinguishes holders with the same token, from 0
-- on.  Raises 55000 if this backend does not hold the lock.  With zklock.session_mode =
-- 'server', the backends of a server hand a lock over with one node, and so with one
-- token, unless zklock.handover_time is 0.
CREATE FUNCTION zk_lock_grant_number(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The newest fencing tokens that were used in this database.  "token" is that of
-- exclusive holders, and "grant_number" the largest number used with it.  "shared_token" is
-- that of holders that shared the lock.  "fenced_at" is the time of the last fence.
-- If ZooKeeper is set up anew, its tokens start from the beginning; then delete the
-- rows.
CREATE TABLE zk_lock_fences (
    path text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,
    grant_number bigint NOT NULL,
    shared_token bigint NOT NULL,
    fenced_at timestamptz NOT NULL DEFAULT now());

SELECT pg_catalog.pg_extension_config_dump('zk_lock_fences', '');

-- Merges rows that arrive by logical replication with the existing ones: the newer
-- token stays, with its number, and a row that the publisher deleted stays, too.  (A
-- trigger cannot prevent a TRUNCATE.)  The condition on the depth exempts the writes of
-- the trigger itself.
CREATE FUNCTION zk_fence_merge()
RETURNS trigger
AS 'MODULE_PATHNAME'
LANGUAGE C
SET search_path = pg_catalog, pg_temp;

CREATE TRIGGER zk_fence_merge
BEFORE INSERT OR UPDATE OR DELETE ON zk_lock_fences
FOR EACH ROW WHEN (pg_catalog.pg_trigger_depth() = 0)
EXECUTE FUNCTION zk_fence_merge();

ALTER TABLE zk_lock_fences ENABLE REPLICA TRIGGER zk_fence_merge;

-- Make this database refuse all older holders of a lock that this backend holds.
-- Returns the fencing token.  Raises 40001 if a newer holder has fenced.  Raises 55000
-- if the lock is not held, or if it is held although a newer token is recorded; a retry
-- does not help then, see the hint.  Call it before the transaction reads anything that
-- the lock protects, because it waits for the end of an earlier transaction that has
-- fenced the lock.
CREATE FUNCTION zk_lock_fence(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- The same for a holder elsewhere, which passes its token, the result of zk_lock_guard()
-- on another server or the czxid of another client's node, and the number of its grant,
-- the result of zk_lock_grant_number().  Without the number, successive holders of one
-- node cannot be distinguished.  Holders of mode 'shared' must pass the mode, or else they
-- refuse one another; for a read lock of another client, the number is 0.  Not granted to
-- PUBLIC, since a wrong token makes the database refuse the rightful holders.
CREATE FUNCTION zk_fence(
    path text,
    token bigint,
    grant_number bigint DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION zk_fence(text, bigint, bigint, zk_lock_mode) FROM PUBLIC;

-- Delete the fences that no holder has used for that long.  Returns their number.  Not
-- granted to PUBLIC, since an older holder is then no longer refused.
CREATE FUNCTION zk_fence_prune(older_than interval)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION zk_fence_prune(interval) FROM PUBLIC;

-- Take one of "leases" leases of a semaphore.  Returns and waits as zk_lock_acquire()
-- does.  All callers should name the same number.  A caller that names another number
-- than the previous one gets a warning, and proceeds by its own number.
CREATE FUNCTION zk_semaphore_acquire(
    path text,
    leases integer,
    timeout interval DEFAULT NULL,
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- The same for a semaphore whose size is a count in ZooKeeper, in the format of
-- Curator's SharedCount.  The present value of the count is the number of leases.  If it
-- is raised, waiters proceed at once.  If it is lowered, holders keep their leases, and
-- waiters get one when there is room.  It is an error 42704 if there is no count at
-- "count_path", and 55000 if the node has other data or a negative number.  These errors
-- can also end a wait.
CREATE FUNCTION zk_semaphore_acquire_counted(
    path text,
    count_path text,
    timeout interval DEFAULT NULL,
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Read a count.  Returns null if there is none.  Raises 55000 if the node is no count.
CREATE FUNCTION zk_shared_count_get(path text)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Set a count, and create it if there is none; the node is persistent.  Takes effect at
-- once, even if the transaction is rolled back.  A negative number is an error 22023.  If
-- the node is no count, raises 55000 and does not write.  Not granted to PUBLIC, since
-- the count applies to all callers.
CREATE FUNCTION zk_shared_count_set(
    path text,
    value integer)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

REVOKE EXECUTE ON FUNCTION zk_shared_count_set(text, integer) FROM PUBLIC;

-- Release one hold of session scope.  If there is none, warns and returns false.
CREATE FUNCTION zk_semaphore_release(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The ZooKeeper session that this backend uses, its own or the server's
-- (zklock.session_mode).  "session_id" is as in ZooKeeper's tools.  "state" is 'none' before
-- the first lock, and 'closed' after the session was unused for
-- zklock.idle_session_timeout.  "timeout" is the negotiated one, and "confirmed_ago" is
-- how long ago a quorum of ZooKeeper's servers confirmed the session.  Does not connect.
CREATE FUNCTION zk_session(
    OUT session_id text,
    OUT state text,
    OUT timeout interval,
    OUT confirmed_ago interval)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION zk_lock_status(
    OUT pid integer,
    OUT path text,
    OUT mode text,
    OUT granted boolean,
    OUT session_holds bigint,
    OUT transaction_holds bigint,
    OUT token bigint,
    OUT grant_number bigint,
    OUT node text,
    OUT session_id text,
    OUT waitstart timestamptz,
    OUT lost boolean,
    OUT revoked boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The locks that the backends of this server hold and wait for, or, if the library is
-- not in shared_preload_libraries, those of this backend.  "mode" is that of the lock,
-- or 'semaphore'.  "node" and "session_id" are as in zk_lock_queue(): the node in
-- ZooKeeper and the session that owns it.  Backends that use the server's session share
-- one session_id (see zk_session()); a lost lock has no node.  "lost" and "revoked" are set
-- once that is known to this server.  Of a backend whose details pg_stat_activity would hide,
-- the view shows only the pid.  zk_server_status counts locks for which there is no room
-- (zklock.max_locks).
CREATE VIEW zk_locks AS
SELECT pid, path, mode, granted, session_holds, transaction_holds, token, grant_number,
       node, session_id, waitstart, lost, revoked
FROM zk_lock_status();

GRANT SELECT ON zk_locks TO PUBLIC;

CREATE FUNCTION zk_lock_stat_counters(
    OUT datid oid,
    OUT reentrant bigint,
    OUT immediate bigint,
    OUT contended bigint,
    OUT timeouts bigint,
    OUT cancels bigint,
    OUT deadlocks bigint,
    OUT errors bigint,
    OUT losses bigint,
    OUT sessions bigint,
    OUT reconnects bigint,
    OUT expiries bigint,
    OUT handovers bigint,
    OUT hand_backs bigint,
    OUT kept_grants bigint,
    OUT wait_time double precision,
    OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Counters for each database since the server was started or the counters were reset.
-- If the library is not in shared_preload_libraries, they are those of this backend.
-- "acquires" is the number of locks requested from ZooKeeper.  It is the sum of these
-- results:
--
--   immediate     granted at once
--   contended     granted after a wait for others; "wait_time" is the sum of these waits,
--                 in milliseconds
--   timeouts      others were still ahead when the timeout passed
--   cancels       ended by a cancellation or by lock_timeout
--   deadlocks     ended by a deadlock
--   errors        ended by another error
--
-- With zklock.session_mode = 'server', "handovers" is the number of grants of a node that
-- another backend of the server passed on, or that other readers of the server had.
-- "hand_backs" is the number of locks that were given back to ZooKeeper, for the turn of
-- other servers, although another backend of this server waited.  "kept_grants" is the
-- number of immediate grants of locks that the server had kept (zklock.keep_time).  Databases
-- for which there is no room share a row without a name.
CREATE VIEW zk_lock_stats_database AS
SELECT s.datid, d.datname,
       s.immediate + s.contended + s.timeouts + s.cancels + s.deadlocks + s.errors
           AS acquires,
       s.immediate, s.contended, s.timeouts, s.cancels, s.deadlocks, s.errors,
       s.reentrant, s.wait_time, s.losses,
       s.handovers, s.hand_backs, s.kept_grants, s.sessions, s.reconnects, s.expiries,
       s.stats_reset
FROM zk_lock_stat_counters() AS s
     LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.datid;

GRANT SELECT ON zk_lock_stats_database TO PUBLIC;

-- The same for the server.
CREATE VIEW zk_lock_stats AS
SELECT sum(acquires)::bigint AS acquires, sum(immediate)::bigint AS immediate,
       sum(contended)::bigint AS contended, sum(timeouts)::bigint AS timeouts,
       sum(cancels)::bigint AS cancels, sum(deadlocks)::bigint AS deadlocks,
       sum(errors)::bigint AS errors,
       sum(reentrant)::bigint AS reentrant, sum(wait_time) AS wait_time,
       sum(losses)::bigint AS losses, sum(handovers)::bigint AS handovers,
       sum(hand_backs)::bigint AS hand_backs,
       sum(kept_grants)::bigint AS kept_grants, sum(sessions)::bigint AS sessions,
       sum(reconnects)::bigint AS reconnects, sum(expiries)::bigint AS expiries,
       min(stats_reset) AS stats_reset
FROM zk_lock_stats_database;

GRANT SELECT ON zk_lock_stats TO PUBLIC;

-- Reset all counters to zero, for all databases.
CREATE FUNCTION zk_lock_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE EXECUTE ON FUNCTION zk_lock_stats_reset() FROM PUBLIC;

CREATE FUNCTION zk_server_state(
    OUT listed integer,
    OUT max_locks integer,
    OUT unlisted bigint,
    OUT kept integer,
    OUT connected boolean,
    OUT reload_pending boolean)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The present state of the server.  "listed" is the number of locks that zk_locks lists,
-- "max_locks" the number that it can list, and "unlisted" the number of locks beyond
-- that.  With zklock.session_mode = 'server', "kept" is the number of locks that the
-- server keeps although no backend uses them (zklock.keep_time).  "connected" tells
-- whether the server's session has a connection to ZooKeeper; it is null while there is
-- no session.  "reload_pending" tells whether that session will end when no lock is held
-- in it, because settings have changed or the worker was terminated.  All are null if the
-- library is not in shared_preload_libraries.
CREATE VIEW zk_server_status AS
SELECT listed, max_locks, unlisted, kept, connected, reload_pending
FROM zk_server_state();

GRANT SELECT ON zk_server_status TO PUBLIC;

-- The holders of a lock or a semaphore and the waiters, read from ZooKeeper: those of
-- all servers and of all clients.  Takes two round trips, and a connection if there is
-- none yet.  If the path does not exist, there are no rows.
--
--   position      from 1 on, in the order in which the lock is granted
--   state         'holder' or 'waiter'
--   mode          that of the lock; 'semaphore' for a lease, and 'mutex' for the lock
--                 under which leases are taken; a waiter for a lease has nodes of both
--   sequence      the number at the end of the node's name
--   node          the node's name, without the path
--   session_id    the ZooKeeper session that owns the node
--   since         when the node was created, by ZooKeeper's clock
--   own           whether the node belongs to this backend
--   kept          whether a server keeps the lock (zklock.keep_time), and none of its backends
--                 holds it; null if another server holds or keeps it, and only that
--                 server knows which
--   host ... application_name
--                 the backend, according to the node's data, if the node is zklock's.
--                 If the backends of a server hand the lock over (zklock.session_mode =
--                 'server'), other servers see only the host and the port.
--   data          the data of another client's node: up to a zero byte, or to 1024
--                 bytes, with "?" for bytes that are not text
--
-- Ephemeral nodes with a name of another kind are not waited for.  They come last,
-- without position, state and mode.  They may be simple locks at paths below this one, so
-- only roles that may call zk_lock_paths() see them.  For a node that may not be read, only
-- the columns that its name determines are set.  A path that may not be read is an error
-- 28000.
--
-- As in pg_stat_activity, it is not secret which user is connected to which database.
-- Every client that connects to ZooKeeper with the server's credentials can read the
-- data of a node.  REVOKE the function from PUBLIC if that is too much.
CREATE FUNCTION zk_lock_queue(
    path text,
    OUT "position" integer,
    OUT state text,
    OUT mode text,
    OUT sequence bigint,
    OUT node text,
    OUT session_id text,
    OUT since timestamptz,
    OUT own boolean,
    OUT kept boolean,
    OUT host text,
    OUT port integer,
    OUT pid integer,
    OUT datname text,
    OUT usename text,
    OUT application_name text,
    OUT data text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 10;

-- The paths in use as locks at and below "parent", by any client.  "kind" is 'queue' for
-- locks of mode exclusive, shared and write, 'semaphore', or 'simple', which is any
-- ephemeral node that stands alone.  "contenders" is the number of nodes that hold or
-- wait: rows of zk_lock_queue() with a position.  "open" tells whether the access control
-- list of the path lets every client delete these nodes, or create others; it is null if
-- the list may not be read.  Takes a round trip for each level of the tree and one more,
-- and some more if a level has thousands of nodes.
--
-- A node that may not be read has no kind and no number, and the nodes below it are not
-- shown.  If "parent" may not be read, it is an error 28000.  More than 50000 nodes,
-- besides those of locks, are an error 54000.
--
-- Granted to pg_monitor only, since zk_locks hides the locks of other roles, and this
-- function shows their paths.
CREATE FUNCTION zk_lock_paths(
    parent text DEFAULT '/',
    OUT path text,
    OUT kind text,
    OUT contenders integer,
    OUT open boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 100000 ROWS 100;

REVOKE EXECUTE ON FUNCTION zk_lock_paths(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_paths(text) TO pg_monitor;

-- Ask the holders of a lock or a semaphore, on all servers, to give it back.  Returns
-- how many nodes were asked: readers of a server can share one.  It is a request: a
-- holder that took the lock while zklock.revocable was on has agreed to it.  Its running
-- statement, or its next one, is cancelled with an error 57014, and it keeps the lock
-- until it gives it back.  The request is that of Curator's Revoker: it overwrites the
-- data of the nodes of other clients, whether these react or not.  Takes three round
-- trips.  It is an error 28000 if the path may not be read or a node may not be written,
-- and 0A000 for a simple lock.
--
-- Like pg_cancel_backend(), it is not granted to PUBLIC.
CREATE FUNCTION zk_lock_revoke(path text)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

REVOKE EXECUTE ON FUNCTION zk_lock_revoke(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_revoke(text) TO pg_signal_backend;

-- The holders and waiters, on any server, that each waiting backend of this server waits
-- for: those ahead of it in the queue that it cannot share the lock with.  For a backend
-- that waits for a lease, they are the holders of leases.  For a backend that waits for
-- the mutex of a semaphore, they are those ahead of it in the queue of the mutex.
--
-- Asks ZooKeeper once for each waiting backend, or only for those that a condition on pid,
-- path or mode selects.  With zklock.session_mode = 'server', several backends of a server may
-- hold one node, and there is a row for each of those of this server.  Several may wait
-- with one node.  Those of them that are ahead come last, without the columns that only
-- the node's data has.  Of another server whose backends hand the lock over, only the host
-- and the port are known.  Without shared_preload_libraries there are no rows, and there
-- are none for sessions whose details zk_locks hides.
CREATE VIEW zk_lock_blockers AS
SELECT w.pid, w.path, w.mode, w.waitstart, q.state AS blocking_state,
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
       FROM zk_lock_queue(w.path) AS a) AS q
     LEFT JOIN LATERAL (
       SELECT b.pid, a.datname, a.usename, a.application_name
       FROM zk_locks AS b LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
       WHERE b.path = w.path AND b.node = q.node AND b.granted
       ORDER BY b.pid) AS h ON true    -- the order of the queue remains
WHERE NOT w.granted AND
      CASE q.waits_as
          WHEN 'simple' THEN true        -- the only node, that of the holder
          WHEN 'semaphore' THEN q.mode = 'semaphore' AND q.state = 'holder'
          WHEN 'mutex' THEN q.mode = 'mutex' AND q.position < q.place
          WHEN 'shared' THEN q.mode <> 'shared' AND q.position < q.place
          ELSE q.position < q.place
      END
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

GRANT SELECT ON zk_lock_blockers TO PUBLIC;

-- Shown by \d+ and similar commands of psql.
COMMENT ON TYPE zk_lock_mode IS
    'mode of a ZooKeeper lock';
COMMENT ON TYPE zk_lock_scope IS
    'how long a ZooKeeper lock is held';
COMMENT ON FUNCTION zk_lock_acquire(text, interval, zk_lock_mode, zk_lock_scope) IS
    'take a ZooKeeper lock; false if others were ahead when the time had passed';
COMMENT ON FUNCTION zk_lock_acquire_all(text[], interval, zk_lock_mode, zk_lock_scope) IS
    'take ZooKeeper locks on all of the paths, or on none';
COMMENT ON FUNCTION zk_lock_guard(text, interval, zk_lock_mode) IS
    'take a ZooKeeper lock for the rest of the transaction, or raise an error; returns its token';
COMMENT ON PROCEDURE zk_lock_wait(text, interval, zk_lock_mode, zk_lock_scope) IS
    'take a ZooKeeper lock, or raise an error; can wait without a snapshot';
COMMENT ON FUNCTION zk_lock_release(text, zk_lock_mode) IS
    'release one hold of session scope';
COMMENT ON FUNCTION zk_lock_release_all() IS
    'release all holds of session scope';
COMMENT ON FUNCTION zk_lock_held(text, zk_lock_mode) IS
    'whether this backend holds a ZooKeeper lock, as far as is known';
COMMENT ON FUNCTION zk_lock_token(text, zk_lock_mode) IS
    'fencing token of a lock that this backend holds';
COMMENT ON FUNCTION zk_lock_grant_number(text, zk_lock_mode) IS
    'number of the grant of a lock, among grants with the same token';
COMMENT ON TABLE zk_lock_fences IS
    'the newest fencing tokens of each lock';
COMMENT ON FUNCTION zk_fence_merge() IS
    'trigger: merge replicated fences, so that tokens only grow';
COMMENT ON TRIGGER zk_fence_merge ON zk_lock_fences IS
    'merge replicated fences, so that tokens only grow';
COMMENT ON FUNCTION zk_lock_fence(text, zk_lock_mode) IS
    'make this database refuse older holders of a lock that this backend holds';
COMMENT ON FUNCTION zk_fence(text, bigint, bigint, zk_lock_mode) IS
    'make this database refuse older holders of a lock that is held elsewhere';
COMMENT ON FUNCTION zk_fence_prune(interval) IS
    'delete fences that were not used for that long';
COMMENT ON FUNCTION zk_semaphore_acquire(text, integer, interval, zk_lock_scope) IS
    'take one lease of a semaphore of the given size';
COMMENT ON FUNCTION zk_semaphore_acquire_counted(text, text, interval, zk_lock_scope) IS
    'take one lease of a semaphore whose size is a count in ZooKeeper';
COMMENT ON FUNCTION zk_semaphore_release(text) IS
    'release one hold of a lease';
COMMENT ON FUNCTION zk_shared_count_get(text) IS
    'read a count of leases from ZooKeeper';
COMMENT ON FUNCTION zk_shared_count_set(text, integer) IS
    'set a count of leases, or create it';
COMMENT ON FUNCTION zk_session() IS
    'the ZooKeeper session that holds the locks of this backend';
COMMENT ON FUNCTION zk_lock_status() IS
    'data for the view zk_locks';
COMMENT ON VIEW zk_locks IS
    'ZooKeeper locks that backends of this server hold and wait for';
COMMENT ON FUNCTION zk_lock_stat_counters() IS
    'data for the view zk_lock_stats_database';
COMMENT ON VIEW zk_lock_stats_database IS
    'counters of ZooKeeper locks, by database';
COMMENT ON VIEW zk_lock_stats IS
    'counters of ZooKeeper locks of this server';
COMMENT ON FUNCTION zk_lock_stats_reset() IS
    'reset all counters to zero';
COMMENT ON FUNCTION zk_server_state() IS
    'data for the view zk_server_status';
COMMENT ON VIEW zk_server_status IS
    'room in shared memory for zk_locks, and the state of the server''s session';
COMMENT ON FUNCTION zk_lock_queue(text) IS
    'holders of a lock and waiters, on all servers, read from ZooKeeper';
COMMENT ON FUNCTION zk_lock_paths(text) IS
    'locks in use at a path and below it, read from ZooKeeper';
COMMENT ON FUNCTION zk_lock_revoke(text) IS
    'ask the holders of a lock, on all servers, to give it back';
COMMENT ON VIEW zk_lock_blockers IS
    'holders and waiters, on all servers, ahead of each waiting backend';
