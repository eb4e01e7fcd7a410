"""The plan of the benchmark, the count of its answers, and the conditions of a pass."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import F

from loadtests.bench import pgbench, wrk
from loadtests.bench.bench import Bench, Part, Subject, plan
from loadtests.bench.measurements import (
    GOALS,
    HOT,
    ONE_LINE,
    SERVICE,
    Load,
    Measurement,
    Reading,
)
from loadtests.bench.report import Report, with_block
from loadtests.bench.services import Database, Gunicorn
from loadtests.bench.wrk import Sample
from loadtests.harness.serving import ROOT
from shorturl.models import ShortUrl
from shorturl.strategies.table import STRATEGIES, Verdict

RIGHT = [name for name, one in STRATEGIES["resolving"].items() if one.verdict is not Verdict.WRONG]


def test_the_plan_measures_every_right_strategy_and_both_sides_of_every_goal(
    database: Database,
) -> None:
    parts = plan(database, "lab-aaaaa", (database, ROOT), quick=False)
    found = {key: one for part in parts for key, one in part.found.items()}
    assert {side for goal in GOALS for side in goal.sides} <= found.keys()
    assert {*RIGHT, "on_conflict"} <= {name for name, _ in found}
    quick = {key for part in plan(database, "", None, quick=True) for key in part.found}
    assert quick < found.keys()
    assert {load.connections for _, load in quick} == {16}


def test_answers_are_compared_with_counted_hits(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 answers, 2 of them errors, and 5 or 8 hits; an application that counts nothing gets 5."""
    counted = 5

    def answer(*_: Any) -> Sample:
        ShortUrl.objects.update(hits=F("hits") + counted)
        errors = {"an error as the answer": 2}
        return Sample(requests=10, per_second=9.0, p50=1.0, p99=2.0, p999=3.0, errors=errors)

    monkeypatch.setattr(wrk, "run", answer)
    monkeypatch.setattr(pgbench, "run", lambda *_: 18.0)
    measured, gunicorn = Bench(seconds=1, times=1), Gunicorn(database)
    ShortUrl.objects.create(key="k1", target_url="https://example.com/", hits=100)
    service: Any = SimpleNamespace(url="", process=SimpleNamespace(pid=os.getpid()))
    reading = measured.ask(Subject("naive", [], gunicorn, script="a script"), Load(), service)
    assert measured.miscounted == 10 - 2 - 5
    assert reading.value("of_pgbench") == 0.5
    counted = 8
    measured.ask(Subject("naive", [], gunicorn), Load(), service)
    assert measured.miscounted == 3
    counted = 5
    one_line = Gunicorn(database, arguments=("one",), counts=False)
    measured.ask(Subject(ONE_LINE, [], one_line), Load(), service)
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
    for path in (ROOT / "README.md", ROOT / "docs" / "benchmarks.md"):
        assert with_block(path.read_text(), r"new \1") != path.read_text()
