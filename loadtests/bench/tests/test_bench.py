"""The plan of the benchmark, the count of its answers, and the conditions of a pass."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from loadtests.bench import database_in_use as database
from loadtests.bench import pgbench, wrk
from loadtests.bench.bench import CONNECTIONS, Bench, Part, Subject, plan
from loadtests.bench.measurements import (
    BASELINE,
    GOALS,
    HOT,
    ONE_LINE,
    RECORDING,
    SERVICE,
    Load,
    Measurement,
    Reading,
)
from loadtests.bench.report import Report, with_block
from loadtests.bench.wrk import Sample
from loadtests.harness.serving import ROOT
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import table as resolving
from shorturl.strategies.strategy import Verdict

TIMEOUT = 60  # seconds
RIGHT = [name for name, one in resolving.STRATEGIES.items() if one.verdict is not Verdict.WRONG]


@pytest.mark.django_db(transaction=True)
def test_the_plan_measures_both_sides_of_every_goal() -> None:
    parts = plan(quick=False, largest=10_000_000, baseline=ROOT)
    found = {key: one for part in parts for key, one in part.found.items()}
    assert {side for goal in GOALS for side in goal.sides} <= found.keys()
    for name in [SERVICE, ONE_LINE, *RIGHT]:
        assert {load.connections for one, load in found if one == name} == set(CONNECTIONS)
    quick = {key for part in plan(quick=True, largest=1, baseline=None) for key in part.found}
    assert {name for name, _ in quick} == {SERVICE, RECORDING, ONE_LINE, *RIGHT, "on_conflict"}
    assert {(load.connections, load.links) for _, load in quick} == {(16, 10_000)}
    assert (BASELINE, Load()) not in quick


@pytest.mark.django_db(transaction=True)
def test_a_table_of_links_leaves_as_much_room_for_new_versions_as_the_one_in_use() -> None:
    def options(table: str) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT reloptions FROM pg_class WHERE relname = %s", [table])
            return list(cursor.fetchone()[0])

    database.LinkTables([1])
    try:
        assert options("links_1") == options(database.IN_USE)
    finally:
        database.run("DROP TABLE {}", "links_1")
        database.run("RESET statement_timeout")


@pytest.mark.django_db(transaction=True)
def test_answers_are_compared_with_counted_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 answers, 2 of them errors, and 5 or 8 hits; an application that counts nothing gets 5."""
    counted = 5

    def answer(url: str, **_: Any) -> Sample:
        ShortUrl.objects.update(hits=F("hits") + counted)
        errors = {"an error as the answer": 2}
        return Sample(requests=10, per_second=9.0, p50=1.0, p99=2.0, p999=3.0, errors=errors)

    monkeypatch.setattr(wrk, "run", answer)
    monkeypatch.setattr(pgbench, "run", lambda *_, **__: 18.0)
    monkeypatch.setattr(database, "LinkTables", lambda sizes: None)
    measured = Bench([], seconds=1, times=1)
    ShortUrl.objects.create(key="k1", target_url="https://example.com/", hits=100)
    service: Any = SimpleNamespace(url="", process=SimpleNamespace(pid=os.getpid()))
    reading = measured.ask(Subject("naive", [], "a script"), Load(), service)
    assert measured.miscounted == 10 - 2 - 5
    assert reading.value("of_pgbench") == 0.5
    counted = 8
    measured.ask(Subject("naive", []), Load(), service)
    assert measured.miscounted == 3
    counted = 5
    measured.ask(Subject(ONE_LINE, [], application="one"), Load(), service)
    assert measured.miscounted == 3


@pytest.mark.parametrize(
    ("errors", "counted", "miscounted"),
    [
        ({}, 100, 0),
        ({}, 99, 1),  # one lost
        ({}, 101, 1),  # one counted twice
        ({"an error as the answer": 3}, 97, 0),
        ({"an error as the answer": 3}, 96, 1),
        ({"an error as the answer": 3}, 100, 0),  # counted before they failed
        ({"not answered": 3, "not read": 1}, 104, 0),
        ({"not answered": 3, "not read": 1}, 105, 1),
        ({"not answered": 3, "not read": 1}, 99, 1),
        ({"too late": 3}, 100, 0),  # they were answered
        ({"too late": 3}, 99, 1),
        ({"too late": 3}, 101, 1),
    ],
)
def test_miscounted_requests(errors: dict[str, int], counted: int, miscounted: int) -> None:
    sample = Sample(requests=100, per_second=1, p50=1, p99=1, p999=1, errors=errors)
    assert sample.miscounted(counted) == miscounted


@pytest.mark.parametrize(
    ("per_second", "miscounted", "late", "passes"),
    [(1_000, 0, 0, True), (1_000, 1, 0, False), (1_000, 0, 1, False), (999, 0, 0, False)],
)
def test_when_a_run_passes(per_second: float, miscounted: int, late: int, passes: bool) -> None:
    sample = Sample(1_000, per_second, 1.0, 9.0, 20.04, {"too late": late})
    enough = 1_000 / GOALS[0].at_least  # of pgbench, for 1,000 requests per second
    service = Measurement(SERVICE, HOT, [Reading(sample, 250.4, None, enough)])
    part = Part("Title", [], 1, {(SERVICE, HOT): service})
    assert Report([part], {}, miscounted=miscounted, seconds=1).passes is passes


def test_the_documents_have_a_block_each() -> None:
    block = "a\n<!-- make bench -->\n{}\n<!-- end -->\nb\n<!-- end -->\n"
    assert with_block(block.format("old\n\nlines"), r"new \1") == block.format(r"new \1")
    for path in (ROOT / "README.md", ROOT / "docs" / "benchmarks.md"):
        assert with_block(path.read_text(), "") != path.read_text()


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def test_without_a_database() -> None:
    ended = run("-m", "loadtests.bench.service", DATABASE_URL="postgres://nobody@127.0.0.1:1/none")
    assert ended.returncode == 2
    assert ended.stderr.startswith("bench: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.django_db
def test_the_service_uses_the_database_in_use() -> None:
    """No DATABASE_URL names the test database."""
    script = (
        "import django; django.setup();"
        "from django.db import connection as c; c.ensure_connection();"
        "print(c.connection.info.dbname)"
    )
    environment = {"SHORTURL_LOCAL": "on", "DJANGO_SETTINGS_MODULE": "project.settings"}
    ended = run("-c", script, **environment, DATABASE_URL=database.url())
    assert ended.stdout.strip() == connection.settings_dict["NAME"], ended.stderr
