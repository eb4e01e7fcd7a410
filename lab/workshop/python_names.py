"""What a function uses that is not in the database: locks of Python's, files, the cache, sleep."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import SemLock
from types import CodeType, ModuleType
from typing import Any

from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django.utils.connection import ConnectionProxy

# Of these, each process has its own, though all import the same module.
LOCKS = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Semaphore,
)
OTHER_LOCKS = (SemLock, asyncio.Lock, asyncio.Condition, asyncio.Semaphore)
MAKE_LOCKS = (threading.Lock, threading.RLock, *LOCKS, *OTHER_LOCKS)


def warnings(function: Callable[..., Any]) -> list[str]:
    """Return what to know of the locks, the files, the cache and the sleeping that it uses."""
    named = dict(values(function, set()))
    locks = [name for name, value in named.items() if isinstance(value, LOCKS + OTHER_LOCKS)]
    found = [PYTHON_LOCK.format(", ".join(locks))] if locks else []
    if not locks and any(makes_locks(value, function.__module__) for value in named.values()):
        found.append(PYTHON_LOCKS)
    if any("fcntl" in (module_of(value), name) for name, value in named.items()):
        found.append(FILE_LOCK)
    if any(is_cache(value) for value in named.values()):
        found.append(CACHE)
    return found + ([SLEEP] if time.sleep in named.values() else [])


def makes_locks(value: object, module: str) -> bool:
    """Return whether a name stands for what makes a lock of Python's, or holds one.

    What `module` does not define itself may have locks for purposes of its own.
    """
    if isinstance(value, dict | list | tuple):
        held = [*(value.values() if isinstance(value, dict) else value)]
        return getattr(value, "default_factory", None) in MAKE_LOCKS or holds_lock(held)
    if type(value).__module__ == module:
        return holds_lock(list(vars(value).values()))
    return any(value is each for each in MAKE_LOCKS)


def is_cache(value: object) -> bool:
    """Return whether a name stands for a cache, as django.core.cache.cache does."""
    proxied = isinstance(value, ConnectionProxy) and vars(value)["_connections"] is caches
    return proxied or value is caches or isinstance(value, BaseCache)


def holds_lock(values: list[object]) -> bool:
    """Return whether one of them is a lock of Python's."""
    return any(isinstance(each, LOCKS + OTHER_LOCKS) for each in values)


def module_of(value: object) -> str:
    """Return the name of the module that a value is, or comes from."""
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")


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
PYTHON_LOCKS = (
    "It uses a lock of Python's. Each process has one of its own, as each worker of a service has, "
    "on whichever machine: it keeps nobody else out. What all of them share is the database."
)
FILE_LOCK = (
    "A lock on a file is known to one machine. Here each process is on a machine of its own, as "
    "the workers of a service can be, and the lock keeps nobody else out. What all of them share "
    "is the database: lock there."
)
CACHE = (
    "What is in a cache is no part of the transaction: it stays when that is rolled back, and can "
    "be gone at any time, so that a lock there can expire while it is held. A cache in memory, as "
    "here, is another one in each process. What all of them share is the database: lock there."
)
SLEEP = (
    "To sleep makes some orders rarer and others more frequent, and none impossible: whoever comes "
    "meanwhile does not know that somebody sleeps."
)
