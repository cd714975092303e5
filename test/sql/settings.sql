-- The settings: valid values, privileges, and secrets.

SELECT state <> '' AS loaded FROM zk_session();

-- zklock.max_locks exists only if the library was loaded at server start.
SELECT name, vartype, unit, context, boot_val, min_val, enumvals
FROM pg_settings WHERE name LIKE 'zklock.%' AND name <> 'zklock.max_locks'
ORDER BY name COLLATE "C";

CREATE FUNCTION try(setting text, value text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    state text;
    detail text;
BEGIN
    PERFORM set_config(setting, value, true);
    RETURN 'good';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
                            detail = PG_EXCEPTION_DETAIL;
    RETURN state || ': ' || detail;
END;
$$;

--
-- zklock.hosts
--

SET zklock.hosts = 'zk1';

SELECT n, left(value, 50) AS value, try('zklock.hosts', value) FROM (VALUES
    (1, 'zk1:2181'),
    (2, 'zk1:2181,zk2:2182'),
    (3, 'zk1:2181, zk2:2182 ,zk3:2183'),
    (4, '127.0.0.1:1,[::1]:65535'),
    (5, 'zk1:2181/'),
    (6, 'zk1:2181/app'),
    (7, 'zk1:2181,zk2:2181/app/locks'),
    (11, ''),
    (12, ' '),
    (13, '/app'),
    (14, ','),
    (15, 'zk1:2181,,zk2:2181'),
    (16, 'zk1:2181,zk2'),
    (17, ':2181'),
    (18, '[]:2181'),
    (19, 'z k:2181'),
    (20, repeat('z', 256) || ':2181'),
    (21, 'zk1:'),
    (22, 'zk1:port'),
    (23, 'zk1:-1'),
    (24, 'zk1:2181x'),
    (25, 'zk1:0'),
    (26, 'zk1:65536'),
    (27, 'zk1:2181/app/'),
    (28, 'zk1:2181/app//locks'),
    (29, 'zk1:2181/../app'),
    (30, 'zk1:2181/zookeeper'),
    (31, 'zk1:2181/app,zk2:2181/app'),
    (32, 'zk1:123456'),
    (33, '[::1:2181'),
    (34, '::1]:2181')
) AS t (n, value) ORDER BY n;

--
-- zklock.acl
--

SET zklock.acl = 'world';

SELECT n, left(value, 50) AS value, try('zklock.acl', value) FROM (VALUES
    (1, 'world:anyone:r'),
    (2, 'auth::cdrwa'),
    (3, 'digest:user:4a2Gd5hPuR9hBJmW0QGTNuOVg0E=:cdrwa,world:anyone:r'),
    (4, 'ip:10.0.0.0/8:cdrwa'),
    (5, rtrim(repeat('auth::r,', 16), ',')),
    (11, ''),
    (12, 'world:anyone'),
    (13, ':anyone:r'),
    (14, 'world:anyone:'),
    (15, 'world:anyone:all'),
    (16, 'world:anyone:R'),
    (17, 'world:anyone:r,'),
    (18, 'world:anyone:r,,auth::r'),
    (19, 'world:anyone:r, auth'),
    (20, rtrim(repeat('auth::r,', 17), ','))
) AS t (n, value) ORDER BY n;

--
-- zklock.auth: no query shows the secret
--

SET zklock.auth = 'digest app:xyzzy';
SET zklock.auth = 'xyzzy';
SET zklock.auth = ':xyzzy';
ALTER DATABASE :"DBNAME" SET zklock.auth = 'xyzzy';
SHOW zklock.auth;

SELECT set_config('zklock.auth', 'digest:regress:xyzzy', false);
SHOW zklock.auth;
SELECT current_setting('zklock.auth');
SELECT count(*) FROM pg_settings WHERE name = 'zklock.auth';
SET zklock.auth = 'xyzzy';
SHOW zklock.auth;
RESET zklock.auth;

--
-- The rest
--

\set VERBOSITY sqlstate
-- With the server's session, a session timeout that is set here has no effect:
-- a warning.
SET client_min_messages = error;
SET zklock.session_timeout = '999ms';
SET zklock.session_timeout = '86400001ms';
SET zklock.session_timeout = '1s';
SET zklock.connect_timeout = 0;
SET zklock.connect_timeout = 1;
SET zklock.confirm_commit = 'on';
SET zklock.confirm_commit = 'always';
SET zklock.log_level = 'error';
SET zklock.log_level = 'debug5';
\set VERBOSITY default
SHOW zklock.session_timeout;
SHOW zklock.connect_timeout;
SHOW zklock.confirm_commit;
SHOW zklock.log_level;
RESET ALL;

-- The prefix is reserved, if the server's version supports that.
DO $$
BEGIN
    IF current_setting('server_version_num')::int >= 150000 THEN
        PERFORM set_config('zklock.no_such_setting', '1', true);
        RAISE 'accepted';
    END IF;
EXCEPTION WHEN invalid_name THEN
    NULL;
END;
$$;

-- A commit succeeds with each setting of confirm_commit.
SET zklock.confirm_commit = 'always';
SELECT zk_lock_acquire('/zklock_regress/settings');
SET zklock.confirm_commit = 'off';
SELECT zk_lock_acquire('/zklock_regress/settings');
RESET zklock.confirm_commit;
SELECT zk_lock_release_all();

-- A session keeps its settings as long as it holds a lock; the server's
-- session has the server's settings.
SELECT zk_lock_acquire('/zklock_regress/settings');
SELECT session_id AS id FROM zk_session() \gset first_
SET client_min_messages = error;
SET zklock.session_timeout = '17s';
SELECT zk_lock_acquire('/zklock_regress/settings_too');
SELECT session_id = :'first_id' AS same FROM zk_session();
SELECT zk_lock_release_all();
SELECT zk_lock_acquire('/zklock_regress/settings');
SELECT (session_id = :'first_id') = (current_setting('zklock.session_mode') = 'server')
       AS as_expected FROM zk_session();
SELECT zk_lock_release_all();
RESET zklock.session_timeout;

--
-- An ordinary user can acquire locks and change timeouts, but not the servers,
-- or the check at commit.
--

CREATE ROLE regress_zklock_user;
SET ROLE regress_zklock_user;
SET zklock.hosts = 'zk1:2181';
SET zklock.acl = 'world:anyone:r';
SET zklock.auth = 'digest:regress:xyzzy';
SET zklock.auth_file = 'xyzzy';
SET zklock.log_level = 'debug1';
SET zklock.path_prefix = '/x';
SET zklock.confirm_commit = 'off';
SET zklock.confirm_commit = 'always';
SET zklock.session_mode = 'backend';
\set VERBOSITY sqlstate
SHOW zklock.auth;
SELECT current_setting('zklock.auth');
\set VERBOSITY default
SET client_min_messages = error;
SET zklock.session_timeout = '20s';
SET zklock.connect_timeout = '20s';
SELECT zk_lock_acquire('/zklock_regress/settings');
SELECT path, session_holds FROM zk_locks;
SELECT zk_lock_release('/zklock_regress/settings');
RESET ROLE;
DROP ROLE regress_zklock_user;
DROP FUNCTION try;
