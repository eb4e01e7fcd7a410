"""The service's connection through a PgBouncer in transaction mode, where one is installed."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.contrib.auth.models import Permission
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from project.tests.test_settings import Load, load

__all__ = ["load"]  # a fixture

# Debian's is where only root looks.
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
TIMEOUT = 30  # seconds to start
PORT = 6432  # the name of its socket: no port of the machine is taken
CONFIG = """
[databases]
pooled = host={host} port={port} dbname={dbname} user={user}
[pgbouncer]
listen_addr =
listen_port = {listen}
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
"""

pytestmark = [
    pytest.mark.skipif(not PGBOUNCER, reason="PgBouncer is not installed"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def pgbouncer_url() -> Iterator[str]:
    """Run a PgBouncer before the tests' database; return the address to connect to."""
    assert PGBOUNCER
    given = {"port": 5432, "user": "", **connection.get_connection_params()}
    if not str(given.get("host", "")).startswith("/"):
        pytest.skip("PgBouncer would need a password for PostgreSQL")
    owner = (Path(given["host"]) / f".s.PGSQL.{given['port']}").stat().st_uid
    # It refuses to be root, and only their owner may use PostgreSQL's sockets.
    user = owner if os.getuid() == 0 else None
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        if user is not None:
            os.chown(directory, user, -1)
        config = directory / "pgbouncer.ini"
        config.write_text(CONFIG.format(listen=PORT, directory=directory, **given))
        with (directory / "log").open("w") as log:
            process = subprocess.Popen([PGBOUNCER, str(config)], stderr=log, user=user)
        try:
            wait_for(directory / f".s.PGSQL.{PORT}", process, directory / "log")
            yield f"postgres://{given['user']}@/pooled?host={directory}&port={PORT}"
        finally:
            process.terminate()
            process.wait(TIMEOUT)


def wait_for(address: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when the process listens at the Unix socket."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(address))
            return
        except (FileNotFoundError, ConnectionRefusedError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)  # between two tries


def connected(load: Load, url: str, pooler: str) -> BaseDatabaseWrapper:
    """Return a connection as the settings have it."""
    databases = load(DATABASE_URL=url, SHORTURL_LOCAL="on", DATABASE_POOLER=pooler)["DATABASES"]
    return ConnectionHandler(databases)["default"]


def test_rows_are_read_to_the_end_whichever_session_the_next_statement_gets(
    load: Load, pgbouncer_url: str
) -> None:
    """Forms read their choices with iterator(), which by itself keeps a cursor on the server.

    The other client takes the session that has just become free, with the cursor in it.
    """
    expected = list(Permission.objects.order_by("pk"))
    with (
        closing(connected(load, pgbouncer_url, "transaction")) as pooled,
        closing(connected(load, pgbouncer_url, "transaction")) as other,
    ):
        own = connections["default"]
        connections["default"] = pooled
        try:
            rows = Permission.objects.order_by("pk").iterator(chunk_size=2)
            read = [next(rows)]
            other.set_autocommit(False)
            with other.cursor() as cursor:
                cursor.execute("SELECT 1")
            read += rows
            other.rollback()
        finally:
            connections["default"] = own
    assert read == expected
    # Without the setting it refuses, so that nobody runs behind it by mistake, without the limits.
    with pytest.raises(OperationalError, match="unsupported startup parameter: options"):
        connected(load, pgbouncer_url, "none").ensure_connection()
