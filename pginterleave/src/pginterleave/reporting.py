"""What the tests of a run have found: a page of HTML, annotations of a CI, files of JSON."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pginterleave import formatting
from pginterleave.picture import html_report as report
from pginterleave.picture.cells import REFUSED
from pginterleave.picture.recorded import WRITES
from pginterleave.results import Exploration, Schedule
from pginterleave.testing import Interleave

Found = dict[str, Any]  # plain data, which pytest-xdist hands on


def of_test(test: str, run: Interleave, error: Any) -> list[Found]:
    """Return what each exploration of a test has found.

    Args:
        test: its node id.
        run: what it has explored with.
        error: pytest's description of the exception that it ended in, or None.
    """
    found = [_of_exploration(test, run, number) for number in range(len(run.found))]
    if error and not run.found and not run.replayed:
        verdict = {"verdict": report.NOT_PROVEN, "summary": str(error.value)}
        found.append({"test": test, "pictures": [], "failed": None, **verdict})
    worst = run.found[-1].counterexample if run.found else None
    if error and worst:
        found[-1]["failed"] = [*_line(worst), worst.violation]
    return found


def page(found: Sequence[Found]) -> str:
    names = ("test", "verdict", "summary")
    return report.page(
        [
            report.Entry(**{name: each[name] for name in names}, pictures=tuple(each["pictures"]))
            for each in found
        ]
    )


def annotations(found: Sequence[Found], root: Path) -> Iterator[str]:
    """Yield for each test that fails what makes GitHub show it at the line of code."""
    for each in found:
        if not each["failed"]:
            continue
        filename, line, violation = each["failed"]
        path = Path(filename)
        name = path.relative_to(root) if path.is_relative_to(root) else path
        message = f"{each['test']}: {violation}"
        for character in "%\r\n":
            message = message.replace(character, f"%{ord(character):02X}")
        yield f"::error file={name},line={line},title=Race::{message}"


def _of_exploration(test: str, run: Interleave, number: int) -> Found:
    exploration = run.found[number]
    verdict = report.SAFE if exploration.complete else report.NOT_PROVEN
    if exploration.counterexample:
        all_raise = exploration.raising == exploration.violating
        verdict = REFUSED if all_raise else report.VIOLATED
    shown = [each for each in (exploration.counterexample, exploration.other) if each]
    replay = {each.counterexample.order: each.replay for each in run.failures}
    pictures = [
        _picture(each, exploration, f"{test} {number} {each.order}", replay.get(each.order, ()))
        for each in shown
    ]
    return {
        "test": test,
        "verdict": verdict,
        "summary": f"{exploration}.",
        "pictures": pictures,
        "failed": None,
    }


def _picture(schedule: Schedule, exploration: Exploration, name: str, replay: Sequence[str]) -> str:
    snapshots = exploration.isolation_level.lower() in ("repeatable read", "serializable")
    # Of a name that stands in url(#…), only letters and digits are safe.
    safe = "".join(each if each.isalnum() and each.isascii() else "-" for each in name)
    return report.picture(schedule, name=f"-{safe}", snapshots=snapshots, replay=replay)


def _line(schedule: Schedule) -> tuple[str, int]:
    sent = [step for step in schedule.timeline if step.filename]
    writes = [step for step in sent if step.kind in WRITES]
    return next(((step.filename, step.lineno) for step in reversed(writes or sent)), ("", 0))


if TYPE_CHECKING:
    from pginterleave.testing import Failure


def write_artifact(folder: Path, name: str, test: str, failures: "list[Failure]") -> Path:
    """Write what a test has found to `folder/name.json`, and return the path.

    The file holds a list with an entry for each call that failed: the summary, the counterexample
    with its steps and outcomes, the counterexample drawn as text, and how to replay it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    found = [
        {
            "test": test,
            "summary": failure.summary,
            "counterexample": _schedule(failure.counterexample),
            "drawn": failure.counterexample.draw(),
            "replay": failure.replay,
        }
        for failure in failures
    ]
    path.write_text(json.dumps(found, indent=2, default=repr) + "\n")
    return path


def _schedule(schedule: Schedule) -> dict[str, Any]:
    return {
        "order": schedule.order,
        "violation": schedule.violation,
        "steps": [
            {each.name: getattr(step, each.name) for each in dataclasses.fields(step)}
            for step in schedule.timeline
        ],
        "outcomes": [
            {
                "returned": outcome.returned,
                "raised": outcome.raised and formatting.exception(outcome.raised),
            }
            for outcome in schedule.outcomes
        ],
    }
