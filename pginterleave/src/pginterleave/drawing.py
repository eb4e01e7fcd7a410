"""A timeline as text, a column for each process."""

import itertools
from collections.abc import Sequence

from pginterleave import formatting
from pginterleave.steps import Outcome, Timeline

# What stands at the end of a block, whose line says nothing.
ENDS = ("COMMIT", "ROLLBACK", "RELEASE", "ROLLBACK TO", "CLOSE")
Cells = dict[tuple[int, int], list[str]]  # the texts at a step in the column of a process


def _cells(timeline: Timeline) -> Cells:
    cells: Cells = {}
    places: dict[int, str] = {}  # the line that each process has come to
    for step in timeline:
        sent = cells.setdefault((step.number, step.process), [])
        sent.append(step.statement())
        if step.filename and step.kind not in ENDS:
            before = places.get(step.process)
            place = places[step.process] = formatting.place(step.filename, step.lineno)
            if place != before:
                sent.append(f"at {place}")
        if step.waited_for:
            sent.append("… waits for process " + " and ".join(map(str, step.waited_for)))
        returned = cells.setdefault((step.until, step.process), [])
        if step.until != step.number:
            returned.append(f"… resumes step {step.number}")
        if step.result():
            returned.append(step.result())
    return cells


def draw(timeline: Timeline, outcomes: Sequence[Outcome], width: int) -> str:
    """Return the timeline as text, a column of `width` characters for each process."""
    cells = _cells(timeline)
    processes = range(1, len(outcomes) + 1)
    observed = any(step.observed is not None for step in timeline)
    lines = [["", *(f"process {number}" for number in processes), "afterwards" * observed]]
    for step in timeline:
        columns = [
            list(itertools.chain(*(formatting.wrap(text, width) for text in cells.get(cell, ()))))
            for cell in ((step.number, number) for number in processes)
        ]
        after = formatting.wrap(str(step.observed), width) if observed else []
        rows = itertools.zip_longest([str(step.number)], *columns, after, fillvalue="")
        lines += [list(row) for row in rows]
    for number, outcome in zip(processes, outcomes, strict=True):
        if outcome.raised is not None:
            error = f"raises {formatting.exception(outcome.raised)}"
            lines.append(["", *("" for _ in range(1, number)), error])
    margin = len(str(len(timeline))) + 2
    return "\n".join(
        (line[0].ljust(margin) + "  ".join(cell.ljust(width) for cell in line[1:])).rstrip()
        for line in lines
    )
