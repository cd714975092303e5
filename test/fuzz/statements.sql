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
