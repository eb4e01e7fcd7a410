"""What went wrong in a broken schedule: which read was stale, and which write was lost."""

from itertools import pairwise
from typing import Any

WRITES = {"INSERT", "UPDATE", "DELETE", "MERGE"}
READS = {"SELECT"}

Steps = list[dict[str, Any]]


def marks(steps: Steps) -> dict[int, list[str]]:
    """Return the marks of a broken schedule's steps, by their number (from 1).

    A process that reads, and writes afterwards, takes what it has read for the truth. Where
    another one has written in between, the read was stale by then, and a write that did not fail
    goes over the other one's: that is the lost write. Locks and expressions in SQL prevent the
    former, and a schedule that is not broken has neither: ask for broken ones only.
    """
    found: dict[int, list[str]] = {}
    numbered = list(enumerate(steps, start=1))
    for process in {step["process"] for step in steps}:
        own = [
            (number, step)
            for number, step in numbered
            if step["process"] == process and step["kind"] in READS | WRITES
        ]
        for (read, first), (write, second) in pairwise(own):
            if first["kind"] not in READS or second["kind"] not in WRITES:
                continue
            between = [
                number
                for number, step in numbered
                if step["process"] != process
                and step["kind"] in WRITES
                and wrote(step)
                and first["until"] < step["until"] <= second["until"]
                and number != write
            ]
            if not between:
                continue
            _add(found, read, f"stale: process {steps[between[0] - 1]['process']} writes after it")
            if wrote(second) and second["kind"] == "UPDATE":
                for number in between:
                    _add(found, number, f"lost: overwritten by step {write}")
                _add(found, write, f"overwrites step {' and '.join(map(str, between))}")
            elif second["error"]:
                _add(found, write, "fails: what it read is no longer so")
    return found


def wrote(step: dict[str, Any]) -> bool:
    """Return whether a statement changed a row."""
    return not step["error"] and step["rows"] != 0


def _add(found: dict[int, list[str]], number: int, mark: str) -> None:
    marks = found.setdefault(number, [])
    if mark not in marks:
        marks.append(mark)
