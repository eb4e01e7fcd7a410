"""Where faults happen: services and their PostgreSQL, with proxies or networks between them."""

import ctypes
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from socket import AF_UNIX, SHUT_RDWR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from loadtests.faults.experiment import Place, plain, served
from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import NotInstalled, own_haproxy, own_pgbouncer

BUFFER = 65_536  # bytes
CLONE_NEWNET = 0x40000000  # of <linux/sched.h>
HERE, THERE = "10.77.0.1", "10.77.0.2"  # addresses in the two namespaces
DISK = "200m"  # a new PostgreSQL takes some 60


@contextmanager
def two_services(options: str) -> Iterator[Place]:
    """Yield two services on one PostgreSQL. Each client uses one of them."""
    with (
        own_postgres(options=options) as postgres,
        served(postgres.url) as one,
        served(postgres.url) as other,
    ):
        yield Place(postgres, [one, other], [one.url, other.url])


@contextmanager
def haproxy_before_service(options: str) -> Iterator[Place]:
    """Yield a service behind a HAProxy with the limits of deploy/haproxy.cfg.

    The probe of /healthz goes past HAProxy to the service, as HAProxy's own checks do.
    """
    with plain(options) as place, own_haproxy(place.urls[0]) as url:
        yield replace(place, urls=[url], probed=place.urls[0])


@contextmanager
def proxy_before_service(options: str) -> Iterator[Place]:
    """Yield a service with a TCP proxy between it and the clients."""
    with plain(options) as place:
        address = urlsplit(place.urls[0])
        with tcp_proxy(lambda: create_connection((address.hostname, address.port))) as proxy:
            yield replace(place, urls=[f"http://127.0.0.1:{proxy.port}"], tool=proxy)


@contextmanager
def proxy_before_postgres(options: str) -> Iterator[Place]:
    """Yield a service with a TCP proxy between it and PostgreSQL."""
    with own_postgres() as postgres:

        def connect() -> socket:
            server = socket(AF_UNIX)
            server.connect(str(postgres.running.socket))
            return server

        with (
            tcp_proxy(connect) as proxy,
            served(postgres.url_at("127.0.0.1", proxy.port)) as service,
        ):
            yield Place(postgres, [service], [service.url], proxy)


@contextmanager
def pgbouncer_before_postgres(options: str) -> Iterator[Place]:
    """Yield a service with a PgBouncer in transaction mode between it and PostgreSQL."""
    with (
        own_postgres() as postgres,
        own_pgbouncer(postgres.address) as pgbouncer,
        served(pgbouncer.url, DATABASE_POOLER="transaction") as service,
    ):
        yield Place(postgres, [service], [service.url], pgbouncer)


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


@contextmanager
def small_disk(options: str) -> Iterator[Place]:
    """Yield a service whose PostgreSQL has its data on a small file system in memory."""
    if os.geteuid() or not shutil.which("mount"):
        raise NotInstalled("only root can mount a small file system")
    with TemporaryDirectory(prefix="disk-") as name:
        run(f"mount -t tmpfs -o size={DISK},mode=755 tmpfs {name}")
        try:
            with (
                own_postgres(options=options, within=Path(name)) as postgres,
                served(postgres.url) as service,
            ):
                yield Place(postgres, [service], [service.url], Path(name))
        finally:
            subprocess.run(["umount", name], check=True)  # noqa: S603, S607


def run(command: str) -> None:
    """Run a command without quotes; raise NotInstalled when it fails."""
    ended = subprocess.run(command.split(), check=False, capture_output=True, text=True)  # noqa: S603
    if ended.returncode:
        raise NotInstalled(f"{command}: {ended.stderr.strip()}")


class TcpProxy(ThreadingTCPServer):
    """Forwards each connection to a new one that `connect` makes. Use tcp_proxy() to get it.

    While the event `forwarding` is not set, it forwards nothing on old and new connections, like a
    network that loses all packets.
    """

    daemon_threads, block_on_close, request_queue_size = True, False, 512

    def __init__(self, connect: Callable[[], socket]) -> None:
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.port = self.socket.getsockname()[1]
        self.forwarding = threading.Event()
        self.forwarding.set()
        self._connect = connect
        self._connections: list[socket] = []

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Forward a connection in both directions until one end closes it."""
        with suppress(OSError), self._connect() as server:
            self._connections.append(request)
            back = threading.Thread(target=self._pump, args=(server, request), daemon=True)
            back.start()
            self._pump(request, server)
            back.join()
            self._connections.remove(request)

    def _pump(self, source: socket, sink: socket) -> None:
        with suppress(OSError):
            while data := source.recv(BUFFER):
                self.forwarding.wait()
                sink.sendall(data)
        self.forwarding.wait()
        for end in (source, sink):
            _cut(end)

    def cut_one(self) -> None:
        """Close a random connection, and lose the data under way."""
        with suppress(IndexError):
            _cut(random.choice(self._connections))  # noqa: S311

    def cut_all(self) -> None:
        self.forwarding.set()
        for client in [*self._connections]:
            _cut(client)


def _cut(connection: socket) -> None:
    with suppress(OSError):
        connection.shutdown(SHUT_RDWR)


@contextmanager
def tcp_proxy(connect: Callable[[], socket]) -> Iterator[TcpProxy]:
    """Yield a running proxy; stop it after the block."""
    with TcpProxy(connect) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            proxy.cut_all()


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
