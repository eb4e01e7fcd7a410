"""A load run in one process, without Locust: its verdict and its result."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadtests.harness.lab_api import LabError
from loadtests.harness.load_run import LoadRun
from loadtests.harness.result import LoadResult

OPENED: dict[str, Any] = {
    "space": "lab-aaaaa",
    "operations": {
        "resolving": {"naive": "wrong", "f_expression": "right"},
        "creating": {"naive": "wrong", "on_conflict": "right"},
    },
    "records_visits": True,
}


def run(tmp_path: Path, operation: str = "resolving", strategy: str = "naive") -> LoadRun:
    """Return a run at a host that does not answer."""
    made = LoadRun(operation)
    made.host = "http://127.0.0.1:1"
    made.options = Namespace(
        strategy=strategy, reports=str(tmp_path), faults=False, kill_worker_of=None
    )
    return made


def test_the_verdict_of_the_table(tmp_path: Path) -> None:
    assert run(tmp_path, "creating", "on_conflict").verdict(OPENED) == "right"
    assert run(tmp_path, "resolving", "service").verdict(OPENED) == "right"
    without = {**OPENED, "records_visits": False}
    with pytest.raises(LabError, match="the service records no visits"):
        run(tmp_path, "recording_visits", "service").verdict(without)
    with pytest.raises(LabError, match="no strategy 'nope'; there are naive, f_expression"):
        run(tmp_path, strategy="nope").verdict(OPENED)


def test_there_is_no_result_before_the_last_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows the result at once, and a hit that the first look misses may only be late."""
    load = run(tmp_path, strategy="in_memory")
    load.open()
    one, seen = load.reconciled(), []
    looks = [replace(one, lost=lost) for lost in (2, 1, 0)]

    def look() -> LoadResult:
        seen.append(load.result)
        return looks.pop(0)

    monkeypatch.setattr(load, "reconciled", look)
    assert load.finish().lost == 0
    assert (seen, load.result) == ([None] * 3, one)
