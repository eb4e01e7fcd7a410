"""Where faults happen: services and their PostgreSQL, with what a fault needs between them."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from loadtests.faults.experiment import Place, plain, served
from loadtests.faults.network import THERE, cable
from loadtests.faults.tcp_proxy import tcp_proxy
from loadtests.harness.own_haproxy import own_haproxy
from loadtests.harness.own_pgbouncer import NotInstalled, own_pgbouncer
from loadtests.harness.own_postgres import own_postgres

DISK = "200m"  # of which a new PostgreSQL takes some 60


@contextmanager
def appending(options: str) -> Iterator[Place]:
    """Have one service that counts with append_only, and records no visits."""
    with plain(options, SHORTURL_RESOLVING="append_only") as place:
        yield replace(place, visits=False)


def appending_visits(options: str) -> AbstractContextManager[Place]:
    """Have one service that records visits with append_only."""
    return plain(options, SHORTURL_VISITS="append_only")


@contextmanager
def two_services(options: str) -> Iterator[Place]:
    """Have two services on one PostgreSQL. Each client uses one of them."""
    with (
        own_postgres(options=options) as postgres,
        served(postgres.url) as one,
        served(postgres.url) as other,
    ):
        yield Place(postgres, [one, other], [one.url, other.url])


@contextmanager
def haproxy_before_service(options: str) -> Iterator[Place]:
    """Have a HAProxy with the limits of deploy/haproxy.cfg between the clients and the service.

    The probe of /healthz goes to the service itself, as HAProxy's own checks do.
    """
    with plain(options) as place, own_haproxy(place.urls[0]) as url:
        yield replace(place, urls=[url], probed=place.urls[0])


@contextmanager
def proxy_before_service(options: str) -> Iterator[Place]:
    """Have a TCP proxy between the clients and the service."""
    with plain(options) as place:
        address = urlsplit(place.urls[0])
        with tcp_proxy(lambda: socket.create_connection((address.hostname, address.port))) as proxy:
            yield replace(place, urls=[f"http://127.0.0.1:{proxy.port}"], tool=proxy)


@contextmanager
def proxy_before_postgres(options: str) -> Iterator[Place]:
    """Have a TCP proxy between the service and PostgreSQL."""
    with own_postgres() as postgres:

        def connect() -> socket.socket:
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(postgres.socket))
            return server

        with (
            tcp_proxy(connect) as proxy,
            served(postgres.url_at("127.0.0.1", proxy.port)) as service,
        ):
            yield Place(postgres, [service], [service.url], proxy)


@contextmanager
def pgbouncer_before_postgres(options: str) -> Iterator[Place]:
    """Have a PgBouncer in transaction mode between the service and PostgreSQL."""
    with (
        own_postgres() as postgres,
        own_pgbouncer(postgres.address) as pgbouncer,
        served(pgbouncer.url, DATABASE_POOLER="transaction") as service,
    ):
        yield Place(postgres, [service], [service.url], pgbouncer)


@contextmanager
def cable_to_postgres(options: str) -> Iterator[Place]:
    """Have PostgreSQL in a separate network namespace, with a cable to that of the service."""
    with ExitStack() as stack:
        wire = stack.enter_context(cable())
        with wire.far_end():
            postgres = stack.enter_context(own_postgres(listen=THERE))
        url = postgres.url_at(THERE, postgres.address["port"])
        service = stack.enter_context(served(url))
        yield Place(postgres, [service], [service.url], wire)


@contextmanager
def small_disk(options: str) -> Iterator[Place]:
    """Have PostgreSQL's data on a small file system, in memory."""
    if os.geteuid() or not shutil.which("mount"):
        raise NotInstalled("only root can mount a small file system")
    with TemporaryDirectory(prefix="disk-") as name:
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", name]
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if mounted.returncode:
            raise NotInstalled(mounted.stderr.strip())
        try:
            with (
                own_postgres(options=options, within=Path(name)) as postgres,
                served(postgres.url) as service,
            ):
                yield Place(postgres, [service], [service.url], Path(name))
        finally:
            subprocess.run(["umount", name], check=True)  # noqa: S603, S607
