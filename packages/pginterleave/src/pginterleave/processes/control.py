"""The caller's connection, which setup and the invariant use, too: it asks about the processes."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from pginterleave.explorer_errors import CannotExplore
from pginterleave.options import Options
from pginterleave.processes import queries
from pginterleave.processes.clocks import ClockReads, RealClock
from pginterleave.processes.session import Caller, Owner, ProcessSession
from pginterleave.sql.pg_catalog import Catalogue


class Database(Protocol):
    """The caller's connection, and sessions for the processes: see DjangoDatabase."""

    name: str
    Error: type[Exception]  # what `ask` raises

    def get_caller_connection(self) -> object:
        """Return the caller's connection, or None before it is open."""

    def ask(self, sql: str, params: dict[str, Any]) -> list[Any]:
        """Run a query on the caller's connection and return its rows; connect first if needed."""

    def other_databases(self) -> dict[str, Callable[..., list[Any]]]:
        """Return the function `ask` of each other database that a process may use, by its name."""

    def in_transaction(self) -> bool:
        """Whether the caller's connection is in a transaction."""

    def new_session(self, process: Owner, control: Caller) -> ProcessSession:
        """Return the session of a process; it connects when it is opened."""


class Control:
    """Asks and changes the settings of the caller's session, and restores them at the end."""

    close_timeout = 2.0  # seconds for all threads and sessions to end

    def __init__(self, database: Database, options: Options) -> None:
        self.database = database
        self.options = options
        self.catalogue = Catalogue()
        self.clock_reads = ClockReads()
        self._settings: dict[str, str] = {}  # the values before change_settings()
        self._changed_connection: object = None  # the connection whose settings are changed
        # The sessions of other connections of this interpreter, before the first schedule.
        self.other_pids: list[int] = []
        self._open_pids: list[int] = []  # those that were still open at begin_schedule()
        self._began_at = ""  # the time of begin_schedule()

    def ask(self, sql: str, **params: Any) -> list[Any]:
        return self.database.ask(sql, params)

    def refuse_transaction(self, what: str) -> None:
        """Raise CannotExplore, beginning with `what`, if the caller is in a transaction."""
        if self.database.in_transaction():
            raise CannotExplore(
                f"{what} the database {self.database.name!r}, whose rows the processes would not "
                "see. Explore outside atomic(): with the fixture `interleave`, which needs no mark "
                "django_db, under django_db(transaction=True), or in an InterleaveTestCase or a "
                "TransactionTestCase instead of a TestCase."
            )

    def begin_schedule(self) -> None:
        """Read the catalogue, and the time after which only the processes may send statements."""
        self.catalogue.learn(self.ask)
        [(self._began_at, self._open_pids, _)] = self.ask(queries.NOW, others=self.other_pids)

    def note_strangers(self, pids: set[int]) -> None:
        """Note as unobserved the sessions, other than `pids`, that were used in the schedule."""
        others = [pid for pid in self._open_pids if pid not in pids]
        strangers = self.ask(queries.STRANGERS, pids=[*pids], since=self._began_at, others=others)
        for (name,) in strangers:
            ended = "a session of another connection, which has ended"
            self.catalogue.note_unobserved(ended if name is None else f"a session called {name!r}")

    def change_settings(self) -> None:
        """Change the settings of the caller's session, once for each connection."""
        connection = self.database.get_caller_connection()
        if connection is not None and connection is self._changed_connection:
            return
        # A crash of the server does not matter here, and synchronous_commit does not change the
        # order in which transactions become visible. lock_timeout keeps setup, the invariant and
        # observe from waiting forever for the lock of a process.
        limit = f"{self.options.step_timeout:.3f}s"
        for name, value in (("synchronous_commit", "off"), ("lock_timeout", limit)):
            [(before,)] = self.ask(f"SHOW {name}")
            if name == "synchronous_commit" or before == "0":  # a lock_timeout of the caller stays
                self._settings[name] = before
                self.ask(queries.SET, name=name, value=value)
        self._changed_connection = self.database.get_caller_connection()

    def restore_settings(self) -> None:
        """Undo `change_settings`, if PostgreSQL can be reached."""
        with contextlib.suppress(self.database.Error):
            for name, value in self._settings.items():
                self.ask(queries.SET, name=name, value=value)

    def wait_until_closed(self, *pids: int) -> None:
        """Wait until sessions have ended, if they do: a closed session keeps locks for a moment."""
        limit = RealClock.monotonic() + self.close_timeout
        while RealClock.monotonic() < limit:
            self.ask(queries.CLEAR_SNAPSHOT)  # in case a transaction was left open
            if not self.ask(queries.OPEN_SESSIONS, pids=list(pids)):
                return
            time.sleep(0.001)

    def terminate(self, pids: list[int]) -> None:
        """Terminate sessions, if PostgreSQL can be reached."""
        with contextlib.suppress(self.database.Error):
            self.ask(queries.TERMINATE, pids=pids)
