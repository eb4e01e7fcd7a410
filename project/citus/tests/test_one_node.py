"""What a cluster needs of Citus's catalogue and functions alone, on any PostgreSQL.

The catalogue has one node, which is this database, and of each table one shard, which is a view.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest
from django.db import connection
from pytest_django import Settings

from project.citus import distribution, roll_up
from project.citus.management.commands import distribute
from project.citus.tests.on_cluster import (
    count_visits,
    follow_each_ten_times,
    make_links,
    test_several_roll_ups_at_once_move_each_visit_once,
    test_the_map_is_read_again_only_for_unknown_keys_and_once_for_all_of_them,
)
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits, ShortUrl
from shorturl.tests.callers import create_link, run

__all__ = [
    "test_several_roll_ups_at_once_move_each_visit_once",
    "test_the_map_is_read_again_only_for_unknown_keys_and_once_for_all_of_them",
]
pytestmark = pytest.mark.django_db(transaction=True)

TABLES = [model._meta.db_table for model in (ShortUrl, RecentVisits, HourlyVisits, DailyVisits)]
CATALOGUE = """
    CREATE TABLE pg_dist_shard AS
        SELECT table_name::regclass AS logicalrelid, 7 AS shardid, '-2147483648' AS shardminvalue
        FROM unnest(%s) AS table_name;
    CREATE TABLE pg_dist_placement AS SELECT 7 AS shardid, 0 AS groupid;
    CREATE TABLE pg_dist_node AS
        SELECT 0 AS groupid, 'here' AS nodename, 1 AS nodeport, 'primary' AS noderole
"""


@pytest.fixture(autouse=True)
def catalogue(db: None, settings: Settings) -> Iterator[None]:
    settings.DATABASE_CITUS = True
    with connection.cursor() as cursor:
        cursor.execute(CATALOGUE, [TABLES])
        for table in TABLES:
            cursor.execute(f"CREATE VIEW {table}_7 AS TABLE {table}")
        yield
        for table in TABLES:
            cursor.execute(f"DROP VIEW {table}_7")
        cursor.execute("DROP TABLE pg_dist_shard, pg_dist_placement, pg_dist_node")


def test_a_shard_that_another_roll_up_has_is_left_alone() -> None:
    make_links("a")
    follow_each_ten_times(["a"])
    with closing(connection.copy()) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(roll_up.TRY_LOCK, [7])
        run("roll_up")
        assert count_visits(["a"]) == (10, 0, 0)
    run("roll_up")
    assert count_visits(["a"]) == (0, 10, 10)


# `calls` stands for what is distributed: table, column, and the table that it is beside.
FUNCTIONS = """
    CREATE TABLE calls AS SELECT '' AS name, '' AS by, '' AS beside WHERE false;
    CREATE VIEW pg_dist_partition AS SELECT name::regclass AS logicalrelid FROM calls;
    CREATE FUNCTION create_reference_table(text) RETURNS void LANGUAGE sql
        AS $$ INSERT INTO calls VALUES ($1, '', '') $$;
    CREATE FUNCTION create_distributed_table(text, text, colocate_with text DEFAULT '')
        RETURNS void LANGUAGE sql AS $$ INSERT INTO calls VALUES ($1, $2, $3) $$;
    CREATE FUNCTION undistribute_table(text, cascade_via_foreign_keys bool) RETURNS void
        LANGUAGE sql AS $$ DELETE FROM calls WHERE name = $1 AND $2 $$
"""


@pytest.mark.django_db  # in a transaction: tables and the role are changed
def test_distribute_changes_each_table_and_undo_changes_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (distribution, distribute):
        monkeypatch.setattr(module, "INSTALLED", "SELECT true")
    monkeypatch.setattr(distribution, "DISTRIBUTED", "SELECT name FROM calls")
    before = create_link("before")
    by_key = [model._meta.db_table for model in distribution.BY_KEY]
    with connection.cursor() as cursor:

        def fetch(query: str) -> list[tuple[object, ...]]:
            cursor.execute(query)
            return list(cursor.fetchall())

        def read_keys() -> set[tuple[str, ...]]:
            columns = connection.introspection.get_primary_key_columns
            return {tuple(sorted(columns(cursor, table) or ())) for table in by_key}

        cursor.execute(FUNCTIONS + "; SET CONSTRAINTS ALL IMMEDIATE")
        run("distribute")
        reference = [(model._meta.db_table, "", "") for model in distribution.REFERENCE_MODELS]
        links, *others = by_key
        distributed = [(links, "key", ""), *((table, "key", links) for table in others)]
        assert fetch("SELECT * FROM calls") == [*reference, *distributed]
        assert read_keys() == {("id", "key")}
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert create_link("after").pk == before.pk + 1
        query = "SELECT unnest(rolconfig) FROM pg_roles WHERE rolname = current_user"
        assert {("lock_timeout=500ms",), ("citus.multi_shard_modify_mode=sequential",)} <= {
            *fetch(query)
        }
        assert run("distribute").output == "Nothing to do.\n"
        run("distribute", "--undo")
        assert fetch("SELECT * FROM calls") == []
        assert read_keys() == {("id",)}
        assert ("lock_timeout=500ms",) not in fetch(query)
        assert run("distribute", "--undo").output == "Nothing to do.\n"
