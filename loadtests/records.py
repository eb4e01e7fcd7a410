"""The records of a load test: what clients were told, and what of it the service has counted."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

HELD = "held: acknowledged ≤ counted ≤ sent"
VIOLATED = "violated"


@dataclass
class Records:
    """What clients were told. `failed` has the errors of the service itself, by their name."""

    sent: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, records: dict[str, Counter[str]]) -> None:
        """Add the records that take() has returned in another process."""
        for name, counter in records.items():
            getattr(self, name).update(counter)

    def take(self) -> dict[str, Counter[str]]:
        """Return all records by the name of their field, and begin again with none."""
        taken = deepcopy(vars(self))
        for counter in vars(self).values():
            counter.clear()
        return taken


class Verdict(NamedTuple):
    """What the service has counted, and what is lost of it, by the keys of the records."""

    counted: Counter[str]
    lost: Counter[str]


class Result:
    """The records compared with the verdict; a `problem` is why there is nothing to compare."""

    def __init__(self, records: Records, verdict: Verdict, problem: str = "") -> None:
        self.records = records
        self.verdict = verdict
        self.lost = verdict.lost.total()
        # A failure is an answer, too. Work that was refused cannot be lost.
        self.answered = records.acknowledged.total() + records.failed.total()
        self.unknown = records.sent.total() - records.refused.total() - self.answered
        self.outcome = problem or self._describe_outcome()
        self.exit_code = {HELD: 0, VIOLATED: 1}.get(self.outcome, 2)  # 2 is unknown

    def _describe_outcome(self) -> str:
        """Return HELD, VIOLATED, or why neither is known."""
        answers = self.records.acknowledged + self.records.refused
        if unsent := (answers - self.records.sent).total():
            return f"unknown: {unsent:,} more acknowledged than sent: add to `sent` before sending"
        if not self.answered:
            return "unknown: no request was acknowledged"
        if self.lost or self.records.failed:
            return VIOLATED
        extra = (self.verdict.counted - (self.records.sent - self.records.refused)).total()
        if extra:  # a proxy has repeated requests, or the service counts twice
            return f"unknown: {extra:,} more counted than sent"
        return HELD

    def rows(self, title: str) -> dict[str, str]:
        """Return the lines to show, by their names; `title` names what is lost."""
        greatest_losses = self.verdict.lost.most_common(3)
        loss = "unknown"
        if self.exit_code < 2:
            loss = f"{self.lost:,} of {self.answered:,} = {self.lost / self.answered:.1%}"
        failed = [f"{number:,} {name}" for name, number in self.records.failed.items()]
        counts = {name: f"{counter.total():,}" for name, counter in vars(self.records).items()}
        return {
            "outcome": self.outcome,
            title: loss,
            "greatest loss": ", ".join(f"{lost:,} of {key}" for key, lost in greatest_losses),
            **counts,
            "failed": ", ".join(failed) or "0",  # in place of the count
            "unknown outcome": f"{self.unknown:,}",
            "counted": f"{self.verdict.counted.total():,}",
        }
