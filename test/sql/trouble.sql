-- ZooKeeper is absent, or refuses requests.

CREATE VIEW held AS SELECT path, session_holds, transaction_holds FROM zk_locks;

--
-- No server listens.
--

SET zklock.hosts = '127.0.0.1:1';
SET zklock.connect_timeout = '300ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
SELECT zk_lock_guard('/zklock_regress/trouble');

-- A single attempt waits for an answer, though not for long.
SET zklock.connect_timeout = '10s';
SET zklock.try_timeout = '300ms';
SELECT zk_lock_acquire('/zklock_regress/trouble', '0');
SELECT state FROM zk_session();
SET zklock.connect_timeout = '300ms';
RESET zklock.try_timeout;

\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress/trouble');
\set VERBOSITY default

-- A shorter timeout takes precedence.
SET zklock.connect_timeout = '1min';
SELECT zk_lock_acquire('/zklock_regress/trouble', '100ms');
SELECT zk_lock_guard('/zklock_regress/trouble', '100ms');
SELECT session_id, state, timeout, confirmed_ago FROM zk_session();

-- So do statement_timeout and lock_timeout.
SET lock_timeout = '100ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
RESET lock_timeout;
SET statement_timeout = '100ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
RESET statement_timeout;

-- A host name that is too long for DNS: the resolver refuses it without a
-- query.
SELECT count(set_config('zklock.hosts', repeat('x', 64) || '.invalid:2181', false));
SELECT zk_lock_acquire('/zklock_regress/trouble');

-- The transaction can continue from its savepoint, and no lock is held.
BEGIN;
SAVEPOINT s;
SELECT zk_lock_acquire('/zklock_regress/trouble', scope => 'transaction');
ROLLBACK TO s;
SELECT * FROM held;

-- After the setting is corrected, the lock can be acquired.
RESET zklock.hosts;
SELECT zk_lock_acquire('/zklock_regress/trouble', scope => 'transaction');
SELECT * FROM held;
COMMIT;
SELECT * FROM held;

-- A held lock needs no connection to other servers that are set later.
SELECT zk_lock_acquire('/zklock_regress/trouble');
SET zklock.hosts = '127.0.0.1:1';
SET zklock.connect_timeout = '300ms';
SELECT zk_lock_acquire('/zklock_regress/trouble');
SELECT zk_lock_release_all();
SELECT zk_lock_acquire('/zklock_regress/trouble');
RESET ALL;

--
-- The server refuses a request.
--

-- a root that does not exist
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

-- an access control list: no node may be created below this one
SET zklock.acl = 'world:anyone:r';
SELECT zk_lock_acquire('/zklock_regress_read_only');
RESET zklock.acl;
SELECT zk_lock_acquire('/zklock_regress_read_only');
\set VERBOSITY sqlstate
SELECT zk_lock_acquire('/zklock_regress_read_only');
\set VERBOSITY default

-- an access control list of a parent
SELECT zk_lock_acquire('/zklock_regress_read_only/a/b');

-- an access control list for authenticated clients, without and with
-- authentication
SET zklock.acl = 'auth::cdrwa';
SELECT zk_lock_acquire('/zklock_regress_digest');
SET zklock.auth = 'digest:regress:xyzzy';
SELECT zk_lock_acquire('/zklock_regress_digest');
SELECT zk_lock_release('/zklock_regress_digest');
RESET zklock.acl;
RESET zklock.auth;

-- a queue below a node that cannot have children
SELECT zk_lock_acquire('/zklock_regress/trouble');
SELECT zk_lock_acquire('/zklock_regress/trouble_simple', mode => 'simple');
SELECT zk_lock_acquire('/zklock_regress/trouble_simple/below');
SELECT zk_lock_release('/zklock_regress/trouble_simple', 'simple');

-- The lock that was held before is not lost.
SELECT * FROM held;
SELECT zk_lock_release('/zklock_regress/trouble');

DROP VIEW held;
