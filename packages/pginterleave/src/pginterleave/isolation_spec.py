"""Runs PostgreSQL's isolation tests: `python -m pginterleave.isolation_spec FILE`.

The output is that of isolationtester in PostgreSQL's source. `--expected FILE` compares it with the
expected output. The runner uses psycopg's wrapper of libpq, and sends one step in one message. Like
isolationtester, it asks PostgreSQL whether a session waits for another session of the test. It
shares no code with the scheduler of the explorer, so that the tests can compare the two.
"""

import argparse
import difflib
import re
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg import pq

from pginterleave.isolation_format import (
    Marker,
    PermutationStep,
    SpecError,
    Specification,
    SpecStep,
    parse,
)

SAME, DIFFERENT, NOT_RUN = 0, 1, 2  # exit codes
NUMBER = re.compile(rb"[0-9.eE -]*[0-9]")  # PQprint takes these values for numbers
POLL_INTERVAL = 0.01  # seconds between two questions whether a step waits
TIMEOUT = 300.0  # seconds until a step that hangs is cancelled
IS_BLOCKED = b"SELECT pg_catalog.pg_isolation_test_session_is_blocked($1, $2)"
OK = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY, pq.ExecStatus.TUPLES_OK)

# The settings of pg_regress, on which the expected output depends.
SETTINGS = b"""
    SET datestyle = 'Postgres, MDY'; SET timezone = 'PST8PDT'; SET intervalstyle = postgres_verbose
"""

Write = Callable[[str], object]


class SpecConnection:
    """The connection of a session; `active` is the step that was sent and is not completed."""

    def __init__(self, conninfo: str, name: str, write: Write, application: str) -> None:
        self.name, self.write = name, write
        self.active: PermutationStep | None = None
        self.notices = 0
        self.pgconn = pq.PGconn.connect(conninfo.encode())
        if self.pgconn.status != pq.ConnStatus.OK:
            raise SpecError(f"connection failed: {_text(self.pgconn.error_message)}")
        self.pgconn.exec_(SETTINGS)
        self.pgconn.exec_(b"SET lc_messages = 'C'")  # fails without effect if the role may not
        named = b"SELECT set_config('application_name', $1, false)"
        self.pgconn.exec_params(named, [f"{application}/{name}".encode()])
        self.pgconn.notice_handler = self._notice

    def execute(self, sql: str, what: str) -> None:
        result = self.pgconn.exec_(sql.encode())
        if result.status not in OK:
            raise SpecError(f"{what} failed: {_text(self.pgconn.error_message)}")
        if result.status == pq.ExecStatus.TUPLES_OK:
            self.write(_result_table(result))

    def _notice(self, result: Any) -> None:
        self.write(f"{self.name}: {_text(result.error_message)}")
        self.notices += 1


class Tester:
    """Runs the permutations of a specification.

    Args:
        conninfo: of the database, in libpq's format; "" for the environment variables.
        name: of the specification; some specifications look for it in application_name.
        write: called with each part of the output.
    """

    def __init__(
        self, specification: Specification, conninfo: str, *, name: str, write: Write
    ) -> None:
        self.specification, self.write = specification, write
        application = f"isolation/{name}"
        self.control = SpecConnection(conninfo, "control connection", write, application)
        self.control.pgconn.notice_handler = None
        self.sessions = [
            SpecConnection(conninfo, each.name, write, application)
            for each in specification.sessions
        ]
        pids = ",".join(str(each.pgconn.backend_pid) for each in self.sessions)
        self.pids = f"{{{pids}}}".encode()
        self.targets: dict[Marker, int] = {}  # how many notices each marker waits for
        self.waiting: list[PermutationStep] = []

    def run(self) -> None:
        """Run all permutations. Raises SpecError if one cannot be completed."""
        try:
            self.write(f"Parsed test spec with {len(self.sessions)} sessions\n")
            for permutation in self.specification.permutations:
                self._run_permutation(permutation)
        finally:
            for each in (self.control, *self.sessions):
                each.pgconn.finish()

    def _run_permutation(self, steps: tuple[PermutationStep, ...]) -> None:
        names = " ".join(each.step.name for each in steps)
        self.write(f"\nstarting permutation: {names}\n")
        pairs = list(zip(self.sessions, self.specification.sessions, strict=True))
        for sql in self.specification.setups:
            self.control.execute(sql, "setup")
        for connection, session in pairs:
            if session.setup is not None:
                connection.execute(session.setup, f"setup of session {session.name}")
        for step in steps:
            self._launch(step)
        self._complete_waiting(nonblock=False)
        if self.waiting:
            raise SpecError("failed to complete permutation due to mutually-blocking steps")
        teardowns = [
            (each, session.teardown, f" of session {session.name}") for each, session in pairs
        ]
        teardowns.append((self.control, self.specification.teardown, ""))
        for connection, teardown, of in teardowns:
            try:
                if teardown is not None:
                    connection.execute(teardown, f"teardown{of}")
            except SpecError as error:  # it does not end the test
                sys.stderr.write(f"{error}\n")

    def _launch(self, step: PermutationStep) -> None:
        """Send a step, and report which steps are then completed."""
        connection = self._connection(step.step)
        limit = time.monotonic() + 2 * TIMEOUT
        while connection.active:  # a session takes no step before it has completed the last one
            if not self._is_waiting(connection.active, retry=True, nonblock=False):
                self.waiting = [each for each in self.waiting if self._connection(each.step).active]
            self._complete_waiting(nonblock=True)
            if connection.active and time.monotonic() > limit:
                raise SpecError(f"step {connection.active.step.name} timed out")
        if connection.pgconn.status == pq.ConnStatus.BAD:
            raise SpecError(
                f"step {step.step.name} cannot be sent: session {connection.name} has ended"
            )
        connection.pgconn.send_query(step.step.sql.encode())
        connection.active = step
        for marker in step.markers:
            if marker.step:
                self.targets[marker] = marker.notices + self._connection(marker.step).notices
        waits = self._is_waiting(step, retry=False, nonblock=True)
        self._complete_waiting(nonblock=True)
        if waits:
            self.waiting.append(step)

    def _complete_waiting(self, *, nonblock: bool) -> None:
        """Report which waiting steps are completed, and repeat while markers depend on that."""
        while True:
            notices = sum(each.notices for each in self.sessions)
            before = self.waiting
            self.waiting = []
            for step in before:
                if self._is_waiting(step, retry=True, nonblock=nonblock):
                    self.waiting.append(step)
            news = len(self.waiting) < len(before)
            news = news or notices < sum(each.notices for each in self.sessions)
            # A marker may refer to a step that was completed after the marker was checked.
            if not (news and any(each.markers for each in self.waiting)):
                return

    def _is_waiting(self, step: PermutationStep, *, retry: bool, nonblock: bool) -> bool:
        """Wait until a step is completed, and report it; return True if it waits instead.

        Without `nonblock`, a step that waits for a lock is waited for. `retry` says that the step
        was already reported as waiting.
        """
        if not retry and Marker() in step.markers:
            self.write(f"step {step.step.name}: {step.step.sql} <waiting ...>\n")
            return True
        if not self._is_done(step, nonblock=nonblock) or self._is_held(step):
            if not retry:
                self.write(f"step {step.step.name}: {step.step.sql} <waiting ...>\n")
            return True
        text = "<... completed>" if retry else step.step.sql
        self.write(f"step {step.step.name}: {text}\n")
        connection = self._connection(step.step)
        self._report(connection)
        connection.active = None
        return False

    def _is_done(self, step: PermutationStep, *, nonblock: bool) -> bool:
        """Wait for the result of a step; return False if it waits for another session's lock."""
        pgconn = self._connection(step.step).pgconn
        began, cancelled = time.monotonic(), False
        while pgconn.is_busy():
            if select.select([pgconn.socket], [], [], POLL_INTERVAL)[0]:
                pgconn.consume_input()
                continue
            if nonblock and self._is_blocked(pgconn):
                pgconn.consume_input()  # it may have gone on since
                return not pgconn.is_busy()
            seconds = time.monotonic() - began
            if seconds > TIMEOUT and not cancelled:
                pgconn.get_cancel().cancel()
                cancelled = True
                name = step.step.name
                self.write(f"isolationtester: canceling step {name} after {seconds:.0f} seconds\n")
            if seconds > 2 * TIMEOUT:
                raise SpecError(f"step {step.step.name} timed out after {seconds:.0f} seconds")
        return True

    def _is_blocked(self, pgconn: Any) -> bool:
        pid = str(pgconn.backend_pid).encode()
        result = self.control.pgconn.exec_params(IS_BLOCKED, [pid, self.pids])
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise SpecError(f"lock wait query failed: {_text(result.error_message)}")
        return bool(result.get_value(0, 0) == b"t")

    def _is_held(self, step: PermutationStep) -> bool:
        """Whether a marker keeps the completion of a step from being reported."""
        for marker in step.markers:
            if marker.step:
                session = self._connection(marker.step)
                if marker.notices and session.notices < self.targets[marker]:
                    return True
                if not marker.notices and session.active and session.active.step is marker.step:
                    return True
        return False

    def _report(self, connection: SpecConnection) -> None:
        """Write the results of a step and the notifications that its session has received."""
        pgconn = connection.pgconn
        while result := pgconn.get_result():
            if result.status == pq.ExecStatus.TUPLES_OK:
                self.write(_result_table(result))
            elif result.status == pq.ExecStatus.FATAL_ERROR:
                severity = result.error_field(pq.DiagnosticField.SEVERITY)
                message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
                known = severity and message
                text = b"%s:  %s" % (severity, message) if known else result.error_message
                self.write(f"{_text(text)}\n")
            elif result.status not in OK:
                self.write(f"unexpected result status: PGRES_{result.status.name}\n")
        if pgconn.status == pq.ConnStatus.BAD:  # the session has ended, perhaps by itself
            return
        pgconn.consume_input()
        names = {each.pgconn.backend_pid: each.name for each in self.sessions}
        while notify := pgconn.notifies():
            sender = names.get(notify.be_pid, f"PID {notify.be_pid}")
            self.write(
                f'{connection.name}: NOTIFY "{_text(notify.relname)}" with payload '
                f'"{_text(notify.extra)}" from {sender}\n'
            )
            pgconn.consume_input()

    def _connection(self, step: SpecStep) -> SpecConnection:
        return self.sessions[step.session]


def _text(message: bytes | None) -> str:
    return (message or b"").decode(errors="replace")


def _result_table(result: Any) -> str:
    """Write a result like libpq's PQprint with aligned columns; "" if it has no columns."""
    columns = range(result.nfields)
    if not columns:
        return ""
    names = [result.fname(column) or b"" for column in columns]
    rows = [
        [result.get_value(row, column) or b"" for column in columns]
        for row in range(result.ntuples)
    ]
    widths = [max(map(len, each)) for each in zip(names, *rows, strict=True)]  # in bytes
    right = [
        all(map(_is_number, filter(None, (row[column] for row in rows)))) for column in columns
    ]

    def line(values: list[bytes]) -> bytes:
        cells = zip(values, widths, right, strict=True)
        return b"|".join(
            value.rjust(width) if to_the_right else value.ljust(width)
            for value, width, to_the_right in cells
        )

    rule = b"+".join(b"-" * width for width in widths)
    count = f"({result.ntuples} row{'' if result.ntuples == 1 else 's'})".encode()
    lines = [line(names), rule, *map(line, rows), count, b"", b""]
    return b"\n".join(lines).decode(errors="replace")


def _is_number(value: bytes) -> bool:
    return bool(NUMBER.fullmatch(value)) and value[:1] not in b"eE"


def run_file(
    file: Path,
    conninfo: str,
    *,
    expected: Path | None = None,
    write: Write = sys.stdout.write,
) -> int:
    """Run a specification and write its output, or the difference from the expected output.

    Returns the exit code: 0, or 1 if the output differs, or 2 if the output is not complete.
    """
    lines: list[str] = []
    try:
        wanted = expected.read_text().splitlines() if expected else []
        specification = parse(file.read_text())
        for name in specification.unused:
            sys.stderr.write(f"unused step name: {name}\n")
        collect = lines.append if expected else write
        Tester(specification, conninfo, name=file.stem, write=collect).run()
    except (SpecError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return NOT_RUN
    difference = [*difflib.unified_diff(wanted, "".join(lines).splitlines(), lineterm="")]
    if expected:
        write("".join(f"{line}\n" for line in difference) or "As expected.\n")
    return DIFFERENT if expected and difference else SAME


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pginterleave.isolation_spec",
        description="Run a specification of PostgreSQL's isolation tests, and write its output.",
    )
    parser.add_argument("file", type=Path, help="such as src/test/isolation/specs/nowait.spec")
    text = "the expected output; only the differences are written"
    parser.add_argument("--expected", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--conninfo", default="", help="of the database; by default PGHOST, PGDATABASE and so on"
    )
    options = parser.parse_args()
    return run_file(options.file, options.conninfo, expected=options.expected)


if __name__ == "__main__":
    sys.exit(main())
