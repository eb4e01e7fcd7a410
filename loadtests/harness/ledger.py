"""The ledger: the answers that the clients of a load run got.

It is plain data. Locust's workers send it to their master, which merges all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Limits on the evidence kept. Two cases are shown in the end. The rest serves to find two answers,
# recorded by different workers, that contradict each other.
MAX_CLAIMS = 20_000
MAX_CASES = 20
COUNTERS = ("redirects", "errors", "unknown_redirects", "undone")  # fields whose keys are texts

# The lab's answers when the connection to the database was lost, perhaps after the COMMIT, or when
# a wait for a lock has reached lock_timeout.
OUTAGES = frozenset(
    {"503 OperationalError", "503 InterfaceError", "503 DatabaseError", "503 RowLocked"}
)
UNAVAILABLE = OUTAGES | {"502", "503", "504"}  # also answers of the service and of a proxy
# The header of an answer to a request for which the service, or the HAProxy before it, has sent no
# statement.
PROCESSED, NO = "X-Processed", "no"


def is_refusal(kind: str) -> bool:
    """Return whether an answer names the exception of a failed strategy.

    Only the lab's answers do, such as "500 IntegrityError". A proxy may send a status alone.
    """
    status, _, exception = kind.partition(" ")
    return status.isdecimal() and exception != "" and kind not in OUTAGES


def leaves_open(kind: str) -> bool:
    """Return whether a request that failed may have taken effect."""
    return not (is_refusal(kind) or kind.startswith(("not sent", "not processed")))


@dataclass
class Ledger:
    """The answers that clients got, and the requests without an answer.

    `redirects` counts the acknowledged ones by key. `creates` has for each key the targets of the
    clients that got it. `edits` has the last acknowledged target of each edited key, or an empty
    text if that edit was seen undone. `unknown_…` are requests whose outcome is unknown. `claims`
    has the answer that claimed a number of hits, by key and number. `contradictions` are pairs of
    answers with the same claim. `undone` counts the redirects to another target than the edited
    one, by that target. `refusals` are creates that failed.
    """

    sent: int = 0
    redirects: Counter[str] = field(default_factory=Counter)
    creates: dict[str, list[str]] = field(default_factory=dict)
    edits: dict[str, str] = field(default_factory=dict)
    edited: int = 0
    undone: Counter[str] = field(default_factory=Counter)
    other: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    unknown_redirects: Counter[str] = field(default_factory=Counter)
    unknown_creates: list[str] = field(default_factory=list)
    unknown_edits: list[str] = field(default_factory=list)
    claims: dict[str, str] = field(default_factory=dict)
    contradictions: list[list[str]] = field(default_factory=list)
    undone_cases: list[list[str]] = field(default_factory=list)
    refusals: list[list[str]] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)

    def redirected(self, key: str, *, hits: str | None, request: str) -> None:
        """Record an acknowledged redirect, and the number of hits that its answer claims."""
        self.redirects[key] += 1
        if hits is not None:
            self._claim(f"{key} {hits}", request)

    def created(self, key: str, target_url: str) -> None:
        """Record that the create of a link to `target_url` was answered with `key`."""
        self.creates.setdefault(key, []).append(target_url)

    def refused(self, target_url: str, kind: str, message: str) -> None:
        """Record a create that failed, as evidence."""
        if len(self.refusals) < MAX_CASES:
            self.refusals.append([target_url, kind, message])

    def edit(self, key: str, target_url: str) -> None:
        """Record an acknowledged edit. Each key has one editor, so the last edit must stay."""
        self.edits[key] = target_url
        self.edited += 1

    def undid(self, key: str, edited: str, seen: str) -> None:
        """Record that `key` led to `seen` after its edit to `edited` had been acknowledged."""
        self.undone[seen] += 1
        self.edits[key] = ""  # not to be checked again at the end
        if len(self.undone_cases) < MAX_CASES:
            self.undone_cases.append([key, edited, seen])

    def _claim(self, claim: str, request: str) -> None:
        first = self.claims.get(claim)
        if first is not None:
            if len(self.contradictions) < MAX_CASES:
                self.contradictions.append([claim, first, request])
        elif len(self.claims) < MAX_CLAIMS:
            self.claims[claim] = request

    @property
    def acknowledged(self) -> int:
        """The number of requests that were answered as asked."""
        creates = sum(len(owners) for owners in self.creates.values())
        return self.redirects.total() + creates + self.edited + self.other

    @property
    def unknown(self) -> int:
        """The number of requests whose outcome is unknown."""
        unknown = self.unknown_redirects.total()
        return unknown + len(self.unknown_creates) + len(self.unknown_edits)

    def as_data(self) -> dict[str, Any]:
        """Return the ledger as dicts, lists, texts and numbers."""
        return dict(vars(self))

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Ledger:
        """Return the ledger from the `data` of as_data()."""
        return cls(**{**data, **{name: Counter(data[name]) for name in COUNTERS}})

    def merge(self, other: Ledger) -> None:
        """Add the records of `other`, which is of another worker or a later time."""
        for name in ("sent", "edited", "other"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in COUNTERS:
            getattr(self, name).update(getattr(other, name))
        for key, owners in other.creates.items():
            self.creates.setdefault(key, []).extend(owners)
        self.edits.update(other.edits)
        self.unknown_creates += other.unknown_creates
        self.unknown_edits += other.unknown_edits
        for claim, request in other.claims.items():
            self._claim(claim, request)
        for name in ("contradictions", "undone_cases", "refusals"):
            setattr(self, name, (getattr(self, name) + getattr(other, name))[:MAX_CASES])
        self.cpu.update(other.cpu)
