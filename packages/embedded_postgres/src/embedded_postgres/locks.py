"""Locks between processes: flock(2) on a file, which the kernel releases when a process ends.

So nothing has to be cleaned up after kill -9, and no process id can be reused by another process. A
lock belongs to the open file: it lasts until every process that inherited the file has closed it.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

try:
    import fcntl
except ImportError as error:
    raise ImproperlyConfigured(
        "The embedded PostgreSQL runs on Linux and macOS only. Name a server of your own, "
        "for example DATABASE_URL=postgres://user:password@127.0.0.1:5432/name"
    ) from error

POLL_INTERVAL = 0.02  # seconds between two checks of what another process does
SILENT_SECONDS = 2  # of a wait, after which the log says what is waited for

logger = logging.getLogger(__name__)


def open_lock(path: Path) -> int:
    """Open `path` for locking; return a descriptor that child processes do not inherit."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def share(descriptor: int) -> None:
    """Take the lock in shared mode; wait until no process holds it exclusively."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)


def take(descriptor: int) -> bool:
    """Try to take the lock exclusively, instead of a shared lock; return whether that succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_taken(path: Path) -> bool:
    """Return whether a process holds the lock; make no file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not take(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive(path: Path, *, timeout: float) -> Iterator[None]:
    """Hold the lock exclusively for the length of the block.

    Raises TimeoutError when another process has held it for `timeout` seconds.
    """
    descriptor = open_lock(path)
    try:
        began = time.monotonic()
        is_silent = True
        while not take(descriptor):
            waited = time.monotonic() - began
            if waited > timeout:
                raise TimeoutError(f"another process has held {path} for {timeout:.0f} s")
            if waited > SILENT_SECONDS and is_silent:
                logger.warning(
                    "Another process starts or stops the embedded PostgreSQL: waiting up to %.0f s "
                    "until it releases %s",
                    timeout,
                    path,
                )
                is_silent = False
            time.sleep(POLL_INTERVAL)
        yield
    finally:
        os.close(descriptor)
