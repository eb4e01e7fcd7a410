"""Runs each finding in every schedule and in threads, and adds the result to the table."""

from importlib.metadata import version

import pytest
from django.core.management import call_command

from pginterleave.pytest_plugin import Interleave

from . import done_once, first_rows, lost_updates, next_places
from .finding import Finding, seen_in_threads

FINDINGS = [
    each
    for module in (done_once, first_rows, lost_updates, next_places)
    for each in vars(module).values()
    if isinstance(each, Finding)
]


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda each: f"{each.package}-{each.operation}")
def test_found(finding: Finding, interleave: Interleave, table: list[list[str]]) -> None:
    call_command("createcachetable")
    verdict, counterexample = "holds", ""
    try:
        interleave(
            *finding.processes,
            setup=finding.setup,
            invariant=finding.invariant,
            expected=finding.expected,
        )
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
    package = f"{finding.package} {version(finding.package)}"
    shown = [package, finding.operation, f"**{verdict}**", f"{len(found.orders)}"]
    table.append([*shown, counterexample, threads, finding.says])
