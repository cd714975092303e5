-- The tables of the load.  Loaded into both servers after the SQL of the page, where b is
-- given the variable foreign.

-- A row for each entered transaction that committed, on the server where it ran: when it
-- had entered, and how many rows of other holders it has seen.
CREATE TABLE work (
	holder uuid NOT NULL,
	entered timestamptz NOT NULL DEFAULT clock_timestamp(),
	seen bigint NOT NULL,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id()
);

\if :{?foreign}

IMPORT FOREIGN SCHEMA public LIMIT TO (elsewhere) FROM SERVER data INTO public;

\else

-- A table that transactions on b read before they enter
CREATE TABLE elsewhere (n int);

-- The changes of the reservation, in order
CREATE TABLE turn (
	number bigint GENERATED ALWAYS AS IDENTITY,
	former uuid,
	deadline timestamptz NOT NULL,		-- of the former holder
	holder uuid,
	by_hand boolean NOT NULL DEFAULT current_setting('application_name') = 'administrator',
	at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION note_turn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.turn (former, deadline, holder) VALUES (OLD.holder, OLD.until, NEW.holder);
	RETURN NULL;
END $$;

CREATE TRIGGER note_turn AFTER UPDATE ON reservation
	FOR EACH ROW WHEN (OLD.holder IS DISTINCT FROM NEW.holder)
	EXECUTE FUNCTION note_turn();

\endif
