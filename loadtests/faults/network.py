"""Faults of the network: between clients and the service, and between it and PostgreSQL."""

import ctypes
import os
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from socket import SHUT_RDWR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any
from urllib.parse import urlsplit

from loadtests.faults.experiment import Experiment, Figure, Place, plain, run, served
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import NotInstalled, own_pgbouncer

KEEPALIVE = 30.0  # seconds, as in docs/monitoring.md
UNPLUGGED = 12  # seconds
CUTS, CUT_INTERVAL = 100, 0.05  # seconds
BUFFER = 65_536  # bytes
CLONE_NEWNET = 0x40000000  # of <linux/sched.h>
HERE, THERE = "10.77.0.1", "10.77.0.2"  # addresses in the two namespaces


@contextmanager
def pgbouncer_before_postgres(options: str) -> Iterator[Place]:
    """Yield a service with a PgBouncer in transaction mode between it and PostgreSQL."""
    with (
        own_postgres() as postgres,
        own_pgbouncer(postgres.address) as pgbouncer,
        served(pgbouncer.url, DATABASE_POOLER="transaction") as service,
    ):
        yield Place(postgres, [service], [service.url], pgbouncer)


def kill_pgbouncer(experiment: Experiment) -> None:
    experiment.place.tool.kill()
    experiment.go_on(1)
    experiment.place.tool.start()


class TcpProxy(ThreadingTCPServer):
    """Forwards each connection to a new one to `address`, until one end closes it."""

    daemon_threads, block_on_close, request_queue_size = True, False, 512

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.port = self.socket.getsockname()[1]
        self._address = address
        self._connections: list[socket] = []

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(OSError), create_connection(self._address) as server:
            self._connections.append(request)
            back = threading.Thread(target=pump, args=(server, request), daemon=True)
            back.start()
            pump(request, server)
            back.join()
            self._connections.remove(request)

    def cut_one(self) -> None:
        """Close a random connection, and lose the data under way."""
        with suppress(IndexError, OSError):
            random.choice(self._connections).shutdown(SHUT_RDWR)  # noqa: S311


def pump(source: socket, sink: socket) -> None:
    with suppress(OSError):
        while data := source.recv(BUFFER):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(SHUT_RDWR)


@contextmanager
def proxy_before_service(options: str) -> Iterator[Place]:
    """Yield a service with a TCP proxy between it and the clients."""
    with plain(options) as place:
        address = urlsplit(place.urls[0])
        with TcpProxy((str(address.hostname), address.port or 80)) as proxy:
            threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
            try:
                yield replace(place, urls=[f"http://127.0.0.1:{proxy.port}"], tool=proxy)
            finally:
                proxy.shutdown()


def cut_connections(experiment: Experiment) -> None:
    for _ in range(CUTS):
        experiment.place.tool.cut_one()
        experiment.go_on(CUT_INTERVAL)


# --- A network that loses all packets ------------------------------------------------------------


class Cable:
    """A cable between two new network namespaces.

    This thread, with the processes that it starts, is in one of them from now on. THERE is the
    address in the other one, at the far end. `stack` gets callbacks that remove them. Raises
    NotInstalled if the machine cannot have namespaces.
    """

    def __init__(self, stack: ExitStack) -> None:
        if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
            raise NotInstalled("Linux, root and the command ip are needed (iproute2)")
        machine = _namespace()
        stack.callback(os.close, machine)
        stack.callback(_call, "setns", machine, CLONE_NEWNET)
        _unshare()
        self._there = _namespace()
        stack.callback(os.close, self._there)
        _unshare()
        far = f"/proc/{os.getpid()}/fd/{self._there}"
        run(f"ip link add near type veth peer name far netns {far}")
        run(f"ip addr add {HERE}/24 dev near")
        run("ip link set near up")
        with self.far_end():
            run(f"ip addr add {THERE}/24 dev far")
        self.turn("up")

    @contextmanager
    def far_end(self) -> Iterator[None]:
        """Move this thread, and processes started in the block, to the other namespace."""
        here = _namespace()
        try:
            _call("setns", self._there, CLONE_NEWNET)
            yield
        finally:
            _call("setns", here, CLONE_NEWNET)
            os.close(here)

    def turn(self, state: str) -> None:
        """Turn the cable "down", so that it loses all packets, or "up" again."""
        with self.far_end():
            run(f"ip link set far {state}")


def _namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _unshare() -> None:
    _call("unshare", CLONE_NEWNET)
    run("ip link set lo up")


def _call(function: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
        raise NotInstalled(f"{function}: {os.strerror(ctypes.get_errno())}")


@contextmanager
def cable_to_postgres(options: str) -> Iterator[Place]:
    """Yield a service whose PostgreSQL is in another network namespace, with a cable between."""
    with ExitStack() as stack:
        cable = Cable(stack)
        with cable.far_end():
            postgres = stack.enter_context(own_postgres(listen=THERE))
        url = postgres.url_at(THERE, postgres.address["port"])
        service = stack.enter_context(served(url))
        yield Place(postgres, [service], [service.url], cable)


def unplug(experiment: Experiment) -> Iterator[Figure]:
    """Have the network lose all packets, and wait until sessions without a client have ended."""
    cable = experiment.place.tool
    cable.turn("down")
    experiment.go_on(UNPLUGGED)
    left = dead(experiment)
    cable.turn("up")
    problem, longest = "dead sessions are not ended", 10 * KEEPALIVE
    took = experiment.wait(lambda: not dead(experiment), problem, longest)
    yield Figure("dead sessions", left, 1, least=True)
    yield Figure("ended after", UNPLUGGED + took, 2 * KEEPALIVE, " s")


def dead(experiment: Experiment) -> int:
    """Return the number of PostgreSQL's sessions whose client port no worker has open."""
    with experiment.postgres.session() as cursor:
        cursor.execute("SELECT client_port FROM pg_stat_activity WHERE client_port > 0")
        ports = {port for (port,) in cursor.fetchall()}
    for worker in experiment.master.children():
        ports -= {each.laddr.port for each in worker.net_connections("tcp")}
    return len(ports)
