-- The functions that the clients of the soak test call.
--
-- Loaded into both servers.  The tables are A's; B, where psql is given the
-- variable dir_of_a, reaches them with postgres_fdw.  In a pair, each server
-- has its own: holding and sale are replicated, history is not.

CREATE EXTENSION zklock;

\if :{?dir_of_a}

CREATE EXTENSION postgres_fdw;
CREATE SERVER a FOREIGN DATA WRAPPER postgres_fdw
	OPTIONS (host :'dir_of_a', port :'port', dbname 'postgres');
CREATE USER MAPPING FOR CURRENT_USER SERVER a OPTIONS (user 'postgres');
IMPORT FOREIGN SCHEMA public LIMIT TO (holding, sale, history, fence)
	FROM SERVER a INTO public;

-- A row has A's transaction id, by its default there.
ALTER FOREIGN TABLE history DROP COLUMN xid;

CREATE FUNCTION fence_off(path text, mode zk_lock_mode, token bigint, number bigint)
RETURNS void
LANGUAGE sql
AS 'INSERT INTO fence VALUES (path, mode, token, number)';

\else

-- The locks protect the stock of products, the money in accounts.
CREATE TABLE holding (
	path text COLLATE "C" PRIMARY KEY,	-- of the lock, too
	amount integer NOT NULL
);
INSERT INTO holding
SELECT '/soak/product_' || n, 0 FROM generate_series(1, 2) n
UNION ALL
SELECT '/soak/account_' || n, 100 FROM generate_series(1, 4) n;

CREATE TABLE sale (
	path text NOT NULL
);

-- A row for each lock of each transaction that committed.
CREATE TABLE history (
	path text NOT NULL,
	mode zk_lock_mode NOT NULL,
	token bigint NOT NULL,
	number bigint NOT NULL,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	server text NOT NULL,
	client text NOT NULL,
	kind text NOT NULL,
	began timestamptz NOT NULL,			-- to read, with all locks held
	before integer NOT NULL,
	after integer NOT NULL
);

-- The fence for clients on the other server: an insertion of a row calls the
-- function. The table stays empty. (The search_path of postgres_fdw is empty,
-- too.)
CREATE TABLE fence (
	path text NOT NULL,
	mode zk_lock_mode NOT NULL,
	token bigint NOT NULL,
	number bigint NOT NULL
);

CREATE FUNCTION call_zk_fence() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
	PERFORM public.zk_fence(NEW.path, NEW.token, NEW.number, NEW.mode);
	RETURN NULL;
END
$$;

CREATE TRIGGER call_zk_fence BEFORE INSERT ON fence
	FOR EACH ROW EXECUTE FUNCTION call_zk_fence();

CREATE FUNCTION fence_off(path text, mode zk_lock_mode, token bigint, number bigint)
RETURNS void
LANGUAGE sql
AS 'SELECT zk_lock_fence(path, mode)';

\endif

-- Other work under locks, usually short. The rest is long enough for a fault
-- to hit a backend in it.
CREATE FUNCTION work() RETURNS void
LANGUAGE sql
AS 'SELECT pg_sleep(CASE WHEN random() < 0.01 THEN 0.5 ELSE random() * 0.003 END)';

-- One transaction: acquires the locks, reads, and writes values that depend on
-- what it has read. The setting soak.fence determines whether it fences as
-- well.
--
--	sale		one piece of a product; a new supply if there is none left
--	transfer	from one account to another, no more than there is
--	audit		the amounts as they are, under shared locks
--
-- Returns what identifies the transaction: the xid and the token that its rows of history
-- on the same server have.  (B's own xid is another one.)
CREATE FUNCTION trade(kind text, paths text[]) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
	mode zk_lock_mode := CASE kind WHEN 'audit' THEN 'shared' ELSE 'exclusive' END;
	tokens bigint[];
	numbers bigint[];
	befores integer[];
	afters integer[];
	sum integer;
	began timestamptz;
BEGIN
	-- zk_lock_guard() for each lock, in order, or one call for all locks.
	IF cardinality(paths) = 1 OR random() < 0.5 THEN
		PERFORM zk_lock_guard(path, '10s', mode) FROM unnest(paths) path;
	ELSIF NOT zk_lock_acquire_all(paths, '10s', mode, 'transaction') THEN
		RAISE lock_not_available;
	END IF;
	tokens := ARRAY(SELECT zk_lock_token(path, mode) FROM unnest(paths) path);
	numbers := ARRAY(SELECT zk_lock_grant_number(path, mode) FROM unnest(paths) path);
	PERFORM work();

	IF current_setting('soak.fence')::boolean THEN
		PERFORM fence_off(path, mode, token, number)
		FROM unnest(paths, tokens, numbers) u (path, token, number);
	END IF;
	began := clock_timestamp();
	befores := ARRAY(SELECT h.amount FROM holding h
					 WHERE h.path = ANY (paths) ORDER BY h.path);
	PERFORM work();

	CASE kind
		WHEN 'sale' THEN
			IF befores[1] > 0 THEN
				afters[1] := befores[1] - 1;
				INSERT INTO sale VALUES (paths[1]);
			ELSE
				kind := 'supply';
				afters[1] := 20;
			END IF;
		WHEN 'transfer' THEN
			sum := trunc(random() * 21) - 10;
			sum := greatest(least(sum, befores[1]), - befores[2]);
			afters := ARRAY[befores[1] - sum, befores[2] + sum];
		WHEN 'audit' THEN
			afters := befores;
	END CASE;

	FOR i IN 1 .. cardinality(paths) LOOP
		UPDATE holding h SET amount = afters[i]
		WHERE h.path = paths[i] AND mode <> 'shared';
		INSERT INTO history
			(path, mode, token, number, server, client, kind, began, before, after)
		VALUES (paths[i], mode, tokens[i], numbers[i],
				current_setting('cluster_name'),
				current_setting('application_name'), kind, began,
				befores[i], afters[i]);
	END LOOP;
	RETURN pg_current_xact_id() || ' ' || tokens[1];
END
$$;

-- What a client reads on a server that has a copy of A's table, with zklock.catch_up = 'all':
-- the amount of one path, after which grant of its lock.
CREATE FUNCTION look() RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
	place text := (SELECT path FROM holding ORDER BY random() LIMIT 1);
	mode zk_lock_mode := CASE WHEN random() < 0.5 THEN 'shared' ELSE 'exclusive' END;
	seen integer;
BEGIN
	IF place IS NULL OR NOT zk_lock_acquire(place, '10s', mode, 'transaction') THEN
		RAISE lock_not_available;
	END IF;
	SELECT amount INTO seen FROM holding WHERE path = place;
	RETURN concat_ws(' ', 'read', current_setting('application_name'), place,
					 zk_lock_token(place, mode), zk_lock_grant_number(place, mode), seen);
END
$$;

-- The procedure that a client calls in a loop.
CREATE FUNCTION trade() RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
	dice float := random();
	accounts text[] := ARRAY(SELECT '/soak/account_' || n
							 FROM generate_series(1, 4) n ORDER BY random());
BEGIN
	IF dice < 0.6 THEN
		RETURN trade('sale', ARRAY['/soak/product_' || 1 + trunc(random() * 2)]);
	ELSIF dice < 0.95 THEN
		RETURN trade('transfer', ARRAY(SELECT unnest(accounts[1:2]) path
										ORDER BY path));
	ELSE
		RETURN trade('audit', ARRAY(SELECT unnest(accounts) path
									 ORDER BY path));
	END IF;
END
$$;
