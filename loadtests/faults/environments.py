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

from loadtests.faults.experiment import Place, Setup, plain
from loadtests.faults.network import THERE, cable
from loadtests.faults.outcome import Skipped
from loadtests.faults.tcp_proxy import tcp_proxy
from loadtests.harness import own_haproxy, own_pgbouncer
from loadtests.harness.own_postgres import own_postgres

DISK = "200m"  # of which a new PostgreSQL takes some 60


def appending(setup: Setup) -> AbstractContextManager[Place]:
    """Have one service that counts with append_only."""
    return plain(replace(setup, strategy="append_only"))


def appending_visits(setup: Setup) -> AbstractContextManager[Place]:
    """Have one service that records visits with append_only."""
    return plain(setup, SHORTURL_VISITS="append_only")


@contextmanager
def two_services(setup: Setup) -> Iterator[Place]:
    """Have two services on one PostgreSQL. Each client uses one of them."""
    with (
        own_postgres(options=setup.postgres_options) as postgres,
        setup.serve(postgres.url) as one,
        setup.serve(postgres.url) as other,
    ):
        yield Place(postgres, [one, other], [one.url, other.url])


@contextmanager
def haproxy_before_service(setup: Setup) -> Iterator[Place]:
    """Have a HAProxy with the limits of deploy/haproxy.cfg between the clients and the service.

    The probe of /healthz goes to the service itself, as HAProxy's own checks do.
    """
    try:
        with plain(setup) as place, own_haproxy.own_haproxy(place.urls[0]) as url:
            yield replace(place, urls=[url], probed=place.urls[0])
    except own_pgbouncer.NotInstalled as reason:
        raise Skipped(str(reason)) from reason


@contextmanager
def proxy_before_service(setup: Setup) -> Iterator[Place]:
    """Have a TCP proxy between the clients and the service."""
    with plain(setup) as place:
        address = urlsplit(place.urls[0])
        with tcp_proxy(lambda: socket.create_connection((address.hostname, address.port))) as proxy:
            yield replace(place, urls=[f"http://127.0.0.1:{proxy.port}"], tool=proxy)


@contextmanager
def proxy_before_postgres(setup: Setup) -> Iterator[Place]:
    """Have a TCP proxy between the service and PostgreSQL."""
    with own_postgres() as postgres:

        def connect() -> socket.socket:
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(postgres.socket))
            return server

        with (
            tcp_proxy(connect) as proxy,
            setup.serve(postgres.url_at("127.0.0.1", proxy.port)) as service,
        ):
            yield Place(postgres, [service], [service.url], proxy)


@contextmanager
def pgbouncer_before_postgres(setup: Setup) -> Iterator[Place]:
    """Have a PgBouncer in transaction mode between the service and PostgreSQL."""
    try:
        with (
            own_postgres() as postgres,
            own_pgbouncer.own_pgbouncer(postgres.address) as pgbouncer,
            setup.serve(pgbouncer.url, DATABASE_POOLER="transaction") as service,
        ):
            yield Place(postgres, [service], [service.url], pgbouncer)
    except own_pgbouncer.NotInstalled as reason:
        raise Skipped(str(reason)) from reason


@contextmanager
def cable_to_postgres(setup: Setup) -> Iterator[Place]:
    """Have PostgreSQL in a network of its own, with a cable to the service's."""
    with ExitStack() as stack:
        wire = stack.enter_context(cable())
        with wire.far_end():
            postgres = stack.enter_context(own_postgres(listen=THERE))
        url = postgres.url_at(THERE, postgres.address["port"])
        service = stack.enter_context(setup.serve(url))
        yield Place(postgres, [service], [service.url], wire)


@contextmanager
def small_disk(setup: Setup) -> Iterator[Place]:
    """Have PostgreSQL's data on a small file system, in memory."""
    if os.geteuid() or not shutil.which("mount"):
        raise Skipped("only root can mount a small file system")
    with TemporaryDirectory(prefix="disk-") as name:
        options = f"size={DISK},mode=755"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", name]
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if mounted.returncode:
            raise Skipped(mounted.stderr.strip())
        try:
            with (
                own_postgres(options=setup.postgres_options, within=Path(name)) as postgres,
                setup.serve(postgres.url) as service,
            ):
                yield Place(postgres, [service], [service.url], Path(name))
        finally:
            subprocess.run(["umount", name], check=True)  # noqa: S603, S607
