-- Stand-ins for Citus' catalogue and functions in a plain PostgreSQL. They refuse what Citus 13
-- refuses, and note in the catalogue, as "local", what foreign keys tie to a reference table.
CREATE TABLE pg_dist_local_group AS SELECT 0 AS groupid;
CREATE TABLE pg_dist_partition (
    logicalrelid regclass PRIMARY KEY, partmethod "char", repmodel "char");
CREATE VIEW ties AS
    SELECT conrelid::regclass AS one, confrelid::regclass AS other
    FROM pg_constraint WHERE contype = 'f'
    UNION SELECT confrelid::regclass, conrelid::regclass
    FROM pg_constraint WHERE contype = 'f';
CREATE FUNCTION tied(regclass) RETURNS SETOF regclass LANGUAGE sql AS $$
    WITH RECURSIVE found(name) AS (
        SELECT $1 UNION SELECT other FROM ties JOIN found ON one = name
    ) SELECT name FROM found
$$;
CREATE FUNCTION refuse_identity(regclass) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = $1 AND attidentity <> '') THEN
        RAISE 'cannot complete operation on a table with identity column';
    END IF;
END $$;
CREATE FUNCTION refuse_referring(regclass) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (
        SELECT FROM pg_constraint
        WHERE contype = 'f' AND conrelid = $1 AND confrelid <> $1 AND NOT EXISTS (
            SELECT FROM pg_dist_partition WHERE logicalrelid = confrelid AND repmodel = 't')
    ) THEN
        RAISE 'referenced table must be a distributed table or a reference table';
    END IF;
END $$;
CREATE FUNCTION create_reference_table(regclass) RETURNS void LANGUAGE sql AS $$
    SELECT refuse_referring($1);
    INSERT INTO pg_dist_partition SELECT tied, 'n', 's' FROM tied($1)
        WHERE tied = $1
        OR current_setting('citus.enable_local_reference_table_foreign_keys', true)
            IS DISTINCT FROM 'off'
        ON CONFLICT DO NOTHING;
    UPDATE pg_dist_partition SET repmodel = 't' WHERE logicalrelid = $1
$$;
CREATE FUNCTION create_distributed_table(
    regclass, text, colocate_with text DEFAULT 'default'
) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = $1) THEN
        PERFORM refuse_identity($1);
    END IF;
    IF EXISTS (
        SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        WHERE indrelid = $1 AND indisunique AND attname = $2 AND attnum <> ALL (indkey)
    ) THEN
        RAISE 'Distributed relations cannot have constraints without the partition column';
    END IF;
    PERFORM refuse_referring($1);
    INSERT INTO pg_dist_partition VALUES ($1, 'h', 's')
        ON CONFLICT (logicalrelid) DO UPDATE SET partmethod = 'h';
END $$;
CREATE FUNCTION undistribute_table(regclass, cascade_via_foreign_keys bool)
RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = $1) THEN
        RAISE 'cannot undistribute table because the table is not distributed';
    END IF;
    IF NOT cascade_via_foreign_keys AND (SELECT count(*) FROM tied($1)) > 1 THEN
        RAISE 'cannot complete operation because table % has a foreign key', $1;
    END IF;
    PERFORM refuse_identity(tied) FROM tied($1);
    DELETE FROM pg_dist_partition WHERE logicalrelid IN (SELECT tied($1));
END $$;
