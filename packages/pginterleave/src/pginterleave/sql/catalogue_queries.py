"""The queries of PostgreSQL's catalogue for names that do not stand for plain tables."""

# The names of functions, and of relations that are not plain tables. The oids of built-in objects
# are below 16384; of these, only the functions are listed that run a query given as a text.
SPECIAL_NAMES = """
    SELECT proname::text, 'function', ''
    FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
    WHERE pg_proc.oid >= 16384 AND (provolatile = 'v' OR lanname NOT IN ('c', 'internal'))
        OR proname IN ('query_to_xml', 'query_to_xmlschema', 'query_to_xml_and_xmlschema',
            'cursor_to_xml', 'table_to_xml', 'ts_stat', 'ts_rewrite')
    UNION
    SELECT relname::text, 'relation', ''
    FROM pg_class WHERE oid >= 16384 AND (relkind IN ('v', 'm', 'f', 'S') OR relrowsecurity)
    UNION
    SELECT '', 'event trigger', evtname FROM pg_event_trigger WHERE evtenabled <> 'D'
"""
# The names by which a statement calls a function without naming it, or reads the transaction's
# clock. The columns: the name in the statement, the kind and the name of the called object, and
# whether only statements that write call it.
HIDDEN_CALLS = """
WITH RECURSIVE called (class, object, kind, name) AS (
    SELECT 'pg_proc', pg_proc.oid, 'function', proname::text
    FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
    WHERE pg_proc.oid >= 16384 AND (provolatile = 'v' OR lanname NOT IN ('c', 'internal'))
    UNION ALL
    SELECT 'pg_trigger', oid, 'trigger', tgname FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'pg_class', oid, 'foreign table', relname FROM pg_class WHERE relkind = 'f'
    UNION ALL
    SELECT class, object, 'clock', '' FROM (
        SELECT 'pg_attrdef', oid, pg_get_expr(adbin, adrelid) FROM pg_attrdef
        UNION ALL SELECT 'pg_type', oid, typdefault FROM pg_type
        UNION ALL SELECT 'pg_constraint', oid, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE contype = 'c'
        UNION ALL SELECT 'pg_rewrite', oid, pg_get_ruledef(oid) FROM pg_rewrite WHERE oid >= 16384
        UNION ALL SELECT 'pg_policy', oid, concat(pg_get_expr(polqual, polrelid), ' ',
            pg_get_expr(polwithcheck, polrelid)) FROM pg_policy
    ) AS expressions (class, object, definition)
    WHERE definition ~* ('\\m(now|today|tomorrow|yesterday|transaction_timestamp'
        '|current_(date|time|timestamp)|local(time|timestamp))\\M')
), uses (class, object, used_class, used_object, by_writing) AS (
    -- The parts of an expression, an operator, a cast, a view or an aggregate.
    -- A part of a domain is its default, which only statements that write call.
    SELECT class, objid, used_class, refobjid, class = 'pg_type'
        AND EXISTS (SELECT FROM pg_type WHERE oid = objid AND typtype = 'd')
    FROM pg_depend, text(classid::regclass) AS class, text(refclassid::regclass) AS used_class
    WHERE objid >= 16384 AND refobjid >= 16384 AND (
        used_class IN ('pg_proc', 'pg_operator', 'pg_type') AND class IN ('pg_attrdef', 'pg_cast',
            'pg_class', 'pg_constraint', 'pg_operator', 'pg_policy', 'pg_rewrite', 'pg_type')
        OR (class, used_class) IN (('pg_proc', 'pg_proc'), ('pg_rewrite', 'pg_class')))
    -- The parts of a table or a type.
    UNION ALL SELECT 'pg_class', adrelid, 'pg_attrdef', oid, true FROM pg_attrdef
    UNION ALL SELECT 'pg_class', conrelid, 'pg_constraint', oid, true FROM pg_constraint
    UNION ALL SELECT 'pg_class', indrelid, 'pg_class', indexrelid, true FROM pg_index
    UNION ALL SELECT 'pg_class', tgrelid, 'pg_trigger', oid, true FROM pg_trigger
    UNION ALL SELECT 'pg_class', polrelid, 'pg_policy', oid, false FROM pg_policy
    UNION ALL SELECT 'pg_class', ev_class, 'pg_rewrite', oid, ev_type <> '1' FROM pg_rewrite
    UNION ALL SELECT 'pg_class', attrelid, 'pg_type', atttypid, false FROM pg_attribute
        WHERE atttypid >= 16384
    UNION ALL SELECT 'pg_type', oid, 'pg_class', typrelid, false FROM pg_type WHERE typtype = 'c'
    UNION ALL SELECT 'pg_type', oid, 'pg_type', unnest(ARRAY[typelem, typbasetype]), false
        FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT 'pg_type', contypid, 'pg_constraint', oid, false FROM pg_constraint
    UNION ALL SELECT 'pg_type', unnest(ARRAY[castsource, casttarget]), 'pg_cast', oid, false
        FROM pg_cast WHERE oid >= 16384
    UNION ALL SELECT 'pg_type', unnest(ARRAY[oprleft, oprright]), 'pg_operator', oid, false
        FROM pg_operator WHERE oid >= 16384
    -- The tables that a statement also touches: partitions, and tables that a key cascades to.
    UNION ALL SELECT 'pg_class', inhparent, 'pg_class', inhrelid, false FROM pg_inherits
    UNION ALL SELECT 'pg_class', confrelid, 'pg_class', conrelid, true FROM pg_constraint
        WHERE confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd')
), reaching (class, object, by_writing, kind, name) AS (
    SELECT class, object, false, kind, name FROM called
    UNION
    SELECT uses.class, uses.object, uses.by_writing OR reaching.by_writing, kind, name
    FROM uses JOIN reaching ON used_class = reaching.class AND used_object = reaching.object
    WHERE uses.object <> 0
), truncating (object, name) AS (
    -- TRUNCATE … CASCADE follows every foreign key.
    SELECT tgrelid, tgname FROM pg_trigger WHERE NOT tgisinternal AND tgtype & 32 <> 0
    UNION
    SELECT above, name FROM truncating JOIN (
        SELECT confrelid, conrelid FROM pg_constraint WHERE contype = 'f'
        UNION ALL SELECT inhparent, inhrelid FROM pg_inherits
    ) AS tables (above, below) ON below = object
)
SELECT coalesce(relname, typname, oprname, proname)::text, kind, reaching.name,
    bool_and(by_writing)
FROM reaching
    LEFT JOIN pg_class ON class = 'pg_class' AND pg_class.oid = object AND relkind <> 'i'
    LEFT JOIN pg_type ON class = 'pg_type' AND pg_type.oid = object
    LEFT JOIN pg_operator ON class = 'pg_operator' AND pg_operator.oid = object
    LEFT JOIN pg_proc ON class = 'pg_proc' AND pg_proc.oid = object
WHERE coalesce(relname, typname, oprname, proname) IS NOT NULL
    AND NOT (class = 'pg_proc' AND kind = 'function' AND proname = reaching.name)
GROUP BY 1, 2, 3
UNION ALL
SELECT relname::text, 'trigger of TRUNCATE', name, true
FROM truncating JOIN pg_class ON pg_class.oid = object
ORDER BY 1, 2, 3
"""
