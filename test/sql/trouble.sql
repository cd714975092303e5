-- ZooKeeper that is not there, or refuses.

CREATE VIEW held AS SELECT path, session_holds, transaction_holds FROM zk_locks;

--
-- Nobody listens.
--

SET zklock.hosts = '127.0.0.1:1';
SET zklock.connect_timeout = '300ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
SELECT zk_lock_guard('/zklock_regress/trouble');

-- To try once is to wait for an answer, though not for long.
SET zklock.connect_timeout = '10s';
SELECT zk_lock_acquire('/zklock_regress/trouble', '0');
SELECT state FROM zk_session();
SET zklock.connect_timeout = '300ms';

\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/trouble');
\set VERBOSITY default

-- A shorter timeout comes first.
SET zklock.connect_timeout = '1min';
SELECT zk_lock_acquire('/zklock_regress/trouble', '100ms');
SELECT zk_lock_guard('/zklock_regress/trouble', '100ms');
SELECT session_id, state, timeout, confirmed_ago FROM zk_session();

-- So do the statement's and the lock's own.
SET lock_timeout = '100ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
RESET lock_timeout;
SET statement_timeout = '100ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
RESET statement_timeout;

-- A name that no resolver has to be asked for.
SELECT count(set_config('zklock.hosts', repeat('x', 64) || '.invalid:2181', false));
SELECT zk_lock_acquire('/zklock_regress/trouble');

-- The transaction goes on from its savepoint, and nothing was taken.
BEGIN;
SAVEPOINT s;
SELECT zk_lock_acquire('/zklock_regress/trouble', scope => 'transaction');
ROLLBACK TO s;
SELECT * FROM held;

-- Once the setting is right, so is the lock.
RESET zklock.hosts;
SELECT zk_lock_acquire('/zklock_regress/trouble', scope => 'transaction');
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- A lock that is held needs no connection to the servers set since.
SELECT zk_lock_acquire('/zklock_regress/trouble');
SET zklock.hosts = '127.0.0.1:1';
SET zklock.connect_timeout = '300ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
SELECT zk_lock_release_all();
SELECT zk_lock_acquire('/zklock_regress/trouble');
RESET ALL;

--
-- The server refuses.
--

-- a root that is not there
SELECT current_setting('zklock.hosts') AS hosts \gset
SELECT :'hosts' || CASE WHEN :'hosts' ~ '/' THEN '' ELSE '/' END
       || 'zklock_regress_no_such_root' AS nowhere \gset
SET zklock.hosts = :'nowhere';
SELECT zk_lock_acquire('/zklock_regress/trouble');
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/trouble');
\set VERBOSITY default
RESET zklock.hosts;

-- an authentication
SET zklock.auth = 'zklock_no_such_scheme:xyzzy';
SELECT zk_lock_acquire('/zklock_regress/trouble');
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/trouble');
\set VERBOSITY default
RESET zklock.auth;

-- an access control list: nobody may create a node below this one
SET zklock.acl = 'world:anyone:r';
SELECT zk_lock_acquire('/zklock_regress_read_only');
RESET zklock.acl;
SELECT zk_lock_acquire('/zklock_regress_read_only');
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress_read_only');
\set VERBOSITY default

-- one further up
SELECT zk_lock_acquire('/zklock_regress_read_only/a/b');

-- one for the authenticated only, with and without being it
SET zklock.acl = 'auth::cdrwa';
SELECT zk_lock_acquire('/zklock_regress_digest');
SET zklock.auth = 'digest:regress:xyzzy';
SELECT zk_lock_acquire('/zklock_regress_digest');
SELECT zk_lock_release('/zklock_regress_digest');
RESET zklock.acl;
RESET zklock.auth;

-- a queue below a node that can have no children
SELECT zk_lock_acquire('/zklock_regress/trouble');
SELECT zk_lock_acquire('/zklock_regress/trouble_simple', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/trouble_simple/below');
SELECT zk_lock_release('/zklock_regress/trouble_simple', 'simple');

-- None of this cost us the lock that we had.
SELECT * FROM held;
SELECT zk_lock_release('/zklock_regress/trouble');

DROP VIEW held;
