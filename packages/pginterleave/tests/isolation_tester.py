"""Runs PostgreSQL's isolation tests, and writes what isolationtester of its source writes.

It shares no code with the explorer, so that a test can compare the two. The format is documented in
src/test/isolation/README of PostgreSQL's source.
"""

import re
import select
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from psycopg import pq

TOKEN = re.compile(
    r"""\#[^\n]* | \{[ \t]*(?P<sql>.*?)[ \t]*\} | "(?P<quoted>(?:[^"]|"")*)"
      | (?P<word>\w+|[()*])""",
    re.VERBOSE | re.DOTALL,
)
NUMBER = re.compile(rb"[0-9. -]*[0-9]")  # isolationtester takes these values for numbers
POLL_INTERVAL = 0.01  # seconds between two questions whether a step waits
LIMIT = 60.0  # seconds for one permutation
IS_BLOCKED = b"SELECT pg_catalog.pg_isolation_test_session_is_blocked($1, $2)"

Marker = tuple[str, int]  # a step, or *, and for how many notices of its session to wait
Permutation = list[tuple[str, list[Marker]]]


class SpecSession(NamedTuple):
    name: str
    setup: str
    steps: dict[str, str]
    teardown: str


class Specification(NamedTuple):
    """A parsed specification; `permutations` has all possible ones if the text names none."""

    setups: list[str]
    teardown: str
    sessions: list[SpecSession]
    permutations: list[Permutation]


def parse(text: str) -> Specification:
    tokens = [
        found[kind].replace('""', '"')
        for found in TOKEN.finditer(text)
        if (kind := found.lastgroup)
    ]

    def blocks(keyword: str) -> Iterator[str]:
        while tokens[:1] == [keyword]:
            del tokens[0]
            yield tokens.pop(0)

    def markers() -> Iterator[Marker]:
        if tokens[:1] == ["("]:
            del tokens[0]
            while (name := tokens.pop(0)) != ")":
                notices = [int(each) for each in blocks("notices")]
                yield name, sum(notices)

    setups, teardown = [*blocks("setup")], "".join(blocks("teardown"))
    sessions = [
        SpecSession(
            name,
            "".join(blocks("setup")),
            {step: tokens.pop(0) for step in blocks("step")},
            "".join(blocks("teardown")),
        )
        for name in blocks("session")
    ]
    permutations: list[Permutation] = []
    for first in blocks("permutation"):
        permutations.append([(first, [*markers()])])
        while tokens and tokens[0] != "permutation":
            permutations[-1].append((tokens.pop(0), [*markers()]))
    if not permutations:
        orders = _merged([[*each.steps] for each in sessions])
        permutations = [[(name, []) for name in order] for order in orders]
    return Specification(setups, teardown, sessions, permutations)


def _merged(sequences: list[list[str]]) -> Iterator[list[str]]:
    """Yield all orders of the steps that keep the order of each session."""
    if not any(sequences):
        yield []
    for at, steps in enumerate(sequences):
        for order in _merged([*sequences[:at], steps[1:], *sequences[at + 1 :]]) if steps else ():
            yield [steps[0], *order]


class Connection:
    """The connection of a session; `active` is its step that is not reported as completed."""

    def __init__(self, conninfo: str, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines
        self.active = ""
        self.notices = 0
        self.pgconn = pq.PGconn.connect(conninfo.encode())
        self.pgconn.exec_(b"SET lc_messages = 'C'")  # fails without effect if the role may not
        self.pgconn.notice_handler = self._notice

    def execute(self, sql: str) -> None:
        self.write(self.pgconn.exec_(sql.encode()))

    def write(self, result: Any) -> None:
        """Write the result of a statement: its table or its error."""
        if result.status == pq.ExecStatus.FATAL_ERROR:
            fields = pq.DiagnosticField.SEVERITY, pq.DiagnosticField.MESSAGE_PRIMARY
            severity, message = (result.error_field(each).decode() for each in fields)
            self.lines.append(f"{severity}:  {message}")
        elif result.nfields:
            self.lines += _table(result)

    def _notice(self, result: Any) -> None:
        self.lines.append(f"{self.name}: {result.error_message.decode().rstrip()}")
        self.notices += 1


class SpecRun:
    """Runs the permutations of a specification; `lines` is the output."""

    def __init__(self, specification: Specification, conninfo: str) -> None:
        self.specification = specification
        self.lines: list[str] = []
        self.control = Connection(conninfo, "control connection", self.lines)
        sessions = [Connection(conninfo, each.name, self.lines) for each in specification.sessions]
        pairs = self.pairs = list(zip(sessions, specification.sessions, strict=True))
        self.of_step = {step: each for each, session in pairs for step in session.steps}
        self.sql = dict(chain.from_iterable(each.steps.items() for _, each in pairs))
        pids = ",".join(str(each.pgconn.backend_pid) for each, _ in pairs)
        self.pids = f"{{{pids}}}".encode()
        self.markers: dict[str, list[Marker]] = {}  # with the number of the last notice
        self.waiting: list[str] = []
        self.limit = 0.0

    def run(self) -> list[str]:
        """Run all permutations, and return the lines of the output."""
        self.lines.append(f"Parsed test spec with {len(self.pairs)} sessions")
        try:
            for permutation in self.specification.permutations:
                self.limit = time.monotonic() + LIMIT
                self._run(permutation)
        finally:
            for each in (self.control, *(connection for connection, _ in self.pairs)):
                each.pgconn.finish()
        return self.lines

    def _run(self, permutation: Permutation) -> None:
        self.lines += ["", f"starting permutation: {' '.join(name for name, _ in permutation)}"]
        for sql in self.specification.setups:
            self.control.execute(sql)
        for connection, session in self.pairs:
            connection.execute(session.setup)
        for name, markers in permutation:
            self._launch(name, markers)
        while self.waiting:
            self._report_completed()
        for connection, session in self.pairs:
            connection.execute(session.teardown)
        self.control.execute(self.specification.teardown)

    def _launch(self, name: str, markers: list[Marker]) -> None:
        connection = self.of_step[name]
        while connection.active:  # a session takes no step before it has completed the last one
            self._report_completed()
        connection.pgconn.send_query(self.sql[name].encode())
        connection.active = name
        self.markers[name] = [
            (each, count and count + self.of_step[each].notices) for each, count in markers
        ]
        completed = ("*", 0) not in markers and self._report(name, self.sql[name])
        if not completed:
            self.lines.append(f"step {name}: {self.sql[name]} <waiting ...>")
        self._report_completed()
        if not completed:
            self.waiting.append(name)

    def _report_completed(self) -> None:
        """Report which waiting steps are completed; repeat while markers may depend on that."""
        while True:
            assert time.monotonic() < self.limit, f"{self.waiting} wait for too long"
            before = [*self.waiting], sum(each.notices for each, _ in self.pairs)
            self.waiting = [
                each for each in self.waiting if not self._report(each, "<... completed>")
            ]
            after = [*self.waiting], sum(each.notices for each, _ in self.pairs)
            if before == after:
                return

    def _report(self, name: str, text: str) -> bool:
        """Report a step, unless it waits for a lock or a marker; return whether it is reported."""
        connection = self.of_step[name]
        pgconn = connection.pgconn
        while pgconn.is_busy():
            blocked = not select.select([pgconn.socket], [], [], POLL_INTERVAL)[0] and (
                self.control.pgconn.exec_params(
                    IS_BLOCKED, [str(pgconn.backend_pid).encode(), self.pids]
                ).get_value(0, 0)
                == b"t"
            )
            pgconn.consume_input()  # it may have gone on since
            if blocked and pgconn.is_busy():
                return False
        for other, notices in self.markers[name]:
            waits_for = self.of_step.get(other)
            if waits_for and (
                waits_for.notices < notices or (not notices and waits_for.active == other)
            ):
                return False
        self.lines.append(f"step {name}: {text}")
        while result := pgconn.get_result():
            connection.write(result)
        pgconn.consume_input()
        names = {each.pgconn.backend_pid: each.name for each, _ in self.pairs}
        while notify := pgconn.notifies():
            self.lines.append(
                f'{connection.name}: NOTIFY "{notify.relname.decode()}" with payload '
                f'"{notify.extra.decode()}" from {names[notify.be_pid]}'
            )
        connection.active = ""
        return True


def _table(result: Any) -> list[str]:
    """Return the lines of a result like libpq's PQprint with aligned columns."""
    columns = range(result.nfields)
    names = [result.fname(column) for column in columns]
    rows = [
        [result.get_value(row, column) or b"" for column in columns]
        for row in range(result.ntuples)
    ]
    widths = [max(map(len, each)) for each in zip(names, *rows, strict=True)]
    right = [
        all(NUMBER.fullmatch(row[column]) for row in rows if row[column]) for column in columns
    ]

    def line(values: list[bytes]) -> str:
        cells = zip(values, widths, right, strict=True)
        shown = (each.rjust(width) if at else each.ljust(width) for each, width, at in cells)
        return b"|".join(shown).decode()

    rule = "+".join("-" * width for width in widths)
    count = f"({result.ntuples} row{'' if result.ntuples == 1 else 's'})"
    return [line(names), rule, *map(line, rows), count, ""]
