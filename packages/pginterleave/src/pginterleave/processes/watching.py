"""Notices what processes do outside of their sessions: programs, files, sockets, threads, mocks.

It also lets processes use `functools.cached_property` and handlers of `logging` as those of a
server do: without the locks that would make one thread wait for the other.
"""

import contextlib
import functools
import gc
import io
import itertools
import logging
import os
import queue
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

from pginterleave.formatting import is_user_code

Kind = Literal["connection", "program", "file", "effect"]
Note = Callable[[Kind, Any], object]  # with a name, or of an effect a description or the Mock

# The function of each driver that opens all its connections.
CONNECT = (("psycopg2", "_connect"), ("psycopg.generators", "connect"))
CACHE: Any = type(functools.lru_cache(lambda: None))
BUFFERED = (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
OPEN_FILES = Path("/dev/fd")  # named by their descriptors
TERMINAL = (0, 1, 2)  # descriptors
SENDING = ("send", "sendall", "sendto", "sendmsg")  # methods of sockets
OWN_EFFECTS = ("asgiref", "asyncio", "logging")  # start threads and fill queues for other code
# Python's audit events for the start of a program, and which of the arguments is its name, if any.
PROGRAMS = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 0, "os.fork": None}
_notes: list[Note] = []  # the audit hook, which cannot be removed, calls the last one


class Instances(NamedTuple):
    """Objects of this interpreter that the processes may use: what is open, and what caches."""

    pids: list[int]  # of the connections of the drivers
    files: list[Any]  # with a buffer
    caches: list[Any]  # of functools


def find_instances() -> Instances:
    """Look through all objects, which takes long: once is enough for an exploration."""
    connections = set[type]()
    for name, kind in (("psycopg2.extensions", "connection"), ("psycopg", "BaseConnection")):
        if name in sys.modules:
            connections |= _with_subclasses(getattr(sys.modules[name], kind))
    files = set[type]().union(*map(_with_subclasses, BUFFERED))
    kinds = {CACHE, *connections, *files}
    # A look-up in a set is faster than issubclass(), and there may be a million objects.
    objects = gc.get_objects()
    found = [*itertools.compress(objects, map(kinds.__contains__, map(type, objects)))]
    opened = [each for each in found if type(each) in connections and not each.closed]
    return Instances(
        pids=[connection.info.backend_pid for connection in opened],
        files=[each for each in found if type(each) in files],
        caches=[each for each in found if type(each) is CACHE],
    )


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))


class OpenFiles:
    """The files and pipes that are open before the first schedule, but for those of the terminal.

    The system knows when a file was written, and how much of a pipe nobody has read.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # by descriptor
        self._buffered: list[Any] = []
        self._before: dict[tuple[int, int], tuple[int, int]] = {}

    def look(self, buffered: Sequence[Any]) -> None:
        """Find what is open; `buffered` are files of which the system does not know all."""
        self._names = dict(_list_open_files())
        self._buffered = [file for file in buffered if _find_descriptor(file) in self._names]

    def begin(self) -> None:
        """Note how the files are before a schedule, after its setup."""
        self._before = self._read()

    def list_written(self) -> list[str]:
        """Return the descriptions of what was written since `begin`."""
        after = self._read()
        before = self._before.items()
        return [self._names[key[0]] for key, state in before if after.get(key, state) != state]

    def _read(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the size and the time of each file or pipe, by its descriptor and its inode."""
        for file in self._buffered:
            with contextlib.suppress(OSError, ValueError):  # it is closed
                file.flush()
        states = {}
        for number in self._names:
            with contextlib.suppress(OSError):  # it is closed
                status = os.fstat(number)
                size = status.st_size or _count_unread(number, status)
                states[number, status.st_ino] = size, status.st_mtime_ns
        return states


def _read_statuses(descriptors: Iterable[int]) -> dict[int, os.stat_result]:
    """Return the status of what each of these descriptors is open to, by the descriptor."""
    statuses = {}
    for number in descriptors:
        with contextlib.suppress(OSError):  # it is closed
            statuses[number] = os.fstat(number)
    return statuses


def _list_descriptors() -> list[int]:
    with contextlib.suppress(OSError):  # the system has no such folder
        return [int(path.name) for path in OPEN_FILES.iterdir()]
    return []


# What the test runner has open: the file that pytest reports to, and the pipes of xdist.
OPEN_AT_START = _read_statuses(_list_descriptors())


def _list_open_files() -> Iterator[tuple[int, str]]:
    """Yield the descriptor of each open file or pipe, and a description."""
    # pytest puts files of its own at the terminal's descriptors. One that was closed is any file's.
    terminal = _read_statuses(number for number in TERMINAL if number in OPEN_AT_START)
    known = [*OPEN_AT_START.values(), *terminal.values()]
    for number, status in _read_statuses(_list_descriptors()).items():
        if any(os.path.samestat(status, each) for each in known):
            continue
        if stat.S_ISFIFO(status.st_mode):
            yield number, "a pipe"
        elif stat.S_ISREG(status.st_mode):  # only Linux knows the path
            path = OPEN_FILES / str(number)
            yield number, f"the file {path.readlink() if path.is_symlink() else path}"


def _find_descriptor(file: Any) -> int:
    try:
        return int(file.fileno())
    except (OSError, ValueError):  # it is closed, or in memory
        return -1


def _count_unread(number: int, status: os.stat_result) -> int:
    """Return how many bytes are in a pipe; 0 for a file."""
    import fcntl  # not on Windows
    import termios

    if not stat.S_ISFIFO(status.st_mode):
        return 0
    return int.from_bytes(fcntl.ioctl(number, termios.FIONREAD, bytes(4)), sys.byteorder)


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
            call = _call_before(call, lambda called, *_: note("effect", called))
            stack.enter_context(patch.object(mock.Mock, "__call__", call))
        for kind in (socket.socket, ssl.SSLSocket):
            for name in SENDING:
                send = _call_before(getattr(kind, name), partial(_note_sending, note))
                stack.enter_context(patch.object(kind, name, send))
        for owner, name, note_call in (
            (os, "write", _note_writing),
            (queue.Queue, "put", _note_queue),
            (threading.Thread, "start", _note_thread),
            (ThreadPoolExecutor, "submit", _note_thread),
        ):
            call = _call_before(getattr(owner, name), partial(note_call, note))
            stack.enter_context(patch.object(owner, name, call))
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
    except OSError:  # it is not connected: sendto() and sendmsg() end with an address
        address = args[-1] if len(args) > 1 and not isinstance(args[-1], int) else ""
    if address:  # which the ends of a socketpair() have not
        note("effect", f"what a process sends to {_write_address(address)}")


def _note_writing(note: Note, descriptor: int, *_: object) -> None:
    """Note what os.write() sends over a socket or a pipe; of a file, `OpenFiles` knows."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode):
        note("effect", "what a process sends to a pipe")
    if stat.S_ISSOCK(mode):
        with socket.socket(fileno=os.dup(descriptor)) as sender:
            _note_sending(note, sender, "")


def _note_queue(note: Note, filled: object, *_: object) -> None:
    _note_unless_own(note, f"what a process puts into a {type(filled).__name__}")


def _note_thread(note: Note, *_: object) -> None:
    _note_unless_own(note, "what a thread does that a process starts")


def _note_unless_own(note: Note, effect: str) -> None:
    """Note an effect of the code under test, and none by which asgiref or logging works."""
    frame: FrameType | None = sys._getframe(1)
    while frame and not is_user_code(frame.f_code.co_filename):
        if frame.f_globals.get("__name__", "").partition(".")[0] in OWN_EFFECTS:
            return
        frame = frame.f_back
    note("effect", effect)


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
    """Have Python report files that are opened to write, connections and programs.

    It runs once, as a hook cannot be removed: a second one would report all of them twice.
    """

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if not _notes:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and flags & (os.O_WRONLY | os.O_RDWR):
                _notes[-1]("file", path)
        elif event == "socket.connect":
            _notes[-1]("effect", f"what a process sends to {_write_address(arguments[1])}")
        elif event in PROGRAMS:
            index = PROGRAMS[event]
            program = "a fork" if index is None else arguments[index]
            if isinstance(program, (list, tuple)):  # with its arguments
                program = program[0]
            name = program.decode() if isinstance(program, bytes) else str(program)
            _notes[-1]("program", name)

    sys.addaudithook(audit)
