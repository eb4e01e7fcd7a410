"""What a picture shows of a schedule, row by row, and how the schedule ends."""

import re
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from pginterleave.formatting import format_processes
from pginterleave.picture import conflicts, history
from pginterleave.picture.conflicts import Conflict
from pginterleave.picture.history import History, Transaction, Wait
from pginterleave.picture.sentences import write_sentences
from pginterleave.picture.wording import RecordedStep, shorten, word_steps

WRONG, REFUSED, HOLDS = "wrong", "refused", "holds"  # the kinds of verdicts
SIGNS = {WRONG: "✗", REFUSED: "⊘", HOLDS: "✓"}


class HowItEnds(NamedTuple):
    """The verdict on a schedule, and what was `due`: the state that is right ("": not given).

    `kind` is REFUSED after an exception of a process, and WRONG if only the invariant is violated.
    """

    kind: str
    text: str
    due: str = ""

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]


def judge_end(violation: str, *, raises: bool, due: str = "") -> HowItEnds:
    """Return how a schedule ends, from its `violation` and from whether a process `raises`."""
    if not violation:
        return HowItEnds(HOLDS, "the invariant holds", due)
    return HowItEnds(REFUSED if raises else WRONG, violation, due)


# The kinds of lines, which are names of styles: MARK is the text of a conflict, LOCK the mode of a
# lock, OPEN the "?" of a hidden step, and AGAIN comes before the words of a step that is a retry.
SAID, WAIT, ERROR, MARK, LOCK, OPEN = "said", "wait", "error", "mark", "mode", "open"
AGAIN = "again"
# Texts of conflicts that are shorter in a cell than elsewhere.
SHORT_AT_SOURCE = {
    conflicts.STALE: "stale read",
    conflicts.LOST: "lost update",
    conflicts.LATE: "committed later",
}
SHORT_AT_TARGET = {  # {} is the number of the step at the source, or of its process
    conflicts.STALE: "rests on step {}",
    conflicts.LATE: "has not seen step {}",
    conflicts.ELSEWHERE: "looks at another table than step {}",
    conflicts.FOREIGN: "written by process {}",
    conflicts.REFUSED: "",  # the error is enough
}


@dataclass
class CellLine:
    """A line of text that is not wrapped yet, and its kind."""

    text: str
    kind: str = SAID


@dataclass
class Row:
    """A row of the picture: the lines of each process, and the table's value if it has changed."""

    process: int  # that takes the step; 0: the row has no step
    lines: dict[int, list[CellLine]] = field(default_factory=dict)
    value: str = ""
    title: str = ""  # a sentence on the step

    def add(self, process: int, text: str, kind: str = SAID) -> None:
        if text:
            self.lines.setdefault(process, []).append(CellLine(text, kind))


@dataclass
class Picture:
    """Everything that a picture shows of a schedule, without measures.

    `steps` are `all_steps` of the schedule, or the first ones, from cut_steps(). The `verdict` and
    the `outcomes` (the exception of each process, or "") are shown with the whole schedule only.
    `snapshots` says that a transaction reads as of its first query, as at the stricter levels.
    A step with `alone` begins the second try of a process, after all processes have ended.
    """

    all_steps: list[RecordedStep]
    steps: list[RecordedStep]
    processes: int
    initial: str  # the value that `observe` has returned before the first step
    verdict: HowItEnds
    outcomes: list[str]
    hidden: str = ""  # the processes of later steps, which are shown as "?": `12`
    snapshots: bool = False

    def __post_init__(self) -> None:
        self.is_whole = len(self.steps) == len(self.all_steps)
        self.conflicts = self._find_conflicts()
        self.words = word_steps(self.steps, self.all_steps)
        history_of_steps = History(self.steps, self.snapshots)
        self.sentences = write_sentences(history_of_steps, self.words, self.conflicts)
        self.transactions = history.find_transactions(self.steps)
        self.locks = history.find_locks(self.steps)
        self.waits = history.find_waits(self.steps)
        self.rows = self._make_rows()

    @property
    def last_value(self) -> str:
        """The table's value after the last step that is shown."""
        return str(self.steps[-1]["observed"]) if self.steps else self.initial

    def _find_conflicts(self) -> list[Conflict]:
        """Return all conflicts of a whole schedule that is not right.

        Otherwise, return only why PostgreSQL has ended a transaction: the deadlocks, and also the
        write skews if it ended the pivot of one.
        """
        # A process that tries again alone has no conflicts.
        first_tries = list(takewhile(lambda step: not step.get("alone"), self.steps))
        cycles = conflicts.find_cycles(first_tries, snapshots=self.snapshots)
        if self.is_whole and self.verdict.kind != HOLDS:
            others = conflicts.find_conflicts(first_tries, snapshots=self.snapshots)
            # A write of a write skew needs no other conflict.
            explained = {conflict.target for conflict in cycles if conflict.kind == conflicts.SKEW}
            return cycles + [conflict for conflict in others if conflict.target not in explained]
        if any(step["pivot"] for step in first_tries):
            return cycles
        return [conflict for conflict in cycles if conflict.kind == conflicts.DEADLOCK]

    def _make_rows(self) -> list[Row]:
        """Return the rows: initial value, shown steps, hidden steps, and the exceptions."""
        rows = [Row(process=0, value=shorten_urls(self.initial))]
        rows += [Row(step["process"]) for step in self.steps]
        hidden = map(int, self.hidden)
        rows += [Row(process, {process: [CellLine("?", OPEN)]}) for process in hidden]
        spans: list[Wait | Transaction] = [*self.waits, *self.transactions]
        if any(span.last >= len(rows) for span in spans):
            rows.append(Row(process=0))  # a wait or a transaction goes on in it
        self._add_steps(rows)
        for lock in self.locks:
            if lock.mode != history.NEW_ROW:
                rows[lock.first].add(lock.process, lock.mode, LOCK)
        for number in history.find_retries(self.steps):
            step = self.steps[number - 1]
            alone = ", after all have ended" if step.get("alone") else ""
            lines = rows[number].lines[step["process"]]
            lines.insert(0, CellLine(f"tries again{alone}", AGAIN))
        short_conflicts = map(self._shorten_texts, self.conflicts)
        for number, texts in conflicts.find_marks(short_conflicts).items():
            rows[number].add(self.steps[number - 1]["process"], ", ".join(texts), MARK)
        exceptions = Row(process=0)
        for process, outcome in enumerate(self.outcomes, start=1):
            if outcome and self.is_whole:
                name, _, _ = outcome.partition(":")
                exceptions.add(process, _write_error(f"raises {name}"), ERROR)
        return [*rows, exceptions] if exceptions.lines else rows

    def _add_steps(self, rows: list[Row]) -> None:
        """Add what each step sends and returns to the rows, and the table's new value."""
        value_before = self.initial
        shown = zip(rows[1:], self.steps, self.words, self.sentences, strict=False)
        for row, step, words, sentence in shown:
            process = step["process"]
            error = _write_error(words.error, is_pivot=step["pivot"])
            row.title = sentence
            if step["waited_for"]:
                row.add(process, words.sent)
                row.add(process, f"waits for {format_processes(step['waited_for'])}", WAIT)
                if step["until"] <= len(self.steps):
                    end_row = rows[step["until"]]
                    end_row.add(process, words.returned or ("" if error else "goes on"))
                    end_row.add(process, error, ERROR)
            else:
                row.add(process, words.sent if error else str(words))
                row.add(process, error, ERROR)
            value = step["observed"]
            row.value = shorten_urls(value) if value != value_before else ""
            value_before = value

    def _shorten_texts(self, conflict: Conflict) -> Conflict:
        """Return a conflict with texts that fit into a cell."""
        if not conflict.source:
            return conflict
        number = conflict.source
        if conflict.kind == conflicts.FOREIGN:
            number = self.steps[number - 1]["process"]
        at_source = SHORT_AT_SOURCE.get(conflict.kind, conflict.text_at_source)
        at_target = SHORT_AT_TARGET.get(conflict.kind, conflict.text_at_target).format(number)
        return replace(conflict, text_at_source=at_source, text_at_target=at_target)


def shorten_urls(observed: str) -> str:
    return re.sub(r"https?://[^\s,;]+", lambda match: shorten(match[0]), observed)


def _write_error(error: str, *, is_pivot: bool = False) -> str:
    """Return the line that shows an error; "" if the error is empty."""
    text = f"{SIGNS[REFUSED]} {error}" if error else ""
    return f"{text}, as a pivot" if text and is_pivot else text
