-- The objects that CREATE EXTENSION creates, and their privileges.

CREATE EXTENSION zklock;

SELECT p.proname AS function,
       CASE p.provolatile WHEN 'v' THEN 'volatile' ELSE 'not volatile' END AS volatility,
       CASE p.proparallel WHEN 'r' THEN 'restricted' WHEN 'u' THEN 'unsafe' END AS parallel,
       p.proisstrict AS strict, p.prosecdef AS definer,
       p.proconfig AS settings,
       has_function_privilege('public', p.oid, 'execute') AS public
FROM pg_depend d
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
WHERE e.extname = 'zklock' AND d.deptype = 'e'
ORDER BY p.proname COLLATE "C";

-- All objects have a comment.
SELECT pg_describe_object(d.classid, d.objid, 0) AS undescribed
FROM pg_depend d
JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE e.extname = 'zklock' AND d.deptype = 'e'
  AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
  AND obj_description(d.objid, d.classid::regclass::text) IS NULL;

SELECT enum_range(NULL::zk_lock_mode) AS modes,
       enum_range(NULL::zk_lock_scope) AS scopes;

SELECT has_table_privilege('public', 'zk_locks', 'select') AS can_select,
       has_table_privilege('public', 'zk_locks', 'insert, update, delete') AS can_change,
       has_table_privilege('public', 'zk_lock_fences',
                           'select, insert, update, delete, truncate') AS fences;

-- These functions do not connect to ZooKeeper.
SELECT * FROM zk_session();
SELECT * FROM zk_locks;
SELECT zk_lock_release_all();
SELECT state FROM zk_session();

-- A lock connects.
SELECT zk_lock_acquire('/zklock_regress/extension');
SELECT session_id ~ '^0x[0-9a-f]+$' AS session_id, state,
       timeout > '0' AS timeout,
       confirmed_ago BETWEEN '0' AND '1 minute' AS confirmed_ago
FROM zk_session();
SELECT path, mode, session_holds, transaction_holds, token > 0 AS token,
       node ~ '^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-lock-[0-9]{10}$' AS node,
       lost
FROM zk_locks;

-- The SQL files of a later version, of which the library is not loaded yet
CREATE FUNCTION later_session(OUT session_id text, OUT state text, OUT timeout interval,
                              OUT confirmed_ago interval, OUT later text)
RETURNS record AS '$libdir/zklock', 'zk_session' LANGUAGE C;
SELECT * FROM later_session();
CREATE FUNCTION later_paths(parent text, OUT path text, OUT kind text,
                            OUT contenders integer, OUT open boolean, OUT later text)
RETURNS SETOF record AS '$libdir/zklock', 'zk_lock_paths' LANGUAGE C;
SELECT * FROM later_paths('/zklock_regress/extension');
ALTER TYPE zk_lock_scope ADD VALUE 'later';
ALTER TYPE zk_lock_mode ADD VALUE 'later';
SELECT zk_lock_acquire('/zklock_regress/extension', scope => 'later');
SELECT zk_lock_acquire('/zklock_regress/extension', mode => 'later');

-- The SQL files of an earlier version
CREATE FUNCTION earlier_status(OUT pid integer, OUT path text)
RETURNS SETOF record AS '$libdir/zklock', 'zk_lock_status' LANGUAGE C;
SELECT path FROM earlier_status() WHERE pid = pg_backend_pid();
DROP FUNCTION later_session(), later_paths(text), earlier_status();

-- A lock belongs to the backend, not to the extension, which may be dropped
-- and created again.
DROP EXTENSION zklock;
CREATE EXTENSION zklock;
SELECT zk_lock_release('/zklock_regress/extension');
SELECT count(*) FROM zk_locks;
SELECT state FROM zk_session();
