/* sql/zklock--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zklock" to load this file. \quit

-- How a lock is held.  Any two holders of one path exclude each other, unless
-- both are 'shared'.
CREATE TYPE zk_lock_mode AS ENUM ('exclusive', 'shared', 'write', 'simple');

-- How long it is held: until released or the session ends, or to the end of
-- the transaction.
CREATE TYPE zk_lock_scope AS ENUM ('session', 'transaction');

-- All functions: a path that is null is an error 22004, one that ZooKeeper
-- would not take 22023, one that is not below zklock.path_prefix 42501.  A path with
-- a part that is named like a node in a lock's queue, or "leases", is an error 22023,
-- too, except in zk_lock_queue() and zk_lock_paths(), which only look.  No
-- connection within zklock.connect_timeout is 08001, a connection lost for good
-- 08006, an authentication or ACL that refuses 28000, a quota of ZooKeeper's or more
-- locks than zklock.max_locks_per_backend 53400, a lock that was held and is lost
-- 40001.

-- Take a lock.  Returns true once it is held, false if others were ahead when
-- "timeout" passed.  A null timeout waits for ever; zero or less takes the lock only
-- if it is free.  No word from ZooKeeper in that time, or within a second if it is
-- zero, is 08001 or 08006.
-- May be called again by the holder and counts, like pg_advisory_lock().
-- A null scope, here and below, is what zklock.default_scope says.
CREATE FUNCTION zk_lock_acquire(
    path text,
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive',
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Take locks on all of the paths, or on none.  Costs one round trip if all are
-- free.  Callers that name overlapping paths in different orders do not
-- deadlock.  At most 1000 paths; more are an error 53400.
CREATE FUNCTION zk_lock_acquire_all(
    paths text[],
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive',
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Take a lock for the rest of the transaction, or raise 55P03
-- (lock_not_available): for procedures, where a result can be overlooked.
-- Returns the fencing token, which grows from each holder to the next, but see
-- zk_lock_grant_number().
-- Raises 25001 at REPEATABLE READ and above.
CREATE FUNCTION zk_lock_guard(
    path text,
    timeout interval DEFAULT NULL,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Give one hold of session scope back.  Not held: a warning, and false.  Asks
-- first, as a commit does, if the lock may be lost: then it is an error 40001.  If
-- the transaction has fenced the lock, the last hold becomes one of the transaction.
CREATE FUNCTION zk_lock_release(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Give all holds of session scope back.  Returns how many there were.
CREATE FUNCTION zk_lock_release_all()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Is a lock held here, in this mode and whatever scope?  False also if it is lost, as
-- far as that is known.  Does not ask ZooKeeper: a commit does, where it has to.
CREATE FUNCTION zk_lock_held(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The fencing token of a lock that is held here; error 55000 if it is not.
CREATE FUNCTION zk_lock_token(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- Tells the holders of one token apart, from 0 on; error 55000 if the lock is not
-- held.  With zklock.session = 'server' the backends of a server hand a lock over
-- on one node, and so with one token; not so if zklock.local_handover is 0.
CREATE FUNCTION zk_lock_grant_number(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The newest fencing tokens that were used in this database: of holders that
-- had a lock for themselves, with the largest number that came with it, and of
-- those that shared it; and when one of them last did.  After ZooKeeper has been
-- set up anew its tokens begin again: then the rows are to be deleted.
CREATE TABLE zk_lock_fences (
    path text COLLATE "C" PRIMARY KEY,
    token bigint NOT NULL,
    number bigint NOT NULL,
    shared_token bigint NOT NULL,
    fenced_at timestamptz NOT NULL DEFAULT now());

SELECT pg_catalog.pg_extension_config_dump('zk_lock_fences', '');

-- What comes by logical replication is merged with what is here: the newer
-- token stays, with its number, and rows that are deleted there stay.  (A TRUNCATE
-- does not let itself be kept out.)  What the trigger writes itself is no second
-- time for it.
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

-- Make this database refuse all older holders of a lock that is held here;
-- returns the fencing token.  Raises 40001 if a newer holder was here, and 55000
-- if the lock is not held, or is held although a newer token is here: no retry
-- helps then, see the hint.  To be called before anything is read that the lock
-- protects: it waits for the end of a transaction that has called it before.
CREATE FUNCTION zk_lock_fence(
    path text,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- The same for a holder elsewhere, who passes the token: what zk_lock_guard()
-- returned on another server, or the czxid of another client's node.  A wrong
-- token shuts the rightful holders out, so this is not for everyone.
CREATE FUNCTION zk_fence(
    path text,
    token bigint)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION zk_fence(text, bigint) FROM PUBLIC;

-- The same for a holder who has the number, too: what zk_lock_grant_number() returned.
-- Without it, those who held the lock on one node are not told from one another.
-- Holders of mode 'shared' must name it, or else they refuse one another; the number
-- of a reader of another client is 0.
CREATE FUNCTION zk_fence(
    path text,
    token bigint,
    number bigint,
    mode zk_lock_mode DEFAULT 'exclusive')
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION zk_fence(text, bigint, bigint, zk_lock_mode) FROM PUBLIC;

-- Delete the fences that no holder has used for so long; returns how many there
-- were.  A holder that is later than that is not refused any more, so this is
-- not for everyone.
CREATE FUNCTION zk_fence_prune(older_than interval)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

REVOKE EXECUTE ON FUNCTION zk_fence_prune(interval) FROM PUBLIC;

-- Get one of "leases" leases of a semaphore.  Returns and waits as
-- zk_lock_acquire() does.  The number should be the same for all callers: who names
-- another one than the last has named is warned, and let in by his own.
CREATE FUNCTION zk_semaphore_acquire(
    path text,
    leases integer,
    timeout interval DEFAULT NULL,
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- The same for a semaphore whose size is a count in ZooKeeper, of Curator's
-- SharedCount: as many leases as that says at the time.  Raising it lets who waits in
-- at once; lowering it takes nothing from holders, but lets nobody in until there is
-- room.  No count at "count_path" is an error 42704, something else there, or a
-- negative number, 55000; also while waiting.
CREATE FUNCTION zk_semaphore_acquire_counted(
    path text,
    count_path text,
    timeout interval DEFAULT NULL,
    scope zk_lock_scope DEFAULT NULL)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- What a count says, or null if there is none.  What is no count is an error 55000.
CREATE FUNCTION zk_shared_count(path text)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

-- Have a count say something else; it is made if there is none, and stays.  At once,
-- whatever becomes of the transaction.  A number below zero is an error 22023, what is
-- no count 55000, and not written to.  It decides for all, so this is not for everyone.
CREATE FUNCTION zk_shared_count_set(
    path text,
    value integer)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

REVOKE EXECUTE ON FUNCTION zk_shared_count_set(text, integer) FROM PUBLIC;

-- Give one hold of session scope back.  Not held: a warning, and false.
CREATE FUNCTION zk_semaphore_release(path text)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- The ZooKeeper session that this backend's locks are in, its own or the
-- server's (zklock.session): its id as ZooKeeper's tools print it, its
-- state ('none' before the first lock, 'closed' when nobody needed it for
-- zklock.idle_session_timeout), the timeout that was negotiated, and how long ago a
-- quorum of its servers confirmed it.  Does not connect.
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

-- What the backends of this server hold and wait for, or, if the library is not
-- in shared_preload_libraries, what this backend holds.  The mode is that of the
-- lock, or 'semaphore'.  Where the lock is, its node and the ZooKeeper session that
-- has it, is as in zk_lock_queue(): backends that use the server's session have one
-- session_id in common (see zk_session()).  A lock that another backend has lost, or
-- was asked for, shows as such once that backend has found out.  Of backends that
-- pg_stat_activity would not tell all of, it shows nothing but that there is a lock.
-- Locks for which there is no room (zklock.max_locks) are counted in zk_lock_stats.
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
    OUT errors bigint,
    OUT losses bigint,
    OUT sessions bigint,
    OUT reconnects bigint,
    OUT expiries bigint,
    OUT handovers bigint,
    OUT hand_backs bigint,
    OUT wait_time double precision,
    OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION zk_lock_stat_usage(
    OUT listed integer,
    OUT max_locks integer,
    OUT unlisted bigint,
    OUT connected boolean,
    OUT reload_pending boolean)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

-- What has been done in each database since the server was started or the
-- counters were reset; of this backend only, if the library is not in
-- shared_preload_libraries.  "acquires" is how often ZooKeeper was asked for a
-- lock, and how that ended: at once, after a wait for others ("wait_time" in
-- milliseconds, all together), with others still ahead when the time had passed,
-- by a cancel or lock_timeout, or by another error.  With zklock.session = 'server',
-- "handovers" are those of the contended grants that another backend of the server
-- passed on, and "hand_backs" are locks that were given back to ZooKeeper though
-- another backend waited for them: it was other servers' turn.  Databases for which there is
-- no room share a row without a name.
CREATE VIEW zk_lock_stats_database AS
SELECT s.datid, d.datname,
       s.immediate + s.contended + s.timeouts + s.cancels + s.errors AS acquires,
       s.immediate, s.contended, s.timeouts, s.cancels, s.errors,
       s.reentrant, s.wait_time, s.losses,
       s.handovers, s.hand_backs, s.sessions, s.reconnects, s.expiries,
       s.stats_reset
FROM zk_lock_stat_counters() AS s
     LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.datid;

GRANT SELECT ON zk_lock_stats_database TO PUBLIC;

-- The same for the server, and the room for zk_locks: how many it lists now, how
-- many it can, and how many more there are.  With zklock.session = 'server',
-- "connected" is whether the server's session has a connection to ZooKeeper, null
-- while there is no session, and "reload_pending" is whether that session is to end
-- when nothing is held in it, because settings have changed or the worker was
-- terminated.
CREATE VIEW zk_lock_stats AS
SELECT sum(acquires)::bigint AS acquires, sum(immediate)::bigint AS immediate,
       sum(contended)::bigint AS contended, sum(timeouts)::bigint AS timeouts,
       sum(cancels)::bigint AS cancels, sum(errors)::bigint AS errors,
       sum(reentrant)::bigint AS reentrant, sum(wait_time) AS wait_time,
       sum(losses)::bigint AS losses, sum(handovers)::bigint AS handovers,
       sum(hand_backs)::bigint AS hand_backs, sum(sessions)::bigint AS sessions,
       sum(reconnects)::bigint AS reconnects, sum(expiries)::bigint AS expiries,
       min(stats_reset) AS stats_reset,
       min(u.listed) AS listed, min(u.max_locks) AS max_locks,
       min(u.unlisted) AS unlisted,
       bool_and(u.connected) AS connected,
       bool_and(u.reload_pending) AS reload_pending
FROM zk_lock_stats_database, zk_lock_stat_usage() AS u;

GRANT SELECT ON zk_lock_stats TO PUBLIC;

-- Have all counters begin at zero, those of other databases too.
CREATE FUNCTION zk_lock_stats_reset()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

REVOKE EXECUTE ON FUNCTION zk_lock_stats_reset() FROM PUBLIC;

-- Who holds a lock or a semaphore and who waits for it, asked of ZooKeeper: on all
-- servers, whatever client they use.  Costs two round trips, and a connection if
-- there is none yet.  A path that is not there has no rows.
--
--   position      from 1 on, in the order in which the lock is granted
--   state         'holder' or 'waiter'
--   mode          that of the lock; 'semaphore' for a lease and 'mutex' for the
--                 lock under which leases are taken: who waits for a lease has both
--   sequence      the number at the end of the node's name
--   node          the node's name, without the path
--   session_id    the ZooKeeper session that the node is of
--   since         when the node was made, by ZooKeeper's clock
--   own           is it a node of this backend?
--   host ... application
--                 of the backend, as it says itself when it is zklock's
--   data          what other clients say of themselves: up to a zero byte, or to
--                 1024 bytes, with "?" for what is no text
--
-- Ephemeral nodes that are nobody's that we know come last, without position,
-- state and mode: they are not waited for.  Of a node that may not be read there
-- is what its name tells.  A path that may not be read is an error 28000.
--
-- As in pg_stat_activity, who is connected to which database is no secret; what a
-- node says can be read by all who may connect to ZooKeeper with the server's
-- credentials.  REVOKE the function from PUBLIC if that is too much.
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
    OUT host text,
    OUT port integer,
    OUT pid integer,
    OUT database text,
    OUT user_name text,
    OUT application text,
    OUT data text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000 ROWS 10;

-- The paths in use as locks at and below "parent", of whatever clients, with the
-- number of nodes that hold and wait: rows of zk_lock_queue() with a position.
-- The kind is 'queue' for locks of mode exclusive, shared and write, 'semaphore',
-- or 'simple', which is any ephemeral node that stands alone.  "open" tells whether
-- the access control list above these nodes lets everybody delete them, or make
-- others: null if it may not be read.  Costs a round trip for each level of the tree
-- and one more, and some more if thousands of nodes are on one.
--
-- A node that may not be read has neither kind nor number, and what is below it is
-- not known; if it is "parent", it is an error 28000.  More than 50000 nodes,
-- besides those of locks, are an error 54000.
--
-- It tells what zk_locks keeps from roles that may not see all of a session.
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

-- Ask those who hold a lock or a semaphore for it, wherever they are; returns how
-- many were asked.  It is a request: holders that have agreed to it, by taking the
-- lock while zklock.revocable was on, have their statement cancelled with an error
-- 57014, or see it at their next one, and keep the lock until they give it back.
-- It is Curator's Revoker: nodes of other clients are told, whether they react or
-- not, and say nothing else from then on.  Costs three round trips.  A path that may
-- not be read, or a node that may not be written to, is an error 28000, a simple
-- lock 0A000.
--
-- Like pg_cancel_backend() it is not for everyone.
CREATE FUNCTION zk_lock_revoke(path text)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED COST 10000;

REVOKE EXECUTE ON FUNCTION zk_lock_revoke(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION zk_lock_revoke(text) TO pg_signal_backend;

-- Who is in the way of each backend of this server that waits, wherever they are:
-- those ahead of it in the queue that it cannot share with, holders or waiters.
-- For who waits for a lease, the holders of the others; for who waits to come that
-- far, those who came before.  Asks ZooKeeper once for each backend that waits, or
-- that a condition on pid, path or mode leaves.  Backends of one server may have one
-- node in the queue, with zklock.session = 'server': those of them who are ahead
-- come last, without what only the node tells.  Without shared_preload_libraries
-- there are no rows, and none of sessions that zk_locks does not tell all of.
CREATE VIEW zk_lock_blockers AS
SELECT w.pid, w.path, w.mode, w.waitstart, q.state AS blocking_state,
       q.mode AS blocking_mode, q.node AS blocking_node,
       q.host AS blocking_host, q.port AS blocking_port, q.pid AS blocking_pid,
       q.database AS blocking_database, q.user_name AS blocking_user_name,
       q.application AS blocking_application, q.data AS blocking_data
FROM zk_locks AS w, LATERAL (
       SELECT a.*,
              pg_catalog.max(a.mode) FILTER (WHERE a.node = w.node) OVER () AS waits_as,
              pg_catalog.max(a.position) FILTER (WHERE a.node = w.node) OVER () AS place
       FROM zk_lock_queue(w.path) AS a) AS q
WHERE NOT w.granted AND
      CASE q.waits_as
          WHEN 'simple' THEN true        -- the one node there is not its own
          WHEN 'semaphore' THEN q.mode = 'semaphore' AND q.state = 'holder'
          WHEN 'mutex' THEN q.mode = 'mutex' AND q.position < q.place
          WHEN 'shared' THEN q.mode <> 'shared' AND q.position < q.place
          ELSE q.position < q.place
      END
UNION ALL
SELECT w.pid, w.path, w.mode, w.waitstart,
       CASE WHEN b.granted THEN 'holder' ELSE 'waiter' END, b.mode, b.node,
       NULL, pg_catalog.current_setting('port')::integer, b.pid,
       a.datname, a.usename, a.application_name, NULL
FROM zk_locks AS w
     JOIN zk_locks AS b ON b.path = w.path AND b.mode = w.mode AND b.node = w.node
     LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
WHERE NOT w.granted AND w.mode IN ('exclusive', 'write') AND b.pid <> w.pid AND
      (b.granted OR b.waitstart < w.waitstart);

GRANT SELECT ON zk_lock_blockers TO PUBLIC;

-- For \d+ and the like.
COMMENT ON TYPE zk_lock_mode IS
    'how a ZooKeeper lock is held';
COMMENT ON TYPE zk_lock_scope IS
    'how long a ZooKeeper lock is held';
COMMENT ON FUNCTION zk_lock_acquire(text, interval, zk_lock_mode, zk_lock_scope) IS
    'take a ZooKeeper lock; false if others were ahead when the time had passed';
COMMENT ON FUNCTION zk_lock_acquire_all(text[], interval, zk_lock_mode, zk_lock_scope) IS
    'take ZooKeeper locks on all of the paths, or on none';
COMMENT ON FUNCTION zk_lock_guard(text, interval, zk_lock_mode) IS
    'take a ZooKeeper lock for the rest of the transaction, or raise an error; returns its token';
COMMENT ON FUNCTION zk_lock_release(text, zk_lock_mode) IS
    'give one hold of session scope back';
COMMENT ON FUNCTION zk_lock_release_all() IS
    'give all holds of session scope back';
COMMENT ON FUNCTION zk_lock_held(text, zk_lock_mode) IS
    'is a ZooKeeper lock held here, as far as is known?';
COMMENT ON FUNCTION zk_lock_token(text, zk_lock_mode) IS
    'fencing token of a lock that is held here';
COMMENT ON FUNCTION zk_lock_grant_number(text, zk_lock_mode) IS
    'number of a lock that is held here, among those with its token';
COMMENT ON TABLE zk_lock_fences IS
    'the newest holder of each lock that has fenced';
COMMENT ON FUNCTION zk_fence_merge() IS
    'trigger: has replicated fences only grow';
COMMENT ON TRIGGER zk_fence_merge ON zk_lock_fences IS
    'has replicated fences only grow';
COMMENT ON FUNCTION zk_lock_fence(text, zk_lock_mode) IS
    'have this database refuse older holders of a lock that is held here';
COMMENT ON FUNCTION zk_fence(text, bigint) IS
    'have this database refuse older holders of a lock that is held elsewhere';
COMMENT ON FUNCTION zk_fence(text, bigint, bigint, zk_lock_mode) IS
    'the same, for a holder who knows his number';
COMMENT ON FUNCTION zk_fence_prune(interval) IS
    'delete fences that were not used for so long';
COMMENT ON FUNCTION zk_semaphore_acquire(text, integer, interval, zk_lock_scope) IS
    'take one of so many leases';
COMMENT ON FUNCTION zk_semaphore_acquire_counted(text, text, interval, zk_lock_scope) IS
    'take one of as many leases as a count says';
COMMENT ON FUNCTION zk_semaphore_release(text) IS
    'give one hold of a lease back';
COMMENT ON FUNCTION zk_shared_count(text) IS
    'what a count of leases says, asked of ZooKeeper';
COMMENT ON FUNCTION zk_shared_count_set(text, integer) IS
    'have a count of leases say something else, or make it';
COMMENT ON FUNCTION zk_session() IS
    'the ZooKeeper session that holds the locks of this backend';
COMMENT ON FUNCTION zk_lock_status() IS
    'what zk_locks shows';
COMMENT ON VIEW zk_locks IS
    'ZooKeeper locks that backends of this server hold and wait for';
COMMENT ON FUNCTION zk_lock_stat_counters() IS
    'what zk_lock_stats_database shows';
COMMENT ON FUNCTION zk_lock_stat_usage() IS
    'room in shared memory for what zk_locks shows, and the state of the server''s session';
COMMENT ON VIEW zk_lock_stats_database IS
    'counters of ZooKeeper locks, by database';
COMMENT ON VIEW zk_lock_stats IS
    'counters of ZooKeeper locks of this server';
COMMENT ON FUNCTION zk_lock_stats_reset() IS
    'have all counters begin at zero';
COMMENT ON FUNCTION zk_lock_queue(text) IS
    'who holds a lock and who waits for it, on all servers, asked of ZooKeeper';
COMMENT ON FUNCTION zk_lock_paths(text) IS
    'locks in use at a path and below it, asked of ZooKeeper';
COMMENT ON FUNCTION zk_lock_revoke(text) IS
    'ask those who hold a lock for it, on all servers';
COMMENT ON VIEW zk_lock_blockers IS
    'who is ahead of each backend that waits, on all servers';
