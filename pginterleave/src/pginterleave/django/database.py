"""The caller's connection and the sessions of the processes, as Django knows them."""

from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from pginterleave.django.wrapper import SteppingWrapper
from pginterleave.explorer_errors import CannotExplore
from pginterleave.session import IN_TRANSACTION, Session

ISOLATION_LEVELS = ("read committed", "repeatable read", "serializable")


class DjangoDatabase:
    """The database of an alias in DATABASES, which must be PostgreSQL."""

    Error: type[Exception] = Error

    def __init__(self, alias: str, isolation_level: str = "") -> None:
        self.name = alias
        self.isolation_level = isolation_level.lower()
        if self.isolation_level not in ("", *ISOLATION_LEVELS):
            known = ", ".join(ISOLATION_LEVELS)
            raise CannotExplore(f"isolation_level is {isolation_level!r}, and not one of {known}.")
        self.caller: BaseDatabaseWrapper = connections[alias]
        if self.caller.vendor != "postgresql":
            raise CannotExplore(
                f"The database {alias!r} is {self.caller.vendor}; only PostgreSQL can be explored."
            )

    def identity(self) -> object:
        return self.caller.connection

    def in_transaction(self) -> bool:
        if self.caller.in_atomic_block or not self.caller.get_autocommit():
            return True
        connection = self.caller.connection  # on which BEGIN may have been sent past Django
        return connection is not None and connection.info.transaction_status in IN_TRANSACTION

    def ask(self, sql: str, params: dict[str, Any]) -> list[Any]:
        """Run a query past Django, which would log it."""
        self.caller.ensure_connection()
        with self.caller.wrap_database_errors, self.caller.connection.cursor() as cursor:
            cursor.execute(sql, params or None)
            return cursor.fetchall() if cursor.description else []

    def new_session(self, *args: Any, **options: Any) -> Session:
        return DjangoSession(self.caller, self.isolation_level, *args, **options)


class DjangoSession(Session):
    """A process's session: a new Django connection for each schedule, over the driver's one."""

    def __init__(
        self, caller: BaseDatabaseWrapper, isolation_level: str, *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        given = {k: v for k, v in caller.settings_dict["OPTIONS"].items() if k != "pool"}
        if isolation_level:  # of transactions that Django begins, and of single statements
            given.pop("isolation_level", None)
            level = isolation_level.replace(" ", r"\ ")
            before = given.get("options", "")
            given["options"] = f"{before} -c default_transaction_isolation={level}".strip()
        kept = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False, "OPTIONS": given}
        self._settings = caller.settings_dict | kept
        self._alias = caller.alias
        self._backend: Any = type("Stepping", (SteppingWrapper, type(caller)), {"owner": self})
        self._wrapper: Any = None

    def current(self) -> Any:
        """Return the driver's connection below Django's, or None."""
        return self._wrapper.connection

    def use(self, kept: Any) -> None:
        """Put a new connection into Django's `connections`; open a session if kept is None."""
        before, self._wrapper = self._wrapper, self._backend(self._settings, self._alias)
        self._wrapper.session = self
        connections[self._alias] = self._wrapper
        if kept is None:
            self._wrapper.ensure_connection()
        else:
            self._wrapper.connection = kept
            self._wrapper.autocommit = kept.autocommit
            self._wrapper.isolation_level = before.isolation_level

    def all_of_thread(self) -> list[Any]:
        """Return the driver's connections that this thread has opened through Django."""
        wrappers = connections.all(initialized_only=True)
        return [wrapper.connection for wrapper in wrappers if wrapper.connection is not None]

    def control(self, sql: str) -> None:
        """Begin or end a transaction past Django, which believes that there is none."""
        connection = self._wrapper.connection
        with self.sending(), self._wrapper.wrap_database_errors, connection.cursor() as cursor:
            cursor.execute(sql)
