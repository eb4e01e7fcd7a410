"""The first pass: every test runs as always, and what it sends is noted."""

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from pginterleave.discovery.candidates import Candidate, Listener, Traffic, make_traffic
from pginterleave.processes.race_coverage import find_written_tables
from pginterleave.sql.statements import DEFINITIONS, find_kind

DATABASE = "default"  # the alias of the database that is explored
# Those of the requests and calls that run, each within the one before.
_statements: ContextVar[tuple[list[str], ...]] = ContextVar("statements", default=())


@dataclass
class SentByTest:
    """What a test has sent, and why it cannot run without a transaction, if it cannot."""

    traffics: list[Traffic] = field(default_factory=list)
    obstacle: str = ""


class FirstPass(Listener):
    """Notes what each test sends: `tests` has it by the test's id."""

    def __init__(self) -> None:
        self.tests: dict[str, SentByTest] = defaultdict(SentByTest)
        self.test = ""  # the test that runs, or its class; "": nothing is noted
        self._thread = threading.current_thread()

    def count_writing(self, tests: Iterable[str]) -> int:
        """Return how many different requests of these tests write."""
        return len({this for test in tests for this in self.tests[test].traffics if this.writes})

    @contextlib.contextmanager
    def note(self, candidate: Candidate) -> Iterator[list[object]]:
        """Enter while a request runs; its statements are noted, and then its answer."""
        answers: list[object] = []
        statements: list[str] = []
        token = _statements.set((*_statements.get(), statements))
        try:
            yield answers
        finally:
            _statements.reset(token)
        if self.test and answers:
            traffic = make_traffic(candidate.name, answers[0], statements)
            self.tests[self.test].traffics.append(traffic)

    def note_statement(self, sql: str, alias: str) -> None:
        """Note a statement of the test, and whether it keeps the test from running once more."""
        for statements in _statements.get():
            statements.append(sql)
        if self.test and not self.tests[self.test].obstacle:
            self.tests[self.test].obstacle = self._find_obstacle(sql, alias)

    def _find_obstacle(self, sql: str, alias: str) -> str:
        if threading.current_thread() is not self._thread:
            return "threads of its own send statements, such as those of a live server"
        if find_kind(sql) in DEFINITIONS:
            return "it changes the schema"
        if alias != DATABASE and find_written_tables(sql):
            return f"it writes to the database {alias!r}"
        return ""


def choose_tests(
    tests: dict[str, SentByTest],
    groups: dict[str, str],
    leave_out: Callable[[str, str, str], object],
) -> dict[str, frozenset[str]]:
    """Return the tests that have sent something new that writes, a new view first.

    Each has the names of what it has sent that writes. `groups` are the classes of the tests.
    `leave_out` is called with the test, name and reason of each request whose test cannot run
    without a transaction.
    """
    seen: set[Traffic] = set()
    saved: Counter[tuple[str, Traffic]] = Counter()  # whole-row saves by the class
    writes: dict[str, int] = {}  # how many tables a request of each chosen test writes at most
    names: dict[str, frozenset[str]] = {}
    for test, group in groups.items():
        writing = [traffic for traffic in tests[test].traffics if traffic.writes]
        saves = {(group, traffic) for traffic in writing if traffic.saves_rows}
        new = {traffic for traffic in writing if traffic not in seen}
        new |= {traffic for _, traffic in (save for save in saves if saved[save] == 1)}
        if obstacle := tests[test].obstacle or tests[group].obstacle:
            for traffic in new:
                leave_out(test, traffic.name, obstacle)
        elif new:
            seen |= new
            saved.update(saves)
            writes[test] = max(len(traffic.writes) for traffic in new)
            names[test] = frozenset(traffic.name for traffic in writing)
    order = sorted(names, key=lambda test: -writes[test])
    first: dict[frozenset[str], str] = {}  # a test for each view, before what else is sent to it
    for test in order:
        first.setdefault(names[test], test)
    tests_in_order = dict.fromkeys([*first.values(), *order])
    return {test: names[test] for test in tests_in_order}
