"""Each finding, in every schedule and in threads; the table says what came of it."""

import importlib
from importlib.metadata import version
from pathlib import Path

import pytest
from django.core.management import call_command

from pginterleave.pytest_plugin import Interleave

from .finding import Finding, seen_in_threads

HELPERS = {"__init__", "conftest", "finding", "models", "settings", "test_found"}
MODULES = sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - HELPERS)
FINDINGS = [
    each
    for name in MODULES
    for each in vars(importlib.import_module(f"found.{name}")).values()
    if isinstance(each, Finding)
]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda each: f"{each.package}-{each.operation}")
def test_found(finding: Finding, interleave: Interleave, table: list[list[str]]) -> None:
    assert version(finding.package) == finding.version
    call_command("createcachetable")
    race = {"invariant": finding.invariant, "expected": finding.expected}
    race["reduce"] = True
    verdict, counterexample = "holds", ""
    try:
        interleave(*finding.processes, setup=finding.setup, **race)
    except AssertionError:
        worst = interleave.found[-1].counterexample
        if worst is None:
            raise
        verdict, counterexample = "breaks", f"`{worst.order}`: {worst.violation}"
    found = interleave.found[-1]
    attempt = seen_in_threads(finding)
    assert (verdict == "breaks") is finding.breaks
    assert bool(attempt) is finding.breaks, "threads say something else"
    threads = f"in attempt {attempt}" if attempt else "never"
    package = f"{finding.package} {finding.version}"
    shown = [package, finding.operation, f"**{verdict}**", f"{len(found.orders)}"]
    table.append([*shown, counterexample, threads, finding.says])
