"""What project/citus_strategies.py says of each strategy follows from the statements it sends."""

import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings
from ruamel.yaml import YAML

from project import citus
from project.citus_strategies import EVERY_SHARD, REFUSED, SINGLE_SHARD, TABLES
from project.tests import on_citus
from project.tests.conftest import ROOT
from shorturl import operations
from shorturl.models import ShortUrl, VisitCount
from shorturl.resolving import in_memory
from shorturl.strategies import Verdict

pytestmark = pytest.mark.django_db


def test_every_strategy_has_a_line_in_the_tables() -> None:
    assert {name: sorted(lines) for name, lines in TABLES.items()} == {
        name: sorted(strategies) for name, strategies in operations.STRATEGIES.items()
    }


COUNTING = [
    (operation, name)
    for operation in ("resolving", "recording_visits")
    for name, strategy in operations.STRATEGIES[operation].items()
    if strategy.function is not in_memory.resolve and TABLES[operation][name][0] != REFUSED
]


MAKING = [
    (operation, name)
    for operation in ("creating", "reusing", "idempotency", "spending")
    for name, strategy in operations.STRATEGIES[operation].items()
    if strategy.verdict is Verdict.RIGHT and TABLES[operation][name][0] != REFUSED
]


@pytest.mark.parametrize(("operation", "name"), COUNTING)
def test_what_the_table_says_follows_from_the_statements(operation: str, name: str) -> None:
    """They name the key, by which Citus finds the node, or not; none calls what is VOLATILE."""
    ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    with CaptureQueriesContext(connection) as captured:
        for _ in range(2):
            on_citus.call(operation, name, "hot")
    sent = [query["sql"] for query in captured if "shorturl_" in query["sql"]]
    functions = {name for sql in sent for name in re.findall(r"(\w+)\(", sql)}
    assert "statement_timestamp" in functions
    volatile = "SELECT proname FROM pg_proc WHERE provolatile = 'v'"
    assert functions.isdisjoint(name for (name,) in citus.rows(volatile))
    by_key = [re.search(r"\bkey\"? = |INSERT INTO \S+ .*\bkey", sql) for sql in sent]
    assert all(by_key) is (TABLES[operation][name][0] != EVERY_SHARD)


def of_one_key(sql: str) -> bool:
    """Return whether Citus gives a statement that changes visits to one node as it is.

    One that inserts does so by VALUES and nothing else; in all others, each part names the key.
    """
    if sql.lstrip().startswith("INSERT"):
        keys = re.findall(r"\('(\w+)', '\d{4}-", sql)
        return len({*keys}) == 1 and not re.search(r"\b(WITH|SELECT)\b", sql)
    keys = re.findall(r"\bkey = '(\w+)'", sql)
    return (
        len({*keys}) == 1
        and len(keys) == sql.count("shorturl_visitcount")
        and "INSERT" not in sql
        and not re.search(r"RETURNING [^)]*\(", sql)
    )


@pytest.mark.parametrize("name", operations.STRATEGIES["rolling_up"])
def test_what_a_roll_up_changes_is_of_one_key_as_the_table_says(
    name: str, settings: Settings
) -> None:
    """With all that belongs to it: compaction, coarsening, partial counts."""
    settings.SHORTURL_ROLLING_UP = name
    now = timezone.now()
    on_citus.fill(["one", "two"], now)
    VisitCount.objects.filter(starts_at__lt=now - timedelta(days=1), unit="h").update(unit=None)
    on_citus.fill(["one"], now - timedelta(days=1))
    with CaptureQueriesContext(connection) as sent:
        call_command("roll_up")
    changing = [sql for sql in map(on_citus.sql_of, sent) if re.search(on_citus.CHANGES, sql)]
    assert all(map(of_one_key, changing)) is (TABLES["rolling_up"][name][0] == SINGLE_SHARD)
    assert {"GROUPING SETS" in sql for sql in changing if "DELETE" in sql} == {True, False}


def test_the_profile_chooses_no_strategy_that_cannot_run_there(settings: object) -> None:
    services = YAML(typ="safe", pure=True).load(ROOT / "docker-compose.yml")["services"]
    chosen = {
        operation: services["citus-web"]["environment"].get(
            operations.setting(operation), getattr(settings, operations.setting(operation))
        )
        for operation in TABLES
    }
    ways = {operation: TABLES[operation][name][0] for operation, name in chosen.items()}
    assert REFUSED not in ways.values()
    one_node = ("creating", "resolving", "recording_visits", "rolling_up")
    assert {ways[operation] for operation in one_node} == {SINGLE_SHARD}
