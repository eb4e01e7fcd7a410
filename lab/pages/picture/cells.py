"""What stands in each row of the picture: a cell for each process, and the value of the rows."""

import re
from dataclasses import dataclass, field

from lab.pages.picture.conflicts import (
    ELSEWHERE,
    FOREIGN,
    LATE,
    LOST,
    STALE,
    UNSEEN,
    Conflict,
)
from lab.pages.picture.spans import NEW_ROW, Lock, Wait, locks, transactions, waits
from lab.pages.picture.wording import Step, short, words

SAID, WAIT, ERROR, MARK, LOCK, OPEN = "said", "wait", "error", "mark", "mode", "open"
AT_SOURCE = {STALE: "stale read", LOST: "lost update", LATE: "committed later"}
AT_TARGET = {
    STALE: "rests on step {}",
    LOST: "overwrites step {}",
    UNSEEN: "has not seen step {}",
    LATE: "has not seen step {}",
    ELSEWHERE: "looks at another table than step {}",
    FOREIGN: "written by process {}",
}


@dataclass
class CellLine:
    """A line of text, before it is wrapped, and what kind of line it is."""

    text: str
    kind: str = SAID


@dataclass
class Row:
    """A row of the picture: the lines of each process, and the value of the rows if it is new."""

    process: int
    lines: dict[int, list[CellLine]] = field(default_factory=dict)
    value: str = ""
    title: str = ""

    def add(self, process: int, text: str, kind: str = SAID) -> None:
        """Add a line to the cell of a process."""
        if text:
            self.lines.setdefault(process, []).append(CellLine(text, kind))


@dataclass
class Sheet:
    """All that is to be seen of a schedule, without any measure.

    `steps` are all of the `whole` schedule, or its beginning, as prefix() returns it.
    """

    whole: list[Step]
    steps: list[Step]
    processes: int
    initial: str
    conflicts: list[Conflict]
    outcomes: list[str]
    hidden: str  # the processes of the steps that are not to be seen

    def __post_init__(self) -> None:
        self.transactions = transactions(self.steps)
        self.locks: list[Lock] = locks(self.steps)
        self.waits: list[Wait] = waits(self.steps)
        self.rows = self._rows()

    def _rows(self) -> list[Row]:
        rows = [Row(step["process"]) for step in self.steps]
        rows += [Row(int(process)) for process in self.hidden]
        rows += [Row(0)] if self._goes_on(len(rows)) else []
        before = self.initial
        for number, (step, said) in enumerate(
            zip(self.steps, words(self.steps, self.whole), strict=True), 1
        ):
            row, process, until = rows[number - 1], step["process"], step["until"]
            row.title = " ".join(filter(None, (step["sql"], step["result"])))
            if step["waited_for"]:
                row.add(process, said.sent)
                row.add(process, f"waits for process {_listed(step['waited_for'])}", WAIT)
                back = rows[until - 1]
                if until <= len(self.steps):
                    back.add(process, said.returned or ("" if said.error else "goes on"))
                    back.add(process, said.error, ERROR)
            else:
                row.add(process, f"{said}" if not said.error else said.sent)
                row.add(process, said.error, ERROR)
            row.value = readable(step["observed"]) if step["observed"] != before else ""
            before = step["observed"]
        for lock in self.locks:
            if lock.mode != NEW_ROW:
                rows[lock.first - 1].add(lock.process, lock.mode, LOCK)
        for number, text in self._marks():
            rows[number - 1].add(self.steps[number - 1]["process"], text, MARK)
        for row in rows[len(self.steps) : len(self.steps) + len(self.hidden)]:
            row.add(row.process, "?", OPEN)
        return [*rows, *self._last()]

    def _goes_on(self, rows: int) -> bool:
        """Return whether somebody waits, or is in a transaction, below the last row."""
        lasts = [each.last for each in self.waits] + [each.last for each in self.transactions]
        return max(lasts, default=0) > rows

    def _marks(self) -> list[tuple[int, str]]:
        found: dict[int, list[str]] = {}
        for each in self.conflicts:
            at_source = AT_SOURCE.get(each.kind, "")
            at_target = AT_TARGET.get(each.kind, "") if each.source else each.said_at_target
            named = each.source
            if each.kind == FOREIGN and each.source:
                named = self.steps[each.source - 1]["process"]
            for number, text in ((each.source, at_source), (each.target, at_target.format(named))):
                if number and text and text not in found.setdefault(number, []):
                    found[number].append(text)
        return [(number, ", ".join(texts)) for number, texts in found.items()]

    def _last(self) -> list[Row]:
        raised = Row(0)
        for process, outcome in enumerate(self.outcomes, start=1):
            raised.add(process, outcome and f"raises {outcome.partition(':')[0]}", ERROR)
        return [raised] if raised.lines else []


def readable(observed: str) -> str:
    """Return what the rows hold, with addresses as short as they can be."""
    return re.sub(r"https?://[^\s,;]+", lambda match: short(match[0]), observed)


def _listed(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))
