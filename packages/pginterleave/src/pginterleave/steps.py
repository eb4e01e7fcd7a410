"""The steps and the outcome of a process, and a timeline drawn as text."""

import itertools
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from pginterleave import formatting

# Steps whose line of code is the end of a block, and not drawn.
ENDS_OF_BLOCKS = ("COMMIT", "ROLLBACK", "RELEASE", "ROLLBACK TO", "CLOSE")


@dataclass(frozen=True)
class Outcome:
    """How a process ended: the value it returned, or the exception it raised."""

    returned: Any = None
    raised: BaseException | None = None


@dataclass(frozen=True)
class Step:
    """One step of a schedule, and its result.

    The step was sent as step `number` (from 1) and returned during step `until`. The two differ if
    the step waited for the processes `waited_for`, until a step of another process unblocked it.
    `rows` holds the first rows that the process fetched. `rowcount` is the driver's (-1: not
    known). `error` is the name of the driver's exception class, `message` the first line of the
    exception, and `detail` PostgreSQL's detail message. `filename`, `lineno` and `function` name
    the line outside Django that sent the step. `observed` is the result of `observe`.
    `in_transaction` says whether the process was in a transaction afterwards. `database` is the
    alias of another database than the explored one, or "".
    """

    number: int
    process: int
    kind: str
    sql: str
    params: Any
    filename: str
    lineno: int
    function: str
    until: int
    waited_for: tuple[int, ...] = ()
    rowcount: int = -1
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""
    message: str = ""
    detail: str = ""
    observed: Any = None
    in_transaction: bool = False
    database: str = ""

    def statement(self) -> str:
        """Return the SQL for a reader: with parameters, without quotes, long column lists cut."""
        return formatting.format_statement(self.sql, None if self.kind == "FETCH" else self.params)

    def result(self, columns: Set[str] | None = None) -> str:
        """Return a short result: the error, the first row or the number of rows; or "".

        Of a row with many columns only the first and these `columns` are shown; None for all.
        """
        if self.error:
            return f"!! {self.error}"
        if self.rows:
            more = max(self.rowcount, len(self.rows)) - 1
            values = zip(self.columns, self.rows[0], strict=False)
            texts = [f"{name} = {value}" for name, value in values]
            kept = {n for n, name in enumerate(self.columns) if columns is None or name in columns}
            shown = formatting.join_kept(texts, kept | {0})
            return f"→ {shown} (+{more})" if more > 0 else f"→ {shown}"
        if self.kind in {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"} and self.rowcount >= 0:
            return f"→ {self.rowcount} row" + ("" if self.rowcount == 1 else "s")
        return ""


Timeline = tuple[Step, ...]


def draw(
    timeline: Timeline,
    outcomes: Sequence[Outcome],
    width: int,
    *,
    columns: Mapping[int, Set[str]],
    marks: Mapping[int, Sequence[str]],
) -> str:
    """Return the timeline as text, a column of `width` characters for each process.

    `columns` has the columns to show of each step, by its number. `marks` has what is wrong at a
    step. What is observed is shown after the first step, and when it changes.
    """
    cells: dict[tuple[int, int], list[str]] = {}  # the texts by step and process
    places: dict[int, str] = {}  # the last line of code of each process
    for step in timeline:
        sent = cells.setdefault((step.number, step.process), [])
        shown = columns[step.number]
        sent.append(formatting.cut_to_columns(step.statement(), shown))
        if step.filename and step.kind not in ENDS_OF_BLOCKS:
            before = places.get(step.process)
            place = formatting.format_place(step.filename, step.lineno)
            places[step.process] = place
            if place != before:
                sent.append(_cut_place(place, width))
        if step.waited_for:
            sent.append("… waits for process " + " and ".join(map(str, step.waited_for)))
        returned = cells.setdefault((step.until, step.process), [])
        if step.until != step.number:
            returned.append(f"… resumes step {step.number}")
        if result := step.result(shown):
            returned.append(result)
        sent += [f"✗ {text}" for text in marks.get(step.number, ())]
    processes = range(1, len(outcomes) + 1)
    observed = any(step.observed is not None for step in timeline)
    lines = [["", *(f"process {number}" for number in processes), "afterwards" * observed]]
    last = ""
    for step in timeline:
        lanes = [_wrap(cells.get((step.number, number), ()), width) for number in processes]
        # The rows afterwards, if the step has changed them.
        now = str(step.observed) if observed else ""
        after = _wrap([now], width) if now != last else []
        last = now
        rows = itertools.zip_longest([str(step.number)], *lanes, after, fillvalue="")
        lines += [list(row) for row in rows]
    for number, outcome in zip(processes, outcomes, strict=True):
        if outcome.raised is not None:
            error = f"raises {formatting.format_exception(outcome.raised)}"
            cells_before = [""] * number
            lines += [[*cells_before, line] for line in _wrap([error], width)]
    margin = len(str(len(timeline)))
    drawn = []
    for number_of_step, *texts in lines:
        padded = [number_of_step.ljust(margin), *(text.ljust(width) for text in texts)]
        drawn.append("  ".join(padded).rstrip())
    return "\n".join(drawn)


def _cut_place(place: str, width: int) -> str:
    """Write a line of code, without its first folders if it is longer than a lane."""
    text = f"at {place}"
    parts = place.split("/")
    while len(text) > width and len(parts) > 1:
        parts = parts[1:]
        text = "at …/" + "/".join(parts)
    return text


def _wrap(texts: Sequence[str], width: int) -> list[str]:
    lines = (textwrap.wrap(text, width, subsequent_indent="  ") or [""] for text in texts)
    return list(itertools.chain(*lines))
