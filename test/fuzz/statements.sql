-- Functions and triggers for the statements of Statements.pm: they run SQL at
-- points where PostgreSQL calls functions.

CREATE EXTENSION zklock;

-- A role that may call everything
CREATE ROLE guest LOGIN;
GRANT CREATE ON SCHEMA public TO guest;
GRANT pg_monitor TO guest;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO guest;

-- Returns the last row of a statement, after it has run a second one.
CREATE FUNCTION run(sql text, other text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	EXECUTE coalesce(other, 'SELECT 1');
	EXECUTE sql INTO r;
	RETURN r::text;
END $$;

-- The same in subtransactions: an error or a cancellation is the result.
CREATE FUNCTION try(sql text, other text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN run(sql, other);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;

CREATE FUNCTION dare(sql text, other text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN run(sql, other);
EXCEPTION WHEN OTHERS OR query_canceled THEN
	RETURN try(other);
END $$;

-- Runs a statement for each row of another one.
CREATE FUNCTION during(sql text, other text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN EXECUTE sql LOOP
		EXECUTE other;
	END LOOP;
	RETURN r::text;
END $$;

CREATE PROCEDURE steps(sql text, other text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	COMMIT;
	EXECUTE other;
	ROLLBACK;
END $$;

CREATE FUNCTION with_defaults(
	a boolean DEFAULT zk_lock_acquire('/fuzz/a', '5ms'),
	b bigint DEFAULT zk_lock_release_all(),
	c boolean DEFAULT zk_lock_acquire('/fuzz/b', '5ms', 'shared'))
RETURNS text LANGUAGE sql AS 'SELECT format(''%s %s %s'', a, b, c)';

CREATE FUNCTION step(state text, sql text) RETURNS text LANGUAGE sql
AS $$ SELECT try('SELECT zk_lock_release_all(), zk_lock_status()') || sql $$;
CREATE AGGREGATE act(text) (SFUNC = step, STYPE = text, INITCOND = '');

-- Triggers that run the statements in the row
CREATE TABLE acts (
	at_insert text,
	at_end text,
	at_commit text,
	locked boolean DEFAULT zk_lock_acquire('/fuzz/d', '5ms', 'exclusive', 'transaction'));
GRANT ALL ON acts TO PUBLIC;
CREATE FUNCTION run_act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE coalesce(to_json(NEW)->>TG_ARGV[0], 'SELECT 1');
	RETURN NEW;
END $$;
CREATE TRIGGER at_insert BEFORE INSERT ON acts
	FOR EACH ROW EXECUTE FUNCTION run_act('at_insert');
CREATE TRIGGER at_end AFTER INSERT ON acts
	FOR EACH ROW EXECUTE FUNCTION run_act('at_end');
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON acts
	DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION run_act('at_commit');

-- The extension's owner can create a trigger that runs SQL while a lock is
-- fenced.
CREATE FUNCTION at_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF pg_trigger_depth() < 4 AND current_setting('fuzz.at_fence', true) <> '' THEN
		PERFORM public.run(current_setting('fuzz.at_fence'));
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER at_fence BEFORE INSERT OR UPDATE ON zk_lock_fences
	FOR EACH ROW EXECUTE FUNCTION at_fence();

-- A role with a prefix and a limit
CREATE ROLE confined LOGIN;
ALTER ROLE confined SET zklock.path_prefix = '/fuzz/confined';
ALTER ROLE confined SET zklock.max_locks_per_backend = 3;
CREATE SCHEMA confined AUTHORIZATION confined;

-- Functions of others that it calls
CREATE FUNCTION definer(path text) RETURNS boolean LANGUAGE sql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	AS $$ SELECT public.zk_lock_acquire($1, '5ms') $$;
CREATE FUNCTION lifted(path text) RETURNS boolean LANGUAGE sql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET zklock.path_prefix = '/lifted'
	AS $$ SELECT public.zk_lock_acquire('/lifted' || $1, '5ms') $$;

SET SESSION AUTHORIZATION confined;

-- Runs a statement.  In the processes of others, it must not change their locks.
CREATE FUNCTION confined.run(sql text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
	SET search_path = public AS $$
DECLARE
	before bigint := (SELECT count(*) FROM public.zk_locks WHERE pid = pg_backend_pid());
BEGIN
	PERFORM public.try(sql);
	IF current_setting('zklock.path_prefix') <> '/fuzz/confined' AND
		before <> (SELECT count(*) FROM public.zk_locks WHERE pid = pg_backend_pid())
	THEN
		RAISE LOG 'escaped: %', sql;
	END IF;
	RETURN true;
END $$;
CREATE TABLE confined.acts (sql text)
	WITH (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0);
CREATE INDEX ON confined.acts (confined.run(sql));
CREATE MATERIALIZED VIEW confined.shown AS SELECT confined.run(sql) FROM confined.acts;
ALTER TABLE confined.acts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY shown ON confined.acts USING (confined.run(sql));
CREATE FUNCTION confined.at_insert() RETURNS trigger LANGUAGE plpgsql
	SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM confined.run(NEW.sql);
	RETURN NEW;
END $$;
CREATE TRIGGER at_insert BEFORE INSERT ON confined.acts
	FOR EACH ROW EXECUTE FUNCTION confined.at_insert();

RESET SESSION AUTHORIZATION;
