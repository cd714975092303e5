-- The queues in ZooKeeper, as far as one session can test them with its own
-- holds.

CREATE VIEW seen AS
SELECT path, replace(q.path, '/zklock_regress/queue/', '') AS lock
FROM (VALUES ('/zklock_regress/queue/e'), ('/zklock_regress/queue/down'),
             ('/zklock_regress/queue/s'), ('/zklock_regress/queue/w'),
             ('/zklock_regress/queue/simple'),
             ('/zklock_regress/queue/semaphore')) AS q (path);

-- Empty queues
SELECT * FROM zk_lock_queue('/zklock_regress/queue/no/such/path');
SELECT lock, q.* FROM seen, zk_lock_queue(path) AS q;

-- Each mode; a downgraded lock has two nodes with one number.
SELECT zk_lock_acquire('/zklock_regress/queue/e'),
       zk_lock_acquire('/zklock_regress/queue/s', mode => 'shared'),
       zk_lock_acquire('/zklock_regress/queue/w', mode => 'write'),
       zk_lock_acquire('/zklock_regress/queue/simple', mode => 'simple'),
       zk_semaphore_acquire('/zklock_regress/queue/semaphore', 2),
       zk_lock_acquire('/zklock_regress/queue/down', mode => 'write'),
       zk_lock_acquire('/zklock_regress/queue/down', mode => 'shared');
SELECT lock, position, state, mode, own, data
FROM seen, zk_lock_queue(path) AS q
ORDER BY lock COLLATE "C", position;

-- Numbers and names are the same as in zk_locks.
SELECT count(*), count(sequence), bool_and(q.session_id = zk_session.session_id) AS session,
       bool_and(q.node ~ coalesce('0*' || sequence || '$', '^simple$')) AS sequence
FROM zk_locks JOIN seen USING (path), zk_lock_queue(path) AS q, zk_session()
WHERE q.node = zk_locks.node AND q.session_id = zk_locks.session_id AND
      q.mode = zk_locks.mode;
SELECT count(DISTINCT sequence) FROM zk_lock_queue('/zklock_regress/queue/down');

-- The holder, and the time of its node
SELECT lock, host <> '' AS host, port = current_setting('port')::integer AS port,
       pid = pg_backend_pid() AS pid, datname = current_database() AS datname,
       usename = session_user AS usename,
       application_name = current_setting('application_name') AS application_name,
       abs(extract(epoch FROM clock_timestamp() - since)) < 600 AS since
FROM seen, zk_lock_queue(path) ORDER BY lock COLLATE "C", position;

-- The paths of locks
SELECT p.*, p.contenders = (SELECT count(position) FROM zk_lock_queue(p.path)) AS seen
FROM zk_lock_paths('/zklock_regress/queue') AS p;
SELECT * FROM zk_lock_paths('/zklock_regress/queue/down');
SELECT * FROM zk_lock_paths('/zklock_regress/queue/simple');
SELECT count(*) FROM zk_lock_paths() WHERE path LIKE '/zklock\_regress/queue/%';
SELECT * FROM zk_lock_paths('/zklock_regress/queue/no/such/path');
SELECT * FROM zk_lock_paths('/') LIMIT 0;

-- A LIMIT ends the result early.
SELECT mode FROM zk_lock_queue('/zklock_regress/queue/down') LIMIT 1;

-- A released lock disappears as soon as the release is sent.
SELECT zk_lock_release('/zklock_regress/queue/down', 'write');
-- A query follows the earlier requests of its own session, but another session
-- may have the locks.
DO $$
BEGIN
    FOR i IN 1..6000 LOOP
        EXIT WHEN NOT EXISTS (
            SELECT FROM zk_lock_queue('/zklock_regress/queue/down')
            WHERE mode = 'write');
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT position, state, mode FROM zk_lock_queue('/zklock_regress/queue/down');
SELECT zk_lock_release_all();
DO $$
BEGIN
    FOR i IN 1..6000 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM seen, zk_lock_queue(path));
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT lock, q.* FROM seen, zk_lock_queue(path) AS q;
SELECT * FROM zk_lock_paths('/zklock_regress/queue');

-- In a read-only transaction
BEGIN READ ONLY;
SELECT count(*) FROM zk_lock_queue('/zklock_regress/queue/e');
COMMIT;

-- Invalid paths
SELECT * FROM zk_lock_queue(NULL);
SELECT * FROM zk_lock_queue('e');
SELECT * FROM zk_lock_queue('/');
SELECT * FROM zk_lock_queue('/zookeeper/quota');
SELECT * FROM zk_lock_paths(NULL);
SELECT * FROM zk_lock_paths('e');
SELECT * FROM zk_lock_paths('/zookeeper');

-- No connection
SET zklock.hosts = '127.0.0.1:1';
SET zklock.connect_timeout = '300ms';
SELECT * FROM zk_lock_queue('/zklock_regress/queue/e');
\set VERBOSITY sqlstate
SELECT * FROM zk_lock_queue('/zklock_regress/queue/e');
\set VERBOSITY default
RESET zklock.hosts;
RESET zklock.connect_timeout;

-- A path that may not be read
SET zklock.acl = 'auth::cdrwa';
SET zklock.auth = 'digest:regress:xyzzy';
SELECT zk_lock_acquire('/zklock_regress_queue_digest');
SELECT position, state, own FROM zk_lock_queue('/zklock_regress_queue_digest');
SELECT zk_lock_release_all();
RESET zklock.auth;
SELECT * FROM zk_lock_queue('/zklock_regress_queue_digest');
\set VERBOSITY sqlstate
SELECT * FROM zk_lock_queue('/zklock_regress_queue_digest');
\set VERBOSITY default
SELECT * FROM zk_lock_paths('/zklock_regress_queue_digest');
SELECT kind IS NULL AS kind, contenders FROM zk_lock_paths()
WHERE path = '/zklock_regress_queue_digest';
RESET zklock.acl;

-- zk_lock_paths() is not granted to PUBLIC.
SELECT has_function_privilege('pg_monitor', 'zk_lock_paths(text)', 'EXECUTE');

DROP VIEW seen;
