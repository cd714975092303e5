-- The flash sale: one product, more buyers than pieces.
--
-- Paste this into psql, in a database that has run CREATE EXTENSION zklock, and
-- buy with
--
--     SELECT reduce_stock(1);
--
-- "make demo" loads this same file into two servers.  On the second one the two
-- tables already exist, as postgres_fdw foreign tables of the first one's.

CREATE TABLE IF NOT EXISTS product (
	id integer PRIMARY KEY,
	product_name text NOT NULL,
	stock integer NOT NULL
);

CREATE TABLE IF NOT EXISTS sale (
	product_id integer NOT NULL,
	sold_by text NOT NULL				-- the server that sold it
);

INSERT INTO product VALUES (1, 'ECS:1C2048M', 300) ON CONFLICT DO NOTHING;

-- Sells one piece of a product: true, or false when there is none left.
--
-- Read, check, decrement: the new value depends on the value that was read, so
-- other sales must not run in between.  For a counter alone, a single UPDATE
-- ... SET stock = stock - 1 WHERE stock > 0 would suffice without a lock; this
-- function represents work that does not fit into one statement.
--
-- The second argument selects what excludes other sales.
CREATE OR REPLACE FUNCTION reduce_stock(id integer,
										lock text DEFAULT 'zookeeper')
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
	in_stock integer;
BEGIN
	CASE lock
		WHEN 'none' THEN
			NULL;
		WHEN 'advisory' THEN
			PERFORM pg_advisory_xact_lock(id);
		WHEN 'zookeeper' THEN
			PERFORM zk_lock_guard('/product_' || id, '1 min');
	END CASE;

	SELECT p.stock INTO STRICT in_stock
	FROM product p WHERE p.id = reduce_stock.id;

	IF in_stock <= 0 THEN
		RETURN false;
	END IF;

	-- Check the voucher, reserve the parcel, ...: up to 10 ms of other work,
	-- which widens the window between the check and the decrement.
	PERFORM pg_sleep(random() * 0.010);

	UPDATE product p SET stock = in_stock - 1
	WHERE p.id = reduce_stock.id;

	INSERT INTO sale VALUES (id, current_setting('cluster_name'));

	RETURN true;
END
$$;
