"""What a discovery has found, as plain data: a worker of pytest-xdist sends it, a page shows it."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from pginterleave.searching.search import format_preemptions

# The kinds of races, worst first, each with what it means. A run fails for all but the last.
KINDS = {
    "rows": "rows, mails or calls of Mocks end as in no serial order",
    "errors": "an exception that no serial order raises",
    "twice": "both succeed where one after the other the second is refused",
    "answers": "another answer than one after the other",
}
NO_WRITES = ("SELECT", "COMMIT", "ROLLBACK")


def join_names(names: Iterable[str]) -> str:
    """Return both names in one text, or the one that is both."""
    return " beside ".join(dict.fromkeys(names))


def split_names(text: str) -> frozenset[str]:
    """Return the names that join_names() has joined, in whichever order."""
    return frozenset(text.split(" beside "))


@dataclass(kw_only=True)
class Race:
    """A schedule that ends as no serial order does.

    Attributes:
        names: of both requests, such as `POST shop:redeem`: process 1, process 2.
        tests: the ids of the tests that send them, and `also` of others that show the same.
        kind: one of KINDS.
        sentence: what is wrong at the end.
        order: the schedule, such as `1212`; `command` replays it.
        statements: those that take part, each with `process`, `sql`, `result` and `where`.
        steps: all steps, as picture.recorded.record_steps() returns them.
        accepted: the reason why the project accepts it, or "".
        shared_by: the names of other requests whose race is in the same lines of code.
    """

    names: list[str]
    tests: list[str]
    kind: str
    sentence: str
    order: str
    command: str
    statements: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    also: list[str] = field(default_factory=list)
    accepted: str = ""
    shared_by: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """`POST shop:redeem`, or `POST shop:redeem beside POST shop:refund`."""
        return join_names(self.names)

    def list_pairs(self) -> list[frozenset[str]]:
        """Return the names of each pair of requests that shows the race."""
        return [split_names(name) for name in (self.name, *self.shared_by)]

    @property
    def cause(self) -> object:
        """What is equal for the same race: the kind, and the lines of code that write or fail."""
        writes = [s for s in self.statements if s["sql"].split()[0] not in NO_WRITES]
        if self.kind == "errors":
            writes = [s for s in writes if s["result"].startswith("!!")] or writes
        lines = {(s["where"], *s["sql"].split()[:3]) for s in writes}  # such as UPDATE item SET
        return self.kind, frozenset(lines or self.names)


@dataclass(kw_only=True)
class Explored:
    """Two requests that were explored, and how far; or one that was not, and why.

    Every schedule with at most so many `preemptions` was counted; None: every schedule. `reason`
    says why nothing is decided, or is empty. `limits` are those of the exploration. `unconfirmed`
    has a line on each schedule that was wrong once, and could not run again or was right then.
    """

    names: list[str]
    tests: list[str]
    races: int = 0
    preemptions: int | None = -1
    limits: list[str] = field(default_factory=list)
    unconfirmed: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def bound(self) -> str:
        if self.preemptions is None:
            return "in every schedule"
        return f"in every schedule with at most {format_preemptions(self.preemptions)}"


@dataclass(kw_only=True)
class Discovery:
    """All results of a run, or of one worker: `requests` of the tests, of which `writing` write."""

    requests: int = 0
    writing: int = 0
    explored: list[Explored] = field(default_factory=list)
    left: list[Explored] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    may_undo: list[str] = field(default_factory=list)

    @property
    def decided(self) -> list[Explored]:
        return [entry for entry in self.explored if not entry.reason]

    def count_bounds(self) -> Counter[str]:
        """Return how many pairs are safe within each bound."""
        return Counter(entry.bound for entry in self.decided if not entry.races)

    def sort_races(self) -> list[Race]:
        """Return the races by view, the view of the worst race first; accepted ones are last."""
        kinds = [*KINDS]
        by_kind = sorted(self.races, key=lambda race: (bool(race.accepted), kinds.index(race.kind)))
        views = [*dict.fromkeys(race.names[0] for race in by_kind)]

        def rate(race: Race) -> tuple[bool, bool, int]:
            return bool(race.accepted), race.kind == "answers", views.index(race.names[0])

        return sorted(by_kind, key=rate)

    def list_failing(self) -> list[Race]:
        """Return the races for which a run fails, in the order of sort_races()."""
        races = self.sort_races()
        return [race for race in races if race.kind != "answers" and not race.accepted]

    def add_race(self, race: Race) -> None:
        """Add a race; if one with this cause is known, add only the tests and names to that."""
        for known in self.races:
            if known.cause == race.cause:
                tests = race.tests + race.also
                known.also += [test for test in tests if test not in known.tests + known.also]
                names = [race.name, *race.shared_by]
                pairs = known.list_pairs()
                known.shared_by += [name for name in names if split_names(name) not in pairs]
                return
        self.races.append(race)

    def leave_out(self, test: str, name: str, reason: str) -> None:
        """Add a request that is not explored, once."""
        entry = Explored(names=[name], tests=[test], reason=reason)
        if entry not in self.left:
            self.left.append(entry)

    def leave_out_others(self, test: str, names: Iterable[str], reason: str) -> None:
        """Add those requests of a test that have not been added with another reason."""
        known = {entry.names[0] for entry in self.left if entry.tests == [test]}
        for name in sorted(set(names) - known):
            self.leave_out(test, name, reason)

    def add_json(self, text: str) -> None:
        """Add what another worker has found, as to_json() has written it."""
        other = json.loads(text)
        self.requests += other["requests"]
        self.writing += other["writing"]
        self.explored += [Explored(**entry) for entry in other["explored"]]
        self.left += [Explored(**entry) for entry in other["left"]]
        self.may_undo += [line for line in other["may_undo"] if line not in self.may_undo]
        for race in other["races"]:
            self.add_race(Race(**race))

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)
