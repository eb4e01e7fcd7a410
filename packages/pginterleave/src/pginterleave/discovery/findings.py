"""What a discovery has found, as plain data: a worker of pytest-xdist sends it, a page shows it."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

# The kinds of races, worst first, each with what it means.
KINDS = {
    "rows": "the database ends as no serial order ends it",
    "errors": "an exception that no serial order raises",
    "twice": "both succeed where one after the other the second is refused",
    "answers": "another answer than one after the other",
}
RaceKey = tuple[frozenset[str], str]  # the names of both requests in either order, and the kind
FAILING_KINDS = ("rows", "errors", "twice")


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

    @property
    def name(self) -> str:
        """`POST shop:redeem`, or `POST shop:redeem beside POST shop:refund`."""
        return " beside ".join(dict.fromkeys(self.names))

    @property
    def key(self) -> RaceKey:
        return frozenset(self.names), self.kind


@dataclass(kw_only=True)
class Explored:
    """Two requests that were explored, and how far; or one that was not, and why.

    Every schedule with at most so many `preemptions` was counted; None: every schedule. `reason`
    says why nothing is decided, or is empty. `limits` are those of the exploration.
    """

    names: list[str]
    tests: list[str]
    races: int = 0
    preemptions: int | None = -1
    seconds: float = 0.0
    limits: list[str] = field(default_factory=list)
    reason: str = ""


@dataclass(kw_only=True)
class Discovery:
    """All results of a run, or of one worker: `requests` of the tests, of which `writing` write."""

    requests: int = 0
    writing: int = 0
    explored: list[Explored] = field(default_factory=list)
    left: list[Explored] = field(default_factory=list)
    races: list[Race] = field(default_factory=list)
    may_undo: list[str] = field(default_factory=list)

    def add_tests(self, key: RaceKey, tests: list[str]) -> bool:
        """Add tests to the race that they show, if it is known; return whether it is."""
        for race in self.races:
            if race.key == key:
                race.also += [test for test in tests if test not in race.tests + race.also]
                return True
        return False

    def leave(self, test: str, name: str, reason: str) -> None:
        """Add a request that is not explored, once."""
        entry = Explored(names=[name], tests=[test], reason=reason)
        if entry not in self.left:
            self.left.append(entry)

    def add_json(self, text: str) -> None:
        """Add what another worker has found, as to_json() has written it."""
        other = json.loads(text)
        self.requests += other["requests"]
        self.writing += other["writing"]
        self.explored += [Explored(**entry) for entry in other["explored"]]
        self.left += [Explored(**entry) for entry in other["left"]]
        self.may_undo += [line for line in other["may_undo"] if line not in self.may_undo]
        for race in [Race(**race) for race in other["races"]]:
            if not self.add_tests(race.key, race.tests + race.also):
                self.races.append(race)

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)
