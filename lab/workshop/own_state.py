"""While a function is judged, each process has what no other process of a service shares with it.

The processes of an exploration are threads. Of what a Python process has for itself, each gets its
own: the locks of Python's and the cache in memory. And each is on a machine of its own: nobody else
knows of its locks on files.
"""

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import patch

from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache
from django.test.utils import override_settings

from lab.workshop.python_names import LOCKS

FILE_LOCKS = ("flock", "lockf")  # of fcntl, where the system has it


class OwnLock(threading.local):
    """A lock of which each thread has one of its own, as each process of a service has."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._lock = make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._lock.__exit__(*raised)


class OwnCache(LocMemCache):
    """A cache in memory that is empty at first, and that nobody shares.

    Django makes one for each thread.
    """

    made: ClassVar[list["OwnCache"]] = []

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        super().__init__(name, params)
        self._cache: OrderedDict[str, Any] = OrderedDict()
        self._expire_info: dict[str, float | None] = {}
        self._lock = threading.Lock()
        self.made.append(self)


@contextmanager
def everything_of_its_own(module: ModuleType | None) -> Iterator[None]:
    """Within the block, each process has its own locks, cache and machine; see locks_of_its_own."""
    caches = {alias: {"BACKEND": f"{__name__}.OwnCache"} for alias in settings.CACHES}
    with ExitStack() as stack:
        stack.enter_context(locks_of_its_own(module))
        stack.enter_context(override_settings(CACHES=caches))
        if fcntl := sys.modules.get("fcntl"):
            for name in FILE_LOCKS:
                stack.enter_context(patch.object(fcntl, name, lambda *_: None))
        try:
            yield
        finally:
            OwnCache.made.clear()


def forget_caches() -> None:
    """Empty the caches of all processes, as when all have just been started."""
    for each in OwnCache.made:
        each.clear()


@contextmanager
def locks_of_its_own(module: ModuleType | None) -> Iterator[None]:
    """Within the block, give each thread its own of all locks in the modules of a folder.

    It is the folder of `module`, whose own locks are among them.
    """
    found = [
        (holder, name, value)
        for each in modules_beside(module)
        for holder in (each, *(kind for kind in vars(each).values() if isinstance(kind, type)))
        for name, value in list(vars(holder).items())
        if isinstance(value, LOCKS)
    ]
    for holder, name, lock in found:
        setattr(holder, name, OwnLock(maker(lock)))
    try:
        yield
    finally:
        for holder, name, lock in found:
            setattr(holder, name, lock)


def maker(lock: Any) -> Callable[[], Any]:
    """Return what makes a lock like this one."""
    if isinstance(lock, threading.Semaphore):
        return partial(type(lock), lock._value)
    kinds = {LOCKS[0]: threading.Lock, LOCKS[1]: threading.RLock}
    return kinds.get(type(lock), threading.Condition)


def modules_beside(module: ModuleType | None) -> list[ModuleType]:
    """Return the modules that are loaded from the folder of a module, and it."""
    folder = (getattr(module, "__file__", None) or "").rpartition("/")[0]
    return [
        each
        for each in list(sys.modules.values())
        if folder and (getattr(each, "__file__", None) or "").rpartition("/")[0] == folder
    ]
