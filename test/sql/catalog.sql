-- What the scripts of the extensions make.  A version of a script that is released never
-- changes, and its update script makes the same as the next one: see ../t/104_update.pl.

-- Without shared_preload_libraries, there is a warning.
SET client_min_messages = error;
CREATE EXTENSION zklock_advisory;
RESET client_min_messages;

\pset format unaligned

-- Privileges, but those of the owner
CREATE FUNCTION pg_temp.granted(acl aclitem[], standard aclitem[], owner oid) RETURNS text
LANGUAGE sql AS $$
    SELECT string_agg(
        CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END || ' ' || privilege_type,
        ', ' ORDER BY grantee::regrole::text COLLATE "C", privilege_type)
    FROM aclexplode(coalesce(acl, standard)) WHERE grantee <> owner
$$;

CREATE TEMPORARY VIEW members AS
SELECT d.classid, d.objid
FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname LIKE 'zklock%'
    -- PostgreSQL 17 and later do not list arrays and row types.
    AND NOT EXISTS (
        SELECT FROM pg_type
        WHERE d.classid = 'pg_type'::regclass AND oid = d.objid AND typtype <> 'e');

SELECT i.type, i.identity, obj_description(m.objid, m.classid::regclass::text) AS comment
FROM members m, pg_identify_object(m.classid, m.objid, 0) i
ORDER BY i.type COLLATE "C", i.identity COLLATE "C";

SELECT p.oid::regprocedure AS function, pg_get_function_arguments(p.oid) AS arguments,
    pg_get_function_result(p.oid) AS result, l.lanname AS language,
    CASE l.lanname WHEN 'c' THEN p.prosrc END AS symbol,
    p.prokind AS kind, p.provolatile AS volatility, p.proparallel AS parallel,
    p.proisstrict AS strict, p.prosecdef AS definer, p.proleakproof AS leakproof,
    p.procost AS cost, p.prorows AS rows, p.proconfig AS settings,
    pg_temp.granted(p.proacl, acldefault('f', p.proowner), p.proowner) AS granted
FROM members m JOIN pg_proc p ON p.oid = m.objid JOIN pg_language l ON l.oid = p.prolang
WHERE m.classid = 'pg_proc'::regclass
ORDER BY p.oid::regprocedure::text COLLATE "C";

SELECT n.nspname AS schema,
    pg_temp.granted(n.nspacl, acldefault('n', n.nspowner), n.nspowner) AS granted
FROM members m JOIN pg_namespace n ON n.oid = m.objid
WHERE m.classid = 'pg_namespace'::regclass
ORDER BY n.nspname COLLATE "C";

SELECT c.oid::regclass AS relation, c.relkind AS kind, c.reloptions AS options,
    pg_temp.granted(c.relacl, acldefault('r', c.relowner), c.relowner) AS granted
FROM members m JOIN pg_class c ON c.oid = m.objid
WHERE m.classid = 'pg_class'::regclass
ORDER BY c.relname COLLATE "C";

SELECT a.attrelid::regclass AS relation, a.attnum AS number, a.attname AS column,
    format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
    pg_get_expr(d.adbin, d.adrelid) AS standard,
    col_description(a.attrelid, a.attnum) AS comment
FROM members m JOIN pg_attribute a ON a.attrelid = m.objid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE m.classid = 'pg_class'::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid::regclass::text COLLATE "C", a.attnum;

SELECT conrelid::regclass AS relation, conname AS constraint, pg_get_constraintdef(oid) AS definition
FROM pg_constraint WHERE conrelid IN (SELECT objid FROM members) AND contype <> 'n'
ORDER BY conname COLLATE "C";

SELECT tgrelid::regclass AS relation, pg_get_triggerdef(oid) AS trigger, tgenabled AS enabled
FROM pg_trigger WHERE tgrelid IN (SELECT objid FROM members) AND NOT tgisinternal
ORDER BY tgname COLLATE "C";

SELECT indexrelid::regclass AS index, pg_get_indexdef(indexrelid) AS definition
FROM pg_index WHERE indrelid IN (SELECT objid FROM members)
ORDER BY indexrelid::regclass::text COLLATE "C";

SELECT t.oid::regtype AS type, enum_range
FROM members m JOIN pg_type t ON t.oid = m.objid
CROSS JOIN LATERAL (
    SELECT string_agg(enumlabel, ', ' ORDER BY enumsortorder) AS enum_range
    FROM pg_enum WHERE enumtypid = t.oid) e
WHERE m.classid = 'pg_type'::regclass AND t.typtype = 'e'
ORDER BY t.typname COLLATE "C";

-- Rows that pg_dump saves
SELECT c.relname AS relation, u.condition
FROM pg_extension e, unnest(e.extconfig, e.extcondition) AS u (relation, condition)
JOIN pg_class c ON c.oid = u.relation
WHERE e.extname LIKE 'zklock%'
ORDER BY c.relname COLLATE "C";

DROP EXTENSION zklock_advisory;
