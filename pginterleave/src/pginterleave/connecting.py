"""Notices what may send statements past an adapter: other connections, and other programs.

Each driver has one function that opens all its connections. Python's audit events tell when another
program is started.
"""

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CONNECT = (("psycopg2", "_connect"), ("psycopg.generators", "connect"))


# Python's audit events for another program, with the place of its name in their arguments.
PROGRAMS = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 0, "os.fork": None}
_noting_programs: list[Callable[[str], object]] = []  # an audit hook cannot be taken away


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _noting_programs or event not in PROGRAMS:
        return
    place = PROGRAMS[event]
    name = "a fork" if place is None else arguments[place]
    if isinstance(name, (list, tuple)):
        name = name[0]
    _noting_programs[-1](name.decode() if isinstance(name, bytes) else str(name))


@functools.cache
def _install() -> None:
    sys.addaudithook(_audit)


@contextmanager
def programs_watched(note: Callable[[str], object]) -> Iterator[None]:
    """Call `note`, in the thread that starts it, with the name of each program."""
    _install()
    _noting_programs.append(note)
    try:
        yield
    finally:
        _noting_programs.pop()


def open_pids() -> list[int]:
    """Return the sessions of all connections of the drivers that are open in this interpreter."""
    kinds: set[type] = set()
    for name, kind in (("psycopg2.extensions", "connection"), ("psycopg", "BaseConnection")):
        if name in sys.modules:
            kinds |= _with_subclasses(getattr(sys.modules[name], kind))
    # A set is asked faster than issubclass(), and there may be a million objects.
    found: list[Any] = [each for each in gc.get_objects() if type(each) in kinds]
    return [each.info.backend_pid for each in found if not each.closed]


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))


@contextmanager
def watched(note: Callable[[], object]) -> Iterator[None]:
    """Call `note`, in the thread that connects, before each new connection."""
    found = [(sys.modules[name], function) for name, function in CONNECT if name in sys.modules]
    originals = [(module, name, getattr(module, name)) for module, name in found]
    for module, name, connect in originals:
        setattr(module, name, _noting(connect, note))
    try:
        yield
    finally:
        for module, name, connect in originals:
            setattr(module, name, connect)


def _noting(connect: Callable[..., Any], note: Callable[[], object]) -> Callable[..., Any]:
    def noting(*args: Any, **kwargs: Any) -> Any:
        note()
        return connect(*args, **kwargs)

    return noting
