-- Lock paths with characters beyond ASCII.

SELECT getdatabaseencoding() <> 'UTF8' AS skip_test \gset
\if :skip_test
\quit
\endif

SET client_encoding = 'UTF8';

-- Java's characters have 16 bits, and ZooKeeper refuses some of them.
CREATE FUNCTION verdict(path text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    RETURN CASE WHEN zk_lock_acquire(path) AND zk_lock_release(path)
                THEN 'good' END;
EXCEPTION WHEN invalid_parameter_value THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN detail;
END;
$$;

SELECT what, verdict('/zklock_regress/' || path) FROM (VALUES
    ('U+0080', U&'\0080'),
    ('U+009F', U&'\009F'),
    ('U+00A0', U&'\00A0'),
    ('U+07FF', U&'\07FF'),
    ('U+0800', U&'\0800'),
    ('U+D7FF', U&'\D7FF'),
    ('U+E000', U&'\E000'),
    ('U+F8FF', U&'\F8FF'),
    ('U+F900', U&'\F900'),
    ('U+FFEF', U&'\FFEF'),
    ('U+FFF0', U&'\FFF0'),
    ('U+FFFF', U&'\FFFF'),
    ('U+10000', U&'\+010000'),
    ('U+1F512', U&'\+01F512'),
    ('U+10FFFF', U&'\+10FFFF')
) AS t (what, path) ORDER BY length(what), what COLLATE "C";

-- The limit counts bytes.
SELECT length(path), octet_length(path), verdict(path) FROM (VALUES
    ('/zklock_regress/' || repeat('ö', (1024 - 16) / 2)),
    ('/zklock_regress/x' || repeat('ö', (1024 - 16) / 2))
) AS t (path);

DROP FUNCTION verdict;

-- Names differ if any byte differs, and are shown as they were given.
SELECT zk_lock_acquire('/zklock_regress/größe/价格');
SELECT zk_lock_release('/zklock_regress/grösse/价格');
SELECT zk_lock_release('/zklock_regress/Größe/价格');
SELECT zk_lock_release(U&'/zklock_regress/gro\0308ße/价格');
SELECT path FROM zk_locks;
SELECT zk_lock_token('/zklock_regress/größe/价格') = token AS same FROM zk_locks;
SELECT zk_lock_release('/zklock_regress/größe/价格');
SELECT zk_lock_token('/zklock_regress/größe/价格');
SELECT zk_lock_acquire('größe');
