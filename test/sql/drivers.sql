-- Drivers that bind strings as text or varchar need a cast for a timeout or a
-- mode, because PostgreSQL has no implicit one.

\set VERBOSITY sqlstate
PREPARE bare(text, varchar) AS
    SELECT zk_lock_acquire($1, $2);
\set VERBOSITY default
PREPARE cast_timeout(text, varchar) AS
    SELECT zk_lock_acquire($1, $2::interval);
PREPARE cast_all(varchar, varchar, text, varchar) AS
    SELECT zk_lock_acquire($1, $2::interval, $3::zk_lock_mode, $4::zk_lock_scope);
PREPARE cast_guard(varchar, text, text) AS
    SELECT zk_lock_guard($1, $2::interval, $3::zk_lock_mode) > 0;
PREPARE seconds(text, integer) AS
    SELECT zk_lock_acquire($1, make_interval(secs => $2));
PREPARE paths(varchar[], text) AS
    SELECT zk_lock_acquire_all($1, $2::interval);

BEGIN;
EXECUTE cast_timeout('/zklock_regress/drivers/1', '5s');
EXECUTE cast_timeout('/zklock_regress/drivers/2', NULL);
EXECUTE cast_all('/zklock_regress/drivers/3', '5 seconds', 'shared', 'transaction');
EXECUTE cast_guard('/zklock_regress/drivers/4', '00:00:05', 'write');
EXECUTE seconds('/zklock_regress/drivers/5', 5);
EXECUTE paths('{/zklock_regress/drivers/6, /zklock_regress/drivers/7}', '5s');
EXECUTE cast_all('/zklock_regress/drivers/8', '5s', 'brown', 'session');
ROLLBACK;

-- A string of unknown type needs no cast.
SELECT zk_lock_acquire('/zklock_regress/drivers/9', '5s', 'shared', 'session');
SELECT path, mode FROM zk_locks ORDER BY path;
SELECT zk_lock_release_all();
DEALLOCATE ALL;
