"""What a function uses of Python's that no other process of a service knows of."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, ModuleType
from typing import Any

from django.core.cache.backends.base import BaseCache
from django.utils.connection import ConnectionProxy

LOCKS = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Semaphore,
)


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


def warnings(function: Callable[..., Any]) -> list[str]:
    """Return what to know of the locks, the cache and the sleeping that a function uses."""
    named = dict(values(function, set()))
    locks = [name for name, value in named.items() if isinstance(value, LOCKS)]
    found = [PYTHON_LOCK.format(", ".join(locks))] if locks else []
    if any(isinstance(value, BaseCache | ConnectionProxy) for value in named.values()):
        found.append(CACHE)
    return found + ([SLEEP] if time.sleep in named.values() else [])


def values(function: Any, seen: set[CodeType]) -> Iterator[tuple[str, Any]]:
    """Yield the names in a function, with what they stand for, and in those that it calls."""
    while function is not None:
        code = getattr(function, "__code__", None)
        if code is None or code in seen:
            return
        seen.add(code)
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        known = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
        names = (*code.co_names, *code.co_freevars)
        found = {name: known.get(name, sys.modules.get(name)) for name in names}
        for holder in list(found.values()):
            if isinstance(holder, ModuleType | type):
                found |= {name: vars(holder)[name] for name in names if name in vars(holder)}
        yield from found.items()
        for value in found.values():
            if getattr(value, "__module__", None) == function.__module__:
                yield from values(value, seen)
        function = getattr(function, "__wrapped__", None)


PYTHON_LOCK = (
    "{} is a lock of Python's. Each process has one of its own, as each worker of a service has, "
    "on whichever machine: it keeps nobody else out. What all of them share is the database."
)
CACHE = (
    "What is in a cache is no part of the transaction: it stays when that is rolled back, can be "
    "gone at any time, and a cache in memory is another one in each process."
)
SLEEP = (
    "To sleep makes some orders rarer and others more frequent, and none impossible: whoever comes "
    "meanwhile does not know that somebody sleeps."
)
