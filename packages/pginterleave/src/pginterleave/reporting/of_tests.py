"""The reports on the tests of a run: an HTML page, and annotations for GitHub."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pginterleave.picture import html_report as report
from pginterleave.picture.cells import REFUSED
from pginterleave.picture.wording import WRITES
from pginterleave.testing import Interleave


def of_test(test: str, run: Interleave, error: Any) -> list[report.Result]:
    """Return the result of each exploration of a test, as plain data that pytest-xdist can send.

    Args:
        test: the test's node id.
        run: the test's Interleave.
        error: pytest's ExceptionInfo of the test's exception, or None.
    """
    results = []
    for number, exploration in enumerate(run.explorations):
        verdict = report.SAFE if exploration.complete else report.NOT_PROVEN
        if exploration.counterexample:
            verdict = REFUSED if exploration.raising == exploration.violating else report.VIOLATED
        snapshots = exploration.isolation_level.lower() in ("repeatable read", "serializable")
        pictures = [
            report.picture(
                schedule,
                # In url(#…), only letters and digits are safe.
                name=re.sub("[^A-Za-z0-9]", "-", f" {test} {number} {schedule.order}"),
                snapshots=snapshots,
                replay=run.commands.get(schedule.order, ""),
            )
            for schedule in filter(None, (exploration.counterexample, exploration.other))
        ]
        results.append(_result(test, verdict, f"{exploration}", pictures, exploration.limits))
    if error and not run.explorations and not run.replayed:
        results.append(_result(test, report.NOT_PROVEN, str(error.value), []))
    worst = run.explorations[-1].counterexample if run.explorations else None
    if error and worst:
        # The line that sent the last write, or else the last step.
        sent = [step for step in worst.timeline if step.filename]
        writes = [step for step in sent if step.kind in WRITES]
        places = [(step.filename, step.lineno) for step in writes or sent]
        results[-1]["failed"] = [*(places or [("", 0)])[-1], worst.violation]
    return results


def _result(
    test: str, verdict: str, summary: str, pictures: list[str], limits: Sequence[str] = ()
) -> report.Result:
    return {
        "test": test,
        "verdict": verdict,
        "summary": summary,
        "pictures": pictures,
        "limits": [*limits],
        "failed": None,
    }


def annotations(results: Sequence[report.Result], root: Path) -> Iterator[str]:
    """Yield an annotation for each test that fails: GitHub shows it at the line of code."""
    for result in results:
        if not result["failed"]:
            continue
        filename, line, violation = result["failed"]
        path = Path(filename)
        name = path.relative_to(root) if path.is_relative_to(root) else path
        message = f"{result['test']}: {violation}"
        for character in "%\r\n":
            message = message.replace(character, f"%{ord(character):02X}")
        yield f"::error file={name},line={line},title=Race::{message}"
