"""The steps and the outcome of a process, and a timeline drawn as text."""

import itertools
import textwrap
from collections import defaultdict
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
            shown = {n for n, name in enumerate(self.columns) if columns is None or name in columns}
            values = zip(self.columns, self.rows[0], strict=False)
            texts = [f"{name} = {value}" for name, value in values]
            first = formatting.join_shown(texts, shown | {0})
            other_rows = max(self.rowcount, len(self.rows)) - 1
            return f"→ {first} (+{other_rows})" if other_rows > 0 else f"→ {first}"
        if self.kind in {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"} and self.rowcount >= 0:
            return f"→ {self.rowcount} row" + ("" if self.rowcount == 1 else "s")
        return ""


Timeline = tuple[Step, ...]
Columns = Mapping[int, Set[str]]  # the columns to show, by the number of a step
Marks = Mapping[int, Sequence[str]]  # what is wrong, by the number of a step
StepTexts = dict[tuple[int, int], list[str]]  # of a drawing, by step and process


def draw_timeline(
    timeline: Timeline, outcomes: Sequence[Outcome], width: int, *, columns: Columns, marks: Marks
) -> str:
    """Return the timeline as text, a column of `width` characters for each process.

    What is observed is shown after the first step, and when it changes.
    """
    texts = _write_texts(timeline, width, columns, marks)
    processes = range(1, len(outcomes) + 1)
    is_observed = any(step.observed is not None for step in timeline)
    last_head = "afterwards" if is_observed else ""
    rows = [["", *(f"process {process}" for process in processes), last_head]]
    observed_before = ""
    for step in timeline:
        texts_of_step = [_wrap(texts[step.number, process], width) for process in processes]
        observed = str(step.observed) if is_observed else ""
        if observed != observed_before:
            texts_of_step.append(_wrap([observed], width))
        observed_before = observed
        lines = itertools.zip_longest([str(step.number)], *texts_of_step, fillvalue="")
        rows += map(list, lines)
    for process, outcome in zip(processes, outcomes, strict=True):
        if outcome.raised is not None:
            error = f"raises {formatting.format_exception(outcome.raised)}"
            empty_lanes = [""] * process
            rows += [[*empty_lanes, line] for line in _wrap([error], width)]
    margin = len(str(len(timeline)))
    drawn = []
    for number, *lanes in rows:
        padded = [number.ljust(margin), *(text.ljust(width) for text in lanes)]
        drawn.append("  ".join(padded).rstrip())
    return "\n".join(drawn)


def _write_texts(timeline: Timeline, width: int, columns: Columns, marks: Marks) -> StepTexts:
    """Write each statement at its step, and its result where it returned."""
    texts: StepTexts = defaultdict(list)
    last_places: dict[int, str] = {}  # the last line of code of each process
    for step in timeline:
        sent = texts[step.number, step.process]
        shown_columns = columns[step.number]
        sent.append(formatting.cut_to_columns(step.statement(), shown_columns))
        if step.filename and step.kind not in ENDS_OF_BLOCKS:
            place = formatting.format_place(step.filename, step.lineno)
            if place != last_places.get(step.process):
                sent.append(_cut_place(place, width))
            last_places[step.process] = place
        if step.waited_for:
            sent.append(f"… waits for {formatting.format_processes(step.waited_for)}")
        returned = texts[step.until, step.process]
        if step.until != step.number:
            returned.append(f"… resumes step {step.number}")
        if result := step.result(shown_columns):
            returned.append(result)
        sent += [f"✗ {text}" for text in marks.get(step.number, ())]
    return texts


def _cut_place(place: str, width: int) -> str:
    """Write a line of code, without its first folders if it is longer than `width`."""
    text = f"at {place}"
    parts = place.split("/")
    while len(text) > width and len(parts) > 1:
        parts = parts[1:]
        text = "at …/" + "/".join(parts)
    return text


def _wrap(texts: Sequence[str], width: int) -> list[str]:
    """Return the lines of some texts. An empty text has an empty line."""
    lines = (textwrap.wrap(text, width, subsequent_indent="  ") or [""] for text in texts)
    return list(itertools.chain(*lines))
