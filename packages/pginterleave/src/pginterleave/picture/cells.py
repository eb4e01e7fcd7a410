"""What a picture shows of a schedule, row by row, and how the schedule ends."""

import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from pginterleave.picture.conflicts import (
    CYCLE,
    ELSEWHERE,
    FOREIGN,
    LATE,
    LOST,
    SKEW,
    STALE,
    UNSEEN,
    Conflict,
    by_step,
    conflicts,
    dependencies,
)
from pginterleave.picture.history import NEW_ROW, Lock, Wait, locks, transactions, tries, waits
from pginterleave.picture.sentences import sentences
from pginterleave.picture.wording import Step, short, words

WRONG, REFUSED, HOLDS = "wrong", "refused", "holds"
SIGNS = {WRONG: "✗", REFUSED: "⊘", HOLDS: "✓"}


class HowItEnds(NamedTuple):
    """The verdict on a schedule, and the state that was `due` ("": not given).

    `kind` is WRONG if the invariant does not hold and no process raised an exception. It is REFUSED
    if a process raised an exception: its caller was told.
    """

    kind: str
    text: str
    due: str = ""

    @property
    def sign(self) -> str:
        return SIGNS[self.kind]


def verdict(violation: str, *, raises: bool, due: str = "") -> HowItEnds:
    """Return how a schedule ends, from its `violation` and from whether a process `raises`."""
    if not violation:
        return HowItEnds(HOLDS, "the invariant holds", due)
    return HowItEnds(REFUSED if raises else WRONG, violation, due)


SAID, WAIT, ERROR, MARK, LOCK, OPEN = "said", "wait", "error", "mark", "mode", "open"
AGAIN = "again"
AT_SOURCE = {
    STALE: "stale read",
    LOST: "lost update",
    LATE: "committed later",
    SKEW: "does not see step {}",
}
AT_TARGET = {
    STALE: "rests on step {}",
    LOST: "overwrites step {}",
    UNSEEN: "has not seen step {}",
    LATE: "has not seen step {}",
    ELSEWHERE: "looks at another table than step {}",
    FOREIGN: "written by process {}",
    SKEW: "changes what step {} has read",
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

    `steps` are the `whole` schedule, or its first steps as prefix() returns them. The `verdict` and
    the `outcomes` (the exception of each process, or "") are shown with the whole schedule only.
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
        self.conflicts = self._conflicts(bool(wrong))
        self.sentences = sentences(self.steps, self.whole, self.conflicts, snapshots=self.snapshots)
        self.transactions = transactions(self.steps)
        self.locks: list[Lock] = locks(self.steps)
        self.waits: list[Wait] = waits(self.steps)
        self.rows = self._rows()

    @property
    def held(self) -> str:
        """The table's value after the last step that is shown."""
        return str(self.steps[-1]["observed"]) if self.steps else self.initial

    def _conflicts(self, wrong: bool) -> list[Conflict]:
        """Return the cycles, and the other conflicts if the schedule is `wrong`.

        A process that tries again `alone` has no conflicts.
        """
        own = list(takewhile(lambda step: not step.get("alone"), self.steps))
        cycles = dependencies(own, snapshots=self.snapshots) if own else []
        if not wrong:
            pivot = any(step["pivot"] for step in own)
            return [conflict for conflict in cycles if conflict.kind == CYCLE or pivot]
        explained = {conflict.target for conflict in cycles if conflict.kind == SKEW}
        others = conflicts(own, snapshots=self.snapshots)
        return cycles + [conflict for conflict in others if conflict.target not in explained]

    def _rows(self) -> list[Row]:
        rows = [Row(step["process"]) for step in self.steps]
        rows += [Row(int(process)) for process in self.hidden]
        # A wait or a transaction may go on below the last row.
        lasts = [wait.last for wait in self.waits] + [
            transaction.last for transaction in self.transactions
        ]
        rows += [Row(0)] if max(lasts, default=0) > len(rows) else []
        before = self.initial
        for number, (step, phrase) in enumerate(
            zip(self.steps, words(self.steps, self.whole), strict=True), 1
        ):
            row = rows[number - 1]
            process = step["process"]
            until = step["until"]
            row.title = self.sentences[number - 1]
            if step["waited_for"]:
                row.add(process, phrase.sent)
                blockers = " and ".join(map(str, step["waited_for"]))
                row.add(process, f"waits for process {blockers}", WAIT)
                back = rows[until - 1]
                if until <= len(self.steps):
                    back.add(process, phrase.returned or ("" if phrase.error else "goes on"))
                    back.add(process, _refused(phrase.error, step["pivot"]), ERROR)
            else:
                row.add(process, phrase.sent if phrase.error else f"{phrase}")
                row.add(process, _refused(phrase.error, step["pivot"]), ERROR)
            row.value = readable(step["observed"]) if step["observed"] != before else ""
            before = step["observed"]
        for lock in self.locks:
            if lock.mode != NEW_ROW:
                rows[lock.first - 1].add(lock.process, lock.mode, LOCK)
        for number in tries(self.steps):
            alone = ", after all have ended" * bool(self.steps[number - 1].get("alone"))
            lines = rows[number - 1].lines[rows[number - 1].process]
            lines.insert(0, CellLine(f"tries again{alone}", AGAIN))
        for number, texts in self._marks().items():
            rows[number - 1].add(self.steps[number - 1]["process"], ", ".join(texts), MARK)
        for row in rows[len(self.steps) : len(self.steps) + len(self.hidden)]:
            row.add(row.process, "?", OPEN)
        raised = Row(0)
        for process, outcome in enumerate(self.outcomes if self.ended else (), start=1):
            raised.add(process, _refused(outcome and f"raises {outcome.partition(':')[0]}"), ERROR)
        return [*rows, raised] if raised.lines else rows

    def _marks(self) -> dict[int, list[str]]:
        numbered_texts: list[tuple[int | None, str]] = []
        for conflict in self.conflicts:
            at_source = AT_SOURCE.get(conflict.kind, "").format(conflict.target)
            at_source = conflict.text_at_source if conflict.kind == CYCLE else at_source
            at_target = (
                AT_TARGET.get(conflict.kind, "") if conflict.source else conflict.text_at_target
            )
            named = conflict.source
            if conflict.kind == FOREIGN and conflict.source:
                named = self.steps[conflict.source - 1]["process"]
            numbered_texts += [
                (conflict.source, at_source),
                (conflict.target, at_target.format(named)),
            ]
        return by_step(numbered_texts)


def readable(observed: str) -> str:
    """Return the table's value with shortened URLs."""
    return re.sub(r"https?://[^\s,;]+", lambda match: short(match[0]), observed)


def _refused(error: str, pivot: bool = False) -> str:
    return error and f"{SIGNS[REFUSED]} {error}{', as a pivot' * pivot}"
