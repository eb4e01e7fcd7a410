"""An embedded server, and its use by this process.

The server's directory has three lock files, which are always taken in this order:

start.lock   exclusive while a process checks, starts or stops the server
users.lock   shared by every process that uses the server, from its first connection to its exit;
             a process that holds start.lock and can take this one exclusively is the last user
alive.lock   inherited by all processes of PostgreSQL, so it is free when all of them have ended
"""

import atexit
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper

from embedded_postgres import locks, postgres
from embedded_postgres.watch import start_watching

TIMEOUT = 60  # seconds, for crash recovery too, and for an old server to end
LOG_LINES = 20  # lines of the log in an error

logger = logging.getLogger(__name__)


class Server:
    """The server in one directory. Use server_in() to get it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "server.log"
        self._users_lock: int | None = None  # descriptor, while this process uses the server
        self._databases: set[str] = set()
        self._running: postgres.Running | None = None

    def use(self, database: str | None, *, again: bool = False) -> postgres.Running:
        """Return the server's address, after starting it and creating the database if needed.

        Later calls of the process return the same, unless `again` is set after a connection has
        failed. The server runs at least until this process ends.

        Raises ImproperlyConfigured when the package with PostgreSQL is not installed, and
        OperationalError, with the directory and the end of the log, when the server does not start.
        """
        with _thread_lock:
            is_known = database is None or database in self._databases
            if self._running is None or again or not is_known:
                postgres.programs()
                try:
                    self.directory.mkdir(parents=True, exist_ok=True)
                    with locks.exclusive(self.directory / "start.lock", timeout=TIMEOUT):
                        self._share_users_lock()
                        try:
                            self._ensure_database(database)
                        except DatabaseWrapper.Database.OperationalError:
                            # The server was killed between check and connection.
                            self._ensure_database(database)
                except OSError as error:
                    raise OperationalError(self._failure(error)) from error
            assert self._running is not None
            return self._running

    def leave(self) -> None:
        """End this process's use of the server; stop it if no other process uses it."""
        with _thread_lock:
            if self._users_lock is None:
                return
            try:
                with locks.exclusive(self.directory / "start.lock", timeout=TIMEOUT):
                    # Open users.lock again: the directory may have been removed and created again.
                    self._share_users_lock()
                    if locks.take(self._users_lock):
                        self._stop()
            except FileNotFoundError:
                pass  # the directory was removed, so PostgreSQL ends by itself
            except OSError as error:
                logger.warning(
                    "The embedded PostgreSQL in %s was not stopped: %s", self.directory, error
                )
            self.forget()

    def stop_unless_used(self) -> None:
        """Stop the server if no process uses it."""
        with locks.exclusive(self.directory / "start.lock", timeout=TIMEOUT):
            if not locks.is_taken(self.directory / "users.lock"):
                self._stop()

    def forget(self) -> None:
        """End this process's use without stopping the server."""
        if self._users_lock is not None:
            os.close(self._users_lock)
        self._users_lock = None
        self._running = None
        self._databases.clear()

    def _share_users_lock(self) -> None:
        """Take users.lock in shared mode by a new descriptor, and close an earlier one."""
        descriptor = locks.open_lock(self.directory / "users.lock")
        locks.share(descriptor)
        if self._users_lock is not None:
            os.close(self._users_lock)
        self._users_lock = descriptor

    def _ensure_database(self, database: str | None) -> None:
        """Start the server if it is not running, and create the database if it is missing."""
        self._running = self._ensure_running()
        # Only once, so that a dropped test database is not created again.
        if database is not None and database not in self._databases:
            postgres.create_database(database, running=self._running)
            self._databases.add(database)

    def _ensure_running(self) -> postgres.Running:
        """Return the server when it is ready, after starting it if needed."""
        started = False
        deadline = time.monotonic() + TIMEOUT
        while (running := postgres.ready(self.data)) is None:
            alive_lock = locks.open_lock(self.directory / "alive.lock")
            try:
                # If it is taken, a server is starting, stopping or ending without its postmaster.
                if locks.take(alive_lock):
                    if started:
                        raise OperationalError(self._failure("it ended at once", log=True))
                    self._start(alive_lock)
                    started = True
            finally:
                os.close(alive_lock)  # a started server has inherited it, and keeps the lock
            if time.monotonic() > deadline:
                reason = f"it was not ready, or an old one not gone, within {TIMEOUT} s"
                raise OperationalError(self._failure(reason, log=True))
            time.sleep(locks.POLL_INTERVAL)
        return running

    def _start(self, alive_lock: int) -> None:
        self._databases.clear()
        with suppress(FileNotFoundError):
            self.log.replace(self.log.with_suffix(".log.1"))
        try:
            with self.log.open("wb") as log:
                postgres.start(self.data, log=log, lock=alive_lock)
            start_watching(self.directory)
        except (ChildProcessError, subprocess.SubprocessError) as error:
            raise OperationalError(self._failure(error, log=True)) from error

    def _stop(self) -> None:
        """Stop the server, and wait until all of its processes have ended."""
        # A second Ctrl-C must not interrupt the stop.
        in_main_thread = threading.current_thread() is threading.main_thread()
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
        signalled: postgres.Running | None = None
        deadline = time.monotonic() + TIMEOUT
        try:
            while locks.is_taken(self.directory / "alive.lock"):
                running = postgres.read_pid_file(self.data)
                if running is not None and (signalled is None or signalled.pid != running.pid):
                    with suppress(ProcessLookupError):
                        os.kill(running.pid, signal.SIGINT)  # "fast": ends all sessions
                    signalled = running
                if time.monotonic() > deadline:
                    raise TimeoutError(f"it did not stop within {TIMEOUT} s")
                time.sleep(locks.POLL_INTERVAL)
        finally:
            if in_main_thread:
                signal.signal(signal.SIGINT, handler)
        if signalled is not None:
            postgres.remove_socket_directory(signalled.socket_directory)

    def _failure(self, reason: object, *, log: bool = False) -> str:
        message = f"The embedded PostgreSQL in {self.directory} did not start: {reason}"
        if log:
            with suppress(OSError):
                lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
                message = "\n    ".join([f"{message}\nThe end of {self.log}:", *lines])
        return message


_servers: dict[Path, Server] = {}
_thread_lock = threading.RLock()  # held by one thread of this process at a time


def server_in(directory: str | os.PathLike[str]) -> Server:
    """Return the Server of a directory, the same object at every call; do not start it."""
    path = Path(directory).resolve()
    with _thread_lock:
        return _servers.setdefault(path, Server(path))


def server_of(database: Mapping[str, Any]) -> Server:
    """Return the server of a database by its settings; do not start it.

    Raises ImproperlyConfigured when it has no DIRECTORY, or has HOST, PORT or USER.
    """
    directory = database.get("DIRECTORY")
    if not directory or any(database.get(key) for key in ("HOST", "PORT", "USER")):
        raise ImproperlyConfigured(
            'A database with ENGINE "embedded_postgres" needs its DIRECTORY, for '
            'example BASE_DIR / ".postgres", and has no HOST, PORT or USER'
        )
    return server_in(directory)


@atexit.register
def _leave_all() -> None:
    for server in _servers.values():
        server.leave()


def _after_fork_in_child() -> None:
    # Closing the child's copy of the descriptor keeps the parent's lock. An open copy would keep
    # the server running until the child ends.
    for server in _servers.values():
        server.forget()
    _thread_lock.release()


# A fork waits until no thread holds the lock, so that the child has a consistent state.
os.register_at_fork(
    before=_thread_lock.acquire,
    after_in_parent=_thread_lock.release,
    after_in_child=_after_fork_in_child,
)
