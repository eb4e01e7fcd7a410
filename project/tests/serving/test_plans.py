"""How PostgreSQL finds the links of a redirect's statement: by index, whatever it knows of them."""

import asyncio
import re
from contextlib import closing
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import sql
from pytest_django import Settings

from project.serving.connection import Session
from shorturl.models import Visit
from shorturl.strategies.recording_visits import combined

pytestmark = pytest.mark.django_db(transaction=True)

UNKNOWN = {f"no-{number}": [Visit(is_bot=False)] for number in range(32)}
FRESH = sql.SQL("""
    BEGIN;
    CREATE SCHEMA fresh;
    CREATE TABLE fresh.shorturl_shorturl (LIKE shorturl_shorturl INCLUDING ALL);
    SET LOCAL search_path = fresh, public;
    INSERT INTO shorturl_shorturl (key, target_url)
        SELECT 'key-' || number, 'https://example.com/' FROM generate_series(1, %s) AS number
""")
STATISTICS = sql.SQL("SELECT reltuples FROM pg_class WHERE oid = 'shorturl_shorturl'::regclass")


@pytest.mark.parametrize(
    ("name", "statement", "values"),
    [
        ("count_key", combined.COUNT_KEY, combined.count_key_params("no-1", UNKNOWN["no-1"])),
        ("count_keys", combined.COUNT_KEYS, combined.count_keys_params(UNKNOWN)),
    ],
    ids=["one key", "several keys"],
)
@pytest.mark.parametrize(
    ("rows", "is_analyzed"),
    [(1000, False), (1, True)],
    ids=["many links without statistics", "statistics of one link"],
)
def test_links_are_found_by_index_in_a_fresh_database_too(
    settings: Settings, name: str, statement: Any, values: Any, rows: int, *, is_analyzed: bool
) -> None:
    """A plan is kept, so a scan of all links would become slower with each new link."""
    settings.DATABASE_POOLER = "none"  # only then statements are prepared

    async def explain() -> tuple[float, str]:
        with closing(Session()) as session:
            await session.fetch(FRESH, [rows])
            if is_analyzed:
                await session.fetch(sql.SQL("ANALYZE shorturl_shorturl"), [])
            ((known_rows,),) = await session.fetch(STATISTICS, [])
            assert await session.fetch(statement, values, name=name) == []
            execute = sql.SQL("EXPLAIN EXECUTE {} ({})").format(
                sql.Identifier(name), sql.SQL(", ").join(sql.Placeholder() * len(values))
            )
            return known_rows, "\n".join(line for (line,) in await session.fetch(execute, values))

    known_rows, plan = asyncio.run(explain())
    assert known_rows == (rows if is_analyzed else -1)  # -1: the table was never analyzed
    scans = re.findall(r"(\w+ Scan)(?: using \S+)? on shorturl_shorturl\b.*\n *(\w+ Cond)?", plan)
    assert scans, plan
    assert {*scans} == {("Index Scan", "Index Cond")}, plan
