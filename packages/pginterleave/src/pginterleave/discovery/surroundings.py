"""What a request changes besides rows, and is put back: mails, caches, files, chance."""

import contextlib
import copy
import hashlib
import os
import random
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.conf import settings
from django.core import mail
from django.core.management.commands import flush
from django.db import connections
from django.test import override_settings

from pginterleave.discovery.private_names import list_memories, replace_entropy

FAST_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"  # a slow one hides the rest


class Surroundings:
    """Mails, and what Django's caches and storages hold in memory or below MEDIA_ROOT, as now."""

    def __init__(self) -> None:
        self._mails = [*mail.outbox]
        self._memories = [(memory, copy.deepcopy(memory)) for memory in list_memories()]
        self._files = {path: path.read_bytes() for path in _list_media()}

    def put_back(self) -> None:
        mail.outbox[:] = self._mails
        for memory, content in self._memories:
            memory.clear()
            memory.update(copy.deepcopy(content))
        for path in _list_media():
            path.unlink()
        for path, data in self._files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        random.seed(0)  # each schedule draws the same


def _list_media() -> list[Path]:
    """Return the files below MEDIA_ROOT; none if a test has set it to a folder of the project."""
    folder = Path(settings.MEDIA_ROOT)
    is_temporary = folder.is_relative_to(tempfile.gettempdir())
    return [path for path in folder.rglob("*") if path.is_file()] if is_temporary else []


class Entropy(threading.local):
    """The same random bytes in each test, and in each run of a process.

    So the same set-up makes the same ids and tokens in each test of a class, and a request of one
    test works in another.
    """

    stream = "test"
    number = 0  # how often the stream was drawn from

    @contextlib.contextmanager
    def kept_as(self, stream: str) -> Iterator[None]:
        """Enter to begin a stream, and go on with the present one afterwards."""
        before = self.stream, self.number
        self.stream, self.number = stream, 0
        try:
            yield
        finally:
            self.stream, self.number = before

    def __call__(self, size: int) -> bytes:
        self.number += 1
        return hashlib.shake_128(f"{self.stream} {self.number}".encode()).digest(size)


entropy = Entropy()


class WaitLimit:
    """Ends a test that takes too long when it runs once more, as one that waits for ever.

    A process that is stopped in the middle of a schedule never gives back a lock of Python's that
    it holds, such as that of a search index: a later test would wait for it.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.has_passed = False
        self._is_on = False

    @contextlib.contextmanager
    def set(self) -> Iterator[None]:
        """Enter to run a test: it gets a TimeoutError after so many seconds."""
        self.has_passed = False
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or not hasattr(signal, "setitimer"):  # only there a signal is handled
            yield
            return
        before = signal.signal(signal.SIGALRM, self._end)
        self._is_on = True
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._is_on = False
            signal.signal(signal.SIGALRM, before)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Enter to explore at a place in the test; the time begins anew afterwards."""
        if not self._is_on:
            yield
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def _end(self, *_: Any) -> None:
        self.has_passed = True
        raise TimeoutError(f"The test has waited for {self.seconds:g} seconds.")


@contextlib.contextmanager
def prepare_to_explore() -> Iterator[None]:
    """Enter to run tests only to explore: their rows are visible to others.

    Django takes a database without transactions as a reason to run a TestCase like a
    TransactionTestCase, and that one would empty all tables at its end. Who enters puts the rows
    back. Entropy repeats itself, and files go to a folder that is removed.
    """
    hashers = [FAST_HASHER, *settings.PASSWORD_HASHERS]
    state = random.getstate()
    with contextlib.ExitStack() as stack:
        media = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(override_settings(MEDIA_ROOT=media, PASSWORD_HASHERS=hashers))
        for connection in connections.all():
            features = connection.features
            stack.enter_context(patch.object(features, "supports_transactions", False))
        stack.enter_context(patch.object(flush.Command, "handle", lambda *_, **__: None))
        stack.enter_context(patch.object(os, "urandom", entropy))
        stack.enter_context(replace_entropy(entropy))
        yield
    random.setstate(state)
