"""A separate PgBouncer in front of a PostgreSQL, and a HAProxy in front of a service."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from loadtests.harness.serving import ROOT, wait_until

# Debian installs them into directories that only root has in its PATH.
PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
PGBOUNCER, HAPROXY = (shutil.which(name, path=PATH) for name in ("pgbouncer", "haproxy"))
TIMEOUT = 30  # seconds to start
PORT = 6432  # in the name of PgBouncer's Unix socket; no TCP port is used
CONFIG = """
[databases]
* = host={host} port={port} user={user}
pooled = host={host} port={port} dbname={dbname} user={user}
[pgbouncer]
listen_addr =
listen_port = {listen}
unix_socket_dir = {directory}
auth_type = any
pool_mode = {mode}
{more}
"""
BACKLOG = 4096  # that of HAProxy's own `bind` on Linux


class NotInstalled(Exception):
    """This machine lacks a program or a privilege. The message says which."""


class OwnPgbouncer:
    """The PgBouncer configured in `directory`. Use own_pgbouncer() to get it."""

    def __init__(self, directory: Path, database_user: str, account: int | None) -> None:
        self.directory, self._account = directory, account
        self.url = f"postgres://{database_user}@/pooled?host={directory}&port={PORT}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it accepts connections; raise OSError or TimeoutError."""
        if not PGBOUNCER:
            raise NotInstalled("PgBouncer is not installed")
        with (self.directory / "log").open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
                [PGBOUNCER, str(self.directory / "pgbouncer.ini")],
                stdout=file,
                stderr=file,
                user=self._account,
                start_new_session=True,
            )
        wait_until(self._answers, "PgBouncer did not start", TIMEOUT)

    def kill(self) -> None:
        """Kill it if it runs, and return when it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            log = (self.directory / "log").read_text()
            raise ChildProcessError(f"PgBouncer does not start: {log[-200:]}")
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.directory / f".s.PGSQL.{PORT}")) == 0


@contextmanager
def own_pgbouncer(
    address: Mapping[str, Any], *, mode: str = "transaction", more: str = ""
) -> Iterator[OwnPgbouncer]:
    """Start a PgBouncer in front of a PostgreSQL; stop it after the block.

    `address` is that of PostgreSQL: the directory of its socket as host, port, user and dbname.
    `mode` is the pool mode, and `more` are further lines of the configuration. Raises NotInstalled,
    and what OwnPgbouncer.start() does.
    """
    owner = (Path(address["host"]) / f".s.PGSQL.{address['port']}").stat().st_uid
    # PgBouncer refuses to run as root, and only its owner may use PostgreSQL's socket.
    account = owner if os.getuid() == 0 else None
    with TemporaryDirectory(prefix="pgbouncer-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        if account is not None:
            os.chown(directory, account, -1)
        config = CONFIG.format(listen=PORT, directory=directory, mode=mode, more=more, **address)
        (directory / "pgbouncer.ini").write_text(config)
        pgbouncer = OwnPgbouncer(directory, address["user"], account)
        try:
            pgbouncer.start()
            yield pgbouncer
        finally:
            pgbouncer.kill()


@contextmanager
def own_haproxy(service_url: str) -> Iterator[str]:
    """Yield the address of a HAProxy in front of the service at `service_url`.

    Its configuration is deploy/haproxy.cfg with the addresses of this machine, and with `option
    forwardfor`, which a HAProxy needs that clients reach directly. Raises NotInstalled,
    ChildProcessError or TimeoutError when it does not start.
    """
    if not HAPROXY:
        raise NotInstalled("HAProxy is not installed")
    # It inherits a listening socket, as another process could take a free port before it starts.
    with (
        TemporaryDirectory(prefix="haproxy-") as directory,
        socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener,
    ):
        file, number = Path(directory) / "haproxy.cfg", listener.fileno()
        port = listener.getsockname()[1]
        text = (ROOT / "deploy" / "haproxy.cfg").read_text()
        text = re.sub(r" *server web-2 .*\n", "", text)
        text = text.replace("web-1:8000", urlsplit(service_url).netloc)
        text = text.replace("log stdout format raw local0 notice", "")
        file.write_text(text.replace("bind :8000", f"bind fd@{number}\n    option forwardfor"))
        command = [HAPROXY, "-db", "-q", "-f", str(file)]
        with subprocess.Popen(command, pass_fds=[number], start_new_session=True) as process:  # noqa: S603
            try:
                is_ready = partial(_passes_on, process, port)
                wait_until(is_ready, "HAProxy did not pass requests on", TIMEOUT)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()


def _passes_on(process: "subprocess.Popen[bytes]", port: int) -> bool:
    if process.poll() is not None:
        raise ChildProcessError("HAProxy does not start")
    with closing(HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)) as client:
        try:
            client.request("GET", "/healthz")
            return client.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
