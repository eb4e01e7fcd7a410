"""The worker under clients that are slow, silent or too many, with real sockets and threads.

Nothing waits for a clock, but for the one test of the time limit itself: a request that occupies a
thread tells the test so by connecting to a socket, and goes on when the test closes it.
"""

import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from project import connection, worker
from project.tests.waiting_app import LONG

ROOT = Path(__file__).resolve().parents[2]
THREADS = 2
PATIENCE = 30  # seconds, many times what any of this takes
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0000000004\r\n\r\n"
HOT = b"GET /hot HTTP/1.1\r\nHost: x\r\n\r\n"
LONG_GET = HOT.replace(b"hot", b"long")
WAIT = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"


class Served:
    """A gunicorn with one worker and THREADS threads, and the gate of its application."""

    def __init__(self, address: tuple[str, int], gate: socket.socket) -> None:
        self.address, self.gate = address, gate
        self.open = ExitStack()

    def send(self, data: bytes) -> socket.socket:
        """Connect and send `data`."""
        client = self.open.enter_context(socket.create_connection(self.address, timeout=PATIENCE))
        client.sendall(data)
        return client

    def ask(self, data: bytes) -> bytes:
        """Send `data` and return the response, read until it is whole or the connection ends."""
        return read(self.send(data))

    def begun(self) -> socket.socket:
        """Return what lets a thread go when closed, once one waits for that."""
        return self.open.enter_context(self.gate.accept()[0])

    def occupy(self, number: int) -> tuple[list[socket.socket], list[socket.socket]]:
        """Have threads wait; return the clients, and what lets each thread go when closed."""
        clients = [self.send(WAIT) for _ in range(number)]
        return clients, [self.begun() for _ in range(number)]


def read(client: socket.socket) -> bytes:
    data = b""
    while more := client.recv(65_536):
        data += more
        header, found, body = data.partition(b"\r\n\r\n")
        length = header.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if found and length and len(body) >= int(length):
            break
    return data


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as stack:

        def start(kind: str = "project.worker.BoundedWorker") -> Served:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
            gate = stack.enter_context(socket.socket(socket.AF_UNIX))
            gate.bind(str(tmp_path / "gate"))
            gate.listen(64)
            gate.settimeout(PATIENCE)
            command = [sys.executable, "-m", "gunicorn", f"--worker-class={kind}"]
            command += [f"--bind=fd://{listener.fileno()}", f"--threads={THREADS}"]
            command += ["--workers=1", "--graceful-timeout=1", "--no-control-socket"]
            process = subprocess.Popen(
                [*command, "project.tests.waiting_app:application"],
                cwd=ROOT,
                env={**os.environ, "GATE": str(tmp_path / "gate")},
                pass_fds=[listener.fileno()],
            )
            stack.callback(process.wait, PATIENCE)
            stack.callback(process.terminate)
            served = Served(listener.getsockname(), gate)
            stack.enter_context(served.open)
            assert served.ask(HEALTHZ).endswith(b"ok")
            return served

        yield start


def test_half_a_request_occupies_no_thread(serve: Callable[..., Served]) -> None:
    served = serve()
    halves = [served.send(OK[:-2]) for _ in range(20)]
    bodies = [served.send(POST + b"ha") for _ in range(20)]
    silent = [served.send(b"") for _ in range(20)]
    assert served.ask(OK).endswith(b"\r\n\r\nok")
    # They are answered as soon as they are whole ...
    halves[0].sendall(b"\r\n")
    assert read(halves[0]).endswith(b"\r\n\r\nok")
    bodies[0].sendall(b"lf")
    assert read(bodies[0]).endswith(b"\r\n\r\nokhalf")
    # ... or told that they cannot be, when the client says that nothing more comes ...
    for cut in (halves[2], bodies[2]):
        cut.shutdown(socket.SHUT_WR)
        assert read(cut) == connection.CUT_OFF
    # ... and otherwise that they were too slow.
    assert read(halves[1]) == read(bodies[1]) == connection.TOO_SLOW
    assert read(silent[1]) == b""


def test_what_the_queue_cannot_take_is_refused_at_once(serve: Callable[..., Served]) -> None:
    served = serve()
    served.occupy(THREADS)
    queued = [served.send(OK) for _ in range(THREADS * worker.QUEUE_PER_THREAD)]
    assert [served.ask(OK) for _ in range(5)] == [connection.OVERLOADED] * 5
    # Nor does the probe that waits for the database stand in the other one's way.
    served.send(HEALTHZ.replace(b"healthz", b"readyz"))
    served.begun()
    assert served.ask(HEALTHZ).endswith(b"\r\n\r\nok")
    assert b"503 Service Unavailable\r\nRetry-After: 1\r\n" in connection.OVERLOADED
    assert len(queued) == 16


def test_what_has_waited_too_long_is_not_begun(serve: Callable[..., Served]) -> None:
    served = serve("project.tests.waiting_app.ImpatientWorker")
    # Even a free thread takes a moment, so that nothing but a probe is answered.
    assert served.ask(WAIT) == connection.OVERLOADED
    assert served.ask(HEALTHZ).endswith(b"\r\n\r\nok")
    served.gate.setblocking(False)
    with pytest.raises(BlockingIOError):
        served.gate.accept()  # the application was never called


def test_what_a_thread_has_answered_makes_room_before_the_main_loop_hears_of_it() -> None:
    full = worker.BoundedWorker.__new__(worker.BoundedWorker)
    full.submitted = full.most_submitted = 1
    full.answered = deque()
    full.method_queue = SimpleNamespace(defer=id)
    full.alive = True
    assert full.is_full
    rest = SimpleNamespace(unreader=SimpleNamespace(take_buffered=lambda: b""))
    for probe, is_full in ("healthz", True), ("", False):
        answered: Any = SimpleNamespace(parser=rest, received=b"", is_idle=True, probe=probe)
        full.done(answered, keep=True)
        assert full.is_full is is_full


def test_requests_on_one_connection(serve: Callable[..., Served]) -> None:
    """Two in one packet, the second in halves, one that asks before its body, and many."""
    served = serve()
    client = served.send(OK + OK[:10])
    assert read(client).endswith(b"\r\n\r\nok")
    client.sendall(OK[10:])
    assert read(client).endswith(b"\r\n\r\nok")
    client.sendall(POST[:-2] + b"Expect: 100-continue\r\n\r\n")
    assert client.recv(100) == connection.CONTINUE
    client.sendall(b"last")
    assert read(client).endswith(b"\r\n\r\noklast")
    for _ in range(THREADS * (1 + worker.QUEUE_PER_THREAD)):  # what was answered takes no place
        client.sendall(OK)
        assert read(client).endswith(b"\r\n\r\nok")


@pytest.mark.parametrize("one", [OK, HOT])
def test_whole_requests_of_a_client_that_sends_no_more(
    serve: Callable[..., Served], one: bytes
) -> None:
    served = serve("project.tests.waiting_app.HotWorker")
    client = served.send(one * 3)
    client.shutdown(socket.SHUT_WR)
    for _ in range(3 if one is HOT else 0):
        served.begun().close()
    said = b"".join(iter(lambda: client.recv(65_536), b""))
    assert said.count(b"HTTP/1.1 200 OK") == said.count(b"\r\n\r\nok") == 3


def test_what_is_refused_without_a_thread(serve: Callable[..., Served]) -> None:
    served = serve()
    clients, gates = served.occupy(THREADS)
    for request, response in (
        (b"GET / HTTP/1.1\r\nX: Host:\r\n\r\n", connection.NO_HOST),
        (b"\r\nGET / HTTP/1.1\r\n\r\n", connection.NO_HOST),  # a blank line before is allowed
        (OK[:-2] + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", connection.NO_LENGTH),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * connection.LONGEST_HEADER, connection.TOO_LONG),
    ):
        assert served.ask(request) == response
    for gate in gates:
        gate.close()
    assert all(read(client).endswith(b"\r\n\r\nok") for client in clients)


@pytest.mark.parametrize("header", [b"Connection: close", b"Content-Length: 12345678901"])
def test_a_client_that_does_nothing_after_its_answer_holds_nobody_up(
    serve: Callable[..., Served], header: bytes
) -> None:
    served = serve()
    clients = [served.send(OK[:-2] + header + b"\r\n\r\n") for _ in range(16)]
    assert all(read(client).endswith(b"\r\n\r\nok") for client in clients)
    assert served.ask(HEALTHZ).endswith(b"\r\n\r\nok")
    assert [client.recv(1) for client in clients] == [b""] * 16


def test_who_still_sends_sees_the_answer(serve: Callable[..., Served]) -> None:
    body = bytes(4 * 1024 * 1024)  # more than what is on its way at a time
    head = OK[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"
    assert serve().ask(head + body) == connection.NO_LENGTH


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    return serve("project.tests.waiting_app.HotWorker")


def test_who_asks_for_the_same_meanwhile_is_answered_together(served: Served) -> None:
    """And waits for no thread of others, nor do others for this one."""
    first = served.send(HOT)
    going = served.begun()
    waiting = [served.send(HOT) for _ in range(3)]
    assert served.ask(OK).endswith(b"\r\n\r\nok")  # by now the main loop has read what came before
    going.close()
    assert read(first).endswith(b"ok 1 of 1")
    served.begun().close()
    assert [read(client)[-9:] for client in waiting] == [b"ok 1 of 3", b"ok 2 of 3", b"ok 3 of 3"]
    # Connections are kept as long as they are to be, with what has come too early.
    first.sendall(HOT + HOT)
    for _ in range(2):
        served.begun().close()
        assert read(first).endswith(b"ok 1 of 1")
    first.sendall(HOT)
    going = served.begun()
    first.sendall(HOT[:-2] + b"Connection: close\r\n\r\n")
    assert served.ask(OK).endswith(b"\r\n\r\nok")
    going.close()
    assert read(first).endswith(b"ok 1 of 1")
    served.begun().close()
    assert read(first).endswith(b"ok 1 of 1")
    assert first.recv(1) == b""


def test_who_waits_too_long_for_a_thread_is_refused(served: Served) -> None:
    served.send(HOT)
    served.begun()
    assert served.ask(HOT) == connection.OVERLOADED
    # From then on nobody waits for that thread.
    client = served.send(HOT)
    served.begun().close()
    assert read(client).endswith(b"\r\n\r\nok")


def test_what_cannot_be_answered_is_so_for_one_of_them(served: Served) -> None:
    first = served.send(HOT)
    going = served.begun()
    wrong = served.send(HOT[:-2] + b"Wrong Header: x\r\n\r\n")
    right = served.send(HOT)
    assert served.ask(OK).endswith(b"\r\n\r\nok")
    going.close()
    assert read(first).endswith(b"ok 1 of 1")
    served.begun().close()
    assert read(right).endswith(b"ok 1 of 1")
    assert read(wrong).startswith(b"HTTP/1.1 400 Bad Request\r\nConnection: close")
    assert served.ask(HOT.replace(b"hot", b"wrong")).startswith(
        b"HTTP/1.1 500 Internal Server Error"
    )


def test_a_thread_that_cannot_go_on_closes_its_connections(served: Served) -> None:
    for _ in range(THREADS + 1):
        assert not served.ask(HOT.replace(b"hot", b"exit"))
    assert served.ask(OK).endswith(b"\r\n\r\nok")


def test_a_client_that_takes_nothing_keeps_nobody_waiting(served: Served) -> None:
    client = served.send(LONG_GET)
    assert client.recv(1) == b"H"
    other = served.send(LONG_GET[:-2] + b"Connection: close\r\n\r\n")
    received = sum(map(len, iter(lambda: other.recv(1_000_000), b"")))
    assert received > len(LONG)
    left = received + len("keep-alive") - len("close") - 1
    while left:
        left -= len(client.recv(left))
    client.sendall(HOT)
    served.begun().close()
    assert read(client).endswith(b"ok 1 of 1")
