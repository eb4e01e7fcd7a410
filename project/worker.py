"""A gunicorn worker that bounds every wait: gthread, with whole requests and a bounded queue.

gunicorn's own gthread hands a connection to a thread as soon as it has said anything, and the
thread then waits for the rest of the request, however slowly it comes: as many half-sent headers
as there are threads stop the service. And its queue for the threads has no end, so that under
overload every request is answered after its client has left. Here the main loop, which waits for
all connections at once, reads the request until it is complete; a thread only ever gets a whole
one, and only if it can be answered in time. The others get a 503 at once. Redirects from one short
URL that come at the same time are one task: see project/together.py.
"""

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER

from project.connection import OVERLOADED, Connection
from project.receiving import ReceivingWorker
from project.threads import Threads
from project.together import Begun, TogetherWorker, Waiting

QUEUE_PER_THREAD = 8  # requests that may wait for each thread: with 12 threads some 0.2 s of work
TICK = 0.1  # seconds after which the main loop looks who has waited for too long


class BoundedWorker(ReceivingWorker, TogetherWorker):
    """gthread, whose threads get complete requests only, and no more than they can answer soon."""

    # Seconds after which a request that has waited is refused, and not begun: QUEUE_TIMEOUT_MS.
    queue_timeout = 0.5
    # Asked for the key by which a request, of which it gets the bytes, is answered with others.
    key_of: Callable[[bytearray], str | None] = staticmethod(lambda received: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.submitted = 0  # requests given to the threads that finish_answered() has not seen yet
        # Those of them that a thread is done with, and whether to keep the connection. The main
        # loop looks at them late, and must not refuse a client for its own last request.
        self.answered: deque[tuple[Connection, bool]] = deque()
        self.waiting = Waiting()
        self.new_key: str | None = None  # of the last that wait, to be given a thread
        self.most_submitted: int = self.cfg.threads * (1 + QUEUE_PER_THREAD)

    def init_process(self) -> None:
        # A thread for each probe, so that it is answered under any load, and so that the one that
        # asks the database, which may be frozen, does not stand in the other one's way.
        names = ("healthz", "readyz", "metrics")
        self.probes = {name: Threads(1, self.log.exception) for name in names}
        super().init_process()

    def get_thread_pool(self) -> Threads:
        """Return the threads that answer requests; gthread asks for them, after the fork."""
        return Threads(self.cfg.threads, self.log.exception)

    @property
    def is_full(self) -> bool:
        """Whether as many requests are submitted as can be answered soon."""
        return self.submitted - len(self.answered) >= self.most_submitted

    def submit(self, conn: Connection) -> None:
        """Queue a complete request for a thread."""
        self.receiving.pop(conn, None)
        key = None if conn.probe or conn.has_body else self.key_of(conn.received)
        conn.init()
        conn.is_asking = True
        conn.queued_at = time.monotonic()
        self.submitted += not conn.probe
        if key is None or self.waiting.is_stuck(key):
            self.unwatch(conn)  # as gunicorn may close it in the thread
            self.run_in_thread(self.handle_alone, conn)
        elif self.waiting.add(key, conn):
            self.give_thread()
            self.new_key = key

    def run_in_thread(self, function: Callable[..., object], conn: Connection, *rest: Any) -> None:
        """Have a thread answer."""
        threads: Any = self.probes.get(conn.probe, self.tpool)
        threads.submit(function, conn, *rest)

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for events; requests for one key that come in a row are given to a thread as one."""
        events = self.poller.select(min(timeout, TICK) if self.waiting.keys else timeout)
        self.finish_answered()
        for key, _ in events:
            key.data(key.fileobj)
        self.give_thread()

    def give_thread(self) -> None:
        """Have a thread answer the requests for a key that has none yet."""
        if self.new_key is not None:
            self.tpool.submit(self.handle_waiting, self.new_key)
        self.new_key = None

    def handle_waiting(self, key: str) -> None:
        """Answer the requests that wait for a key; in a thread."""
        more = True
        try:
            while more := bool(conns := self.waiting.take(key)):
                self.handle_together(conns)
                if self.tpool.has_waiting:  # it is the turn of others
                    break
        finally:
            if more:
                self.tpool.submit(self.handle_waiting, key)

    def handle_together(self, conns: list[Connection]) -> None:
        """Answer a request of each, or close what cannot be answered."""
        left = dict.fromkeys(conns)
        try:
            for conn, keep in self.answer_together(conns):
                del left[conn]
                self.done(conn, keep=keep)
        finally:
            for conn in left:
                self.done(conn, keep=False)

    def done(self, conn: Connection, *, keep: bool) -> None:
        """Tell the main loop that a request is answered, and whether to keep the connection.

        It is woken only where something is left to do: the next request wakes it anyway.
        """
        conn.received += conn.parser.unreader.take_buffered()
        if conn.probe:  # which took no place, and so makes none
            self.method_queue.defer(partial(self.finish, conn, keep=keep))
            return
        self.answered.append((conn, keep))
        if not (keep and conn.is_idle and self.alive):
            self.method_queue.defer(self.finish_answered)

    def begin(self, conn: Connection) -> Begun | None:
        """Read a request; return None for one that is refused."""
        return None if self.is_late(conn) else super().begin(conn)

    def is_late(self, conn: Connection) -> bool:
        """Refuse a request that has waited for too long."""
        if time.monotonic() - conn.queued_at <= self.queue_timeout:
            return False
        conn.say(OVERLOADED)
        self.on_refusal()
        return True

    def handle_alone(self, conn: Connection) -> None:
        """Answer a request; in a thread."""
        keep = False
        try:
            if conn.probe or not self.is_late(conn):
                keep = self.handle(conn)
        finally:
            self.done(conn, keep=keep)

    def send_rest(self, conn: Connection, keep: bool) -> None:
        """Wait until a client takes what it has not taken at once; in a thread."""
        self.done(conn, keep=conn.flush(wait=True) and keep)

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        # What is left of a body that was not received is not waited for: the connection ends.
        return conn.whole and super()._keepalive_after(conn, keepalive)

    def finish_answered(self) -> None:
        """Look after the connections whose requests the threads are done with."""
        while self.answered:
            conn, keep = self.answered.popleft()
            if conn.outgoing:
                self.run_in_thread(self.send_rest, conn, keep)
            else:
                self.submitted -= 1
                self.finish(conn, keep=keep)

    def finish(self, conn: Connection, *, keep: bool) -> None:
        """Wait for the next request, of which some may have come with this one, or close."""
        conn.is_asking = False
        if not keep:
            self.end(conn)  # for gunicorn's own way everybody would wait until this client closes
        elif conn.received:
            self.await_request(conn)
        else:
            conn.set_timeout()
            if not self.alive:
                conn.timeout = min(conn.timeout, time.monotonic() + STOP_KEEPALIVE_LINGER)
            self.keepalived_conns.append(conn)
            self.watch(conn)

    def murder_pending(self) -> None:
        """Close the connections whose request has not come in time, or has waited for too long."""
        super().murder_pending()
        for conn in self.waiting.overdue(self.queue_timeout):
            self.submitted -= 1
            self.on_refusal()
            self.drop(conn, OVERLOADED)
