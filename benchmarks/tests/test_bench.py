"""The rounds: what there is to measure, and whether what is answered is counted."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models import F

from benchmarks import bench, pgbench, wrk
from benchmarks.bench import CONNECTIONS, Bench, Subject, plan
from benchmarks.goals import BASELINE, GOALS, ONE_LINE, PGBENCH, RECORDING, SERVICE
from benchmarks.measurements import Load
from benchmarks.wrk import Sample
from loadtests.harness.serving import ROOT
from shorturl.models import ShortUrl
from shorturl.strategies import Verdict, resolving

pytestmark = pytest.mark.django_db(transaction=True)
RIGHT = [name for name, one in resolving.STRATEGIES.items() if one.verdict is not Verdict.WRONG]


def test_the_plan_measures_both_sides_of_every_goal() -> None:
    parts = plan(quick=False, largest=10_000_000, baseline=ROOT)
    found = {key: one for part in parts for key, one in part.found.items()}
    for goal in GOALS:
        assert (goal.ours, goal.load) in found
        if goal.theirs != PGBENCH:
            assert (goal.theirs, goal.their_load or goal.load) in found
    for name in [SERVICE, ONE_LINE, *RIGHT]:
        assert {load.connections for one, load in found if one == name} == set(CONNECTIONS)
    quick = {key for part in plan(quick=True, largest=1, baseline=None) for key in part.found}
    assert {name for name, _ in quick} == {SERVICE, RECORDING, ONE_LINE, *RIGHT, "on_conflict"}
    assert {(load.connections, load.links) for _, load in quick} == {(16, 10_000)}
    assert (BASELINE, Load()) not in quick


def test_what_is_answered_is_compared_with_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 answers, 2 of them errors, and 5 hits, or 8; then 5, where nothing is to be counted."""
    counted = 5

    def answer(url: str, **_: Any) -> Sample:
        ShortUrl.objects.update(hits=F("hits") + counted)
        errors = {"an error as the answer": 2}
        return Sample(requests=10, per_second=9.0, p50=1.0, p99=2.0, p999=3.0, errors=errors)

    monkeypatch.setattr(wrk, "run", answer)
    monkeypatch.setattr(pgbench, "run", lambda *_, **__: 18.0)
    monkeypatch.setattr(bench, "LinkTables", lambda sizes: None)
    measured = Bench([], seconds=1)
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
