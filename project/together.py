"""Requests for one short URL that come at the same time, and are answered by one thread together.

To hand a request to a thread, and its connection back to the main loop, takes longer than to answer
a redirect. So while a thread answers for a key, further requests for it wait, and the thread then
takes all of them. Each finds the others in its WSGI environ, so that the application can count them
in one statement.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import datetime
from typing import Any, NamedTuple

from gunicorn.http import wsgi
from gunicorn.http.message import Request
from gunicorn.workers.gthread import ThreadWorker

from project.connection import Connection

TOGETHER = "project.together"  # in an environ: those of all requests that are answered together

# Seconds that a thread may take for requests of a key before others no longer wait for it: the row
# is locked, or the database frozen, and each of them gets the answer of shorturl/key_gate.py.
PATIENCE = 0.5


class Waiting:
    """The connections whose requests wait for the thread of their key."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.keys: dict[str, list[Connection]] = {}  # those that have a thread, or are to get one
        self.since: dict[str, float] = {}  # when it was asked for, or took the last ones

    def is_stuck(self, key: str) -> bool:
        """Return whether the thread of a key has not come back for long."""
        now = time.monotonic()
        return now - self.since.get(key, now) > PATIENCE

    def add(self, key: str, conn: Connection) -> bool:
        """Have a request wait; return whether its key is to get a thread."""
        with self.lock:
            is_first = key not in self.keys
            if is_first:
                self.keys[key] = []
                self.since[key] = time.monotonic()
            self.keys[key].append(conn)
        return is_first

    def take(self, key: str) -> list[Connection]:
        """Return all that wait for a key; when none does, it has no thread any more."""
        with self.lock:
            taken = self.keys[key]
            if taken:
                self.keys[key] = []
                self.since[key] = time.monotonic()
            else:
                del self.keys[key], self.since[key]
        return taken

    def overdue(self, seconds: float) -> list[Connection]:
        """Return those that have waited for longer, and wait no more."""
        now, found = time.monotonic(), list[Connection]()
        with self.lock:
            for conns in self.keys.values():
                late = sum(now - conn.queued_at > seconds for conn in conns)  # the first of them
                found += conns[:late]
                del conns[:late]
        return found


class Begun(NamedTuple):
    """A request that is being answered, since a time."""

    conn: Connection
    request: Request
    response: wsgi.Response
    environ: dict[str, Any]
    since: datetime


class TogetherWorker(ThreadWorker):  # type: ignore[misc]
    """gthread, with a way to answer several requests in one thread."""

    def answer_together(self, conns: list[Connection]) -> Iterator[tuple[Connection, bool]]:
        """Answer a request of each, waiting for no client; yield who is, and whether to keep it."""
        begun = [self.begin(conn) for conn in conns]
        environs = [one.environ for one in begun if one]
        for environ in environs:
            environ[TOGETHER] = environs
        for conn, one in zip(conns, begun, strict=True):
            yield conn, one is not None and self.respond(one)
        environs.clear()  # or each would have itself in it, and wait for the garbage collector

    def begin(self, conn: Connection) -> Begun | None:
        """Read a request; return None for one that is refused."""
        since, request = datetime.now(), None  # noqa: DTZ005 - as gunicorn's log has it
        try:
            conn.parser.mesg = None  # the last request, of which nothing is left to read
            request = next(conn.parser)
            self.cfg.pre_request(self, request)
            response, environ = wsgi.create(request, conn, conn.client, conn.server, self.cfg)
        except Exception as error:
            self.fail(conn, request, error)
            return None
        environ["wsgi.multithread"] = True
        return Begun(conn, request, response, environ, since)

    def respond(self, one: Begun) -> bool:
        """Have the application respond; return whether to keep the connection."""
        conn, request, response, environ, since = one
        self.nr += 1
        if self.nr >= self.max_requests:
            self.alive = False
        if (
            not (self.alive and self.cfg.keepalive)
            or len(self.keepalived_conns) >= self.max_keepalived
        ):
            response.force_close()
        try:
            body = self.wsgi(environ, response.start_response)
            with closing(body) if hasattr(body, "close") else nullcontext():
                for part in body:
                    response.write(part)
                response.close()
            self.log.access(response, request, environ, datetime.now() - since)  # noqa: DTZ005
            self.cfg.post_request(self, request, environ, response)
        except Exception as error:
            self.fail(conn, request, error)
            return False
        return conn.flush() and not response.should_close()

    def fail(self, conn: Connection, request: Request | None, error: Exception) -> None:
        """Answer what gunicorn does to a request that cannot be read, or to a mistake."""
        conn.outgoing.clear()
        self.handle_error(request, conn, conn.client, error)
        conn.flush()
