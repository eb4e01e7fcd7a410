"""A separate PgBouncer for a test run, in front of a PostgreSQL."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loadtests.harness.waiting import wait_until

# Debian installs it where only the PATH of root leads.
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
TIMEOUT = 30  # seconds to start
PORT = 6432  # the name of its socket: no port of the machine is taken
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


class NotInstalled(Exception):
    """This machine lacks a program, or a right, that is needed. The message says which."""


class OwnPgbouncer:
    """The PgBouncer configured in `directory`. Use own_pgbouncer() to get it."""

    def __init__(self, directory: Path, address: Mapping[str, Any], user: int | None) -> None:
        self.directory, self._account = directory, user
        self.url = f"postgres://{address['user']}@/pooled?host={directory}&port={PORT}"
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
        """Kill it, if it runs, and return when it is gone."""
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
    """Start one in front of a PostgreSQL; stop it after the block.

    `address` is that of PostgreSQL: the directory of its socket as host, port, user and dbname.
    `mode` is what it pools, and `more` are further lines of its configuration. Raises NotInstalled,
    and what OwnPgbouncer.start() does.
    """
    owner = (Path(address["host"]) / f".s.PGSQL.{address['port']}").stat().st_uid
    # It refuses to be root, and only their owner may use PostgreSQL's sockets.
    user = owner if os.getuid() == 0 else None
    with TemporaryDirectory(prefix="pgbouncer-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        if user is not None:
            os.chown(directory, user, -1)
        config = CONFIG.format(listen=PORT, directory=directory, mode=mode, more=more, **address)
        (directory / "pgbouncer.ini").write_text(config)
        pgbouncer = OwnPgbouncer(directory, address, user)
        try:
            pgbouncer.start()
            yield pgbouncer
        finally:
            pgbouncer.kill()
