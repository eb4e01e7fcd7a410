"""Notices what processes do outside of their sessions: programs, files, sockets, mocks.

It also lets processes use `functools.cached_property` and handlers of `logging` as those of a
server do: without the locks that would make one thread wait for the other.
"""

import contextlib
import functools
import gc
import itertools
import logging
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal
from unittest.mock import patch

Kind = Literal["connection", "program", "file", "socket", "mock"]
Note = Callable[[Kind, Any], object]  # with a name; of a mock, the Mock itself

# The function of each driver that opens all its connections.
CONNECT = (("psycopg2", "_connect"), ("psycopg.generators", "connect"))
# Python's audit events for the start of a program, and which of the arguments is its name, if any.
SENDING = ("send", "sendall", "sendto", "sendmsg")  # methods of sockets
PROGRAMS = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 0, "os.fork": None}
_notes: list[Note] = []  # the audit hook, which cannot be removed, calls the last one


def find_open_pids() -> list[int]:
    """Return the pids of all open connections of the drivers in this interpreter."""
    kinds: set[type] = set()
    for name, kind in (("psycopg2.extensions", "connection"), ("psycopg", "BaseConnection")):
        if name in sys.modules:
            kinds |= _with_subclasses(getattr(sys.modules[name], kind))
    # A look-up in a set is faster than issubclass(), and there may be a million objects.
    objects = gc.get_objects()
    opened: Iterator[Any] = itertools.compress(objects, map(kinds.__contains__, map(type, objects)))
    return [connection.info.backend_pid for connection in opened if not connection.closed]


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))


@contextlib.contextmanager
def watch(note: Note) -> Iterator[None]:
    """Enter to have `note` called with each use of a program, a file and so on, in its thread."""
    _add_audit_hook()
    _notes.append(note)
    with contextlib.ExitStack() as stack:
        stack.callback(_notes.pop)
        for name, function in CONNECT:
            if module := sys.modules.get(name):
                connect = _call_before(getattr(module, function), lambda *_: note("connection", ""))
                stack.enter_context(patch.object(module, function, connect))
        if mock := sys.modules.get("unittest.mock"):
            call = mock.Mock.__call__
            call = _call_before(call, lambda called, *_: note("mock", called))
            stack.enter_context(patch.object(mock.Mock, "__call__", call))
        for kind in (socket.socket, ssl.SSLSocket):
            for name in SENDING:
                send = _call_before(getattr(kind, name), partial(_note_sending, note))
                stack.enter_context(patch.object(kind, name, send))
        # Python runs in one process at a time, and a server has a handler in each process.
        stack.enter_context(patch.object(logging.Handler, "handle", _handle_without_lock))
        if sys.version_info < (3, 12):
            stack.enter_context(patch.object(functools.cached_property, "__get__", _get_property))
        yield


def _call_before(function: Callable[..., Any], note: Callable[..., object]) -> Callable[..., Any]:
    """Return a function that calls `note` and then `function`, each with its own arguments."""

    def note_and_call(*args: Any, **kwargs: Any) -> Any:
        note(*args)
        return function(*args, **kwargs)

    return note_and_call


def _note_sending(note: Note, sender: socket.socket, *args: Any) -> None:
    """Note what is sent over an open connection, or as a datagram, and to which address."""
    try:
        address = sender.getpeername()
    except OSError:  # it is not connected
        address = args[-1]
    if address:  # which the ends of a socketpair() have not
        note("socket", _write_address(address))


def _write_address(address: Any) -> str:
    """Write a host and a port, or the path of a socket."""
    parts = address[:2] if isinstance(address, tuple) else [address]
    return ":".join(map(str, parts))


def _handle_without_lock(self: logging.Handler, record: Any) -> Any:
    """Replace Handler.handle(), which holds a lock while emit() sends a statement."""
    passed = self.filter(record)
    if passed:
        self.emit(passed if isinstance(passed, logging.LogRecord) else record)
    return passed


def _get_property(self: Any, instance: Any, owner: type | None = None) -> Any:
    """Replace cached_property.__get__: compute the value without a lock, as Python 3.12 does."""
    if instance is None:
        return self
    if self.attrname not in vars(instance):
        vars(instance)[self.attrname] = self.func(instance)
    return vars(instance)[self.attrname]


@functools.cache
def _add_audit_hook() -> None:
    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if not _notes:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and flags & (os.O_WRONLY | os.O_RDWR):
                _notes[-1]("file", path)
        elif event == "socket.connect":
            _notes[-1]("socket", _write_address(arguments[1]))
        elif event in PROGRAMS:
            index = PROGRAMS[event]
            program = "a fork" if index is None else arguments[index]
            if isinstance(program, (list, tuple)):  # with its arguments
                program = program[0]
            name = program.decode() if isinstance(program, bytes) else str(program)
            _notes[-1]("program", name)

    sys.addaudithook(audit)
