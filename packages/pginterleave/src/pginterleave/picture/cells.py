"""What a picture shows of a schedule, row by row, and how the schedule ends."""

import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from pginterleave.picture import conflicts, history
from pginterleave.picture.conflicts import Conflict
from pginterleave.picture.history import History, Lock, Wait
from pginterleave.picture.sentences import write_sentences
from pginterleave.picture.wording import Step, shorten, word_steps

WRONG, REFUSED, HOLDS = "wrong", "refused", "holds"
SIGNS = {WRONG: "✗", REFUSED: "⊘", HOLDS: "✓"}


class HowItEnds(NamedTuple):
    """The verdict on a schedule, and the state that was `due` ("": not given).

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


# The kinds of lines, which are names of styles.
SAID, WAIT, ERROR, MARK, LOCK, OPEN = "said", "wait", "error", "mark", "mode", "open"
AGAIN = "again"
AT_SOURCE = {
    conflicts.STALE: "stale read",
    conflicts.LOST: "lost update",
    conflicts.LATE: "committed later",
    conflicts.SKEW: "does not see step {}",
}
AT_TARGET = {
    conflicts.STALE: "rests on step {}",
    conflicts.LOST: "overwrites step {}",
    conflicts.UNSEEN: "has not seen step {}",
    conflicts.LATE: "has not seen step {}",
    conflicts.ELSEWHERE: "looks at another table than step {}",
    conflicts.FOREIGN: "written by process {}",
    conflicts.SKEW: "changes what step {} has read",
}


@dataclass
class CellLine:
    """A line of text that is not wrapped yet, and its kind."""

    text: str
    kind: str = SAID


@dataclass
class Row:
    """A row of the picture: the lines of each process, and the table's value if it has changed."""

    process: int
    lines: dict[int, list[CellLine]] = field(default_factory=dict)
    value: str = ""
    title: str = ""

    def add(self, process: int, text: str, kind: str = SAID) -> None:
        if text:
            self.lines.setdefault(process, []).append(CellLine(text, kind))


@dataclass
class Sheet:
    """Everything that a picture shows of a schedule, without measures.

    `steps` are the `whole` schedule, or its first steps, from cut_steps(). The `verdict` and the
    `outcomes` (the exception of each process, or "") are shown with the whole schedule only.
    `snapshots` says that a transaction reads as of its first query, as at the stricter levels.
    A step with `alone` begins the second try of a process, after all processes have ended.
    """

    whole: list[Step]
    steps: list[Step]
    processes: int
    initial: str
    verdict: HowItEnds
    outcomes: list[str]
    hidden: str = ""  # the processes of the steps that are not shown
    snapshots: bool = False

    def __post_init__(self) -> None:
        self.ended = len(self.steps) == len(self.whole)
        wrong = self.ended and self.steps and self.verdict.kind != HOLDS
        self.conflicts = self._find_conflicts(bool(wrong))
        steps = History(self.steps, self.snapshots)
        self.sentences = write_sentences(steps, self.whole, self.conflicts)
        self.transactions = history.find_transactions(self.steps)
        self.locks: list[Lock] = history.find_locks(self.steps)
        self.waits: list[Wait] = history.find_waits(self.steps)
        self.rows = self._make_rows()

    @property
    def held(self) -> str:
        """The table's value after the last step that is shown."""
        return str(self.steps[-1]["observed"]) if self.steps else self.initial

    def _find_conflicts(self, wrong: bool) -> list[Conflict]:
        """Return all conflicts if the schedule is `wrong`: it has ended, and not in HOLDS.

        Otherwise, return the deadlocks, and the write skews if PostgreSQL has refused one of them.
        """
        # A process that tries again alone has no conflicts.
        first_tries = list(takewhile(lambda step: not step.get("alone"), self.steps))
        cycles = conflicts.find_cycles(first_tries, snapshots=self.snapshots) if first_tries else []
        if not wrong:
            is_skew_refused = any(step["pivot"] for step in first_tries)
            deadlocks = [conflict for conflict in cycles if conflict.kind == conflicts.CYCLE]
            return cycles if is_skew_refused else deadlocks
        explained = {conflict.target for conflict in cycles if conflict.kind == conflicts.SKEW}
        others = conflicts.find_conflicts(first_tries, snapshots=self.snapshots)
        return cycles + [conflict for conflict in others if conflict.target not in explained]

    def _make_rows(self) -> list[Row]:
        rows = [Row(step["process"]) for step in self.steps]
        rows += [Row(int(process)) for process in self.hidden]
        # A wait or a transaction may go on below the last row.
        lasts = [wait.last for wait in self.waits]
        lasts += [transaction.last for transaction in self.transactions]
        if max(lasts, default=0) > len(rows):
            rows.append(Row(0))
        before = self.initial
        phrases = word_steps(self.steps, self.whole)
        shown = zip(rows, self.steps, phrases, self.sentences, strict=False)
        for row, step, phrase, sentence in shown:
            process = step["process"]
            until = step["until"]
            row.title = sentence
            if step["waited_for"]:
                row.add(process, phrase.sent)
                blockers = " and ".join(map(str, step["waited_for"]))
                row.add(process, f"waits for process {blockers}", WAIT)
                if until <= len(self.steps):
                    end_row = rows[until - 1]
                    end_row.add(process, phrase.returned or ("" if phrase.error else "goes on"))
                    end_row.add(process, _write_error(phrase.error, step["pivot"]), ERROR)
            else:
                row.add(process, phrase.sent if phrase.error else str(phrase))
                row.add(process, _write_error(phrase.error, step["pivot"]), ERROR)
            row.value = shorten_urls(step["observed"]) if step["observed"] != before else ""
            before = step["observed"]
        for lock in self.locks:
            if lock.mode != history.NEW_ROW:
                rows[lock.first - 1].add(lock.process, lock.mode, LOCK)
        for number in history.find_retries(self.steps):
            step = self.steps[number - 1]
            alone = ", after all have ended" if step.get("alone") else ""
            lines = rows[number - 1].lines[step["process"]]
            lines.insert(0, CellLine(f"tries again{alone}", AGAIN))
        for number, texts in self._mark_steps().items():
            rows[number - 1].add(self.steps[number - 1]["process"], ", ".join(texts), MARK)
        for row in rows[len(self.steps) : len(self.steps) + len(self.hidden)]:
            row.add(row.process, "?", OPEN)
        raised = Row(0)
        for process, outcome in enumerate(self.outcomes if self.ended else (), start=1):
            exception, _, _ = outcome.partition(":")
            raised.add(process, _write_error(exception and f"raises {exception}"), ERROR)
        return [*rows, raised] if raised.lines else rows

    def _mark_steps(self) -> dict[int, list[str]]:
        """Return the short texts of the conflicts at each step, by its number."""
        numbered_texts: list[tuple[int | None, str]] = []
        for conflict in self.conflicts:
            kind = conflict.kind
            source = conflict.source
            at_source = AT_SOURCE.get(kind, "").format(conflict.target)
            at_source = conflict.text_at_source if kind == conflicts.CYCLE else at_source
            at_target = conflict.text_at_target
            if source:
                named = self.steps[source - 1]["process"] if kind == conflicts.FOREIGN else source
                at_target = AT_TARGET.get(kind, "").format(named)
            numbered_texts.append((source, at_source))
            numbered_texts.append((conflict.target, at_target))
        return conflicts.group_by_step(numbered_texts)


def shorten_urls(observed: str) -> str:
    return re.sub(r"https?://[^\s,;]+", lambda match: shorten(match[0]), observed)


def _write_error(error: str, pivot: bool = False) -> str:
    text = f"{SIGNS[REFUSED]} {error}" if error else ""
    return f"{text}, as a pivot" if text and pivot else text
