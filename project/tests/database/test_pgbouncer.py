"""The service's connection through a PgBouncer in transaction mode, if PgBouncer is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection, connections
from django.db.utils import ConnectionHandler

from loadtests.servers import START_TIMEOUT, own_postgres, wait_until
from project.tests.conftest import ROOT, Load

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
PORT = 6432  # in the name of PgBouncer's Unix socket; no TCP port is used
CONFIG = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr =
listen_port = {listen}
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
server_reset_query_always = 1
"""

pytestmark = [
    pytest.mark.skipif(not PGBOUNCER, reason="PgBouncer is not installed"),
    pytest.mark.django_db(transaction=True),
]


@contextmanager
def start_pgbouncer(parameters: dict[str, Any]) -> Iterator[str]:
    """Start a PgBouncer in front of a PostgreSQL, and yield the DATABASE_URL of its database.

    Each transaction begins in a reset session, so no test sees another one's parameters.
    """
    socket = Path(parameters.get("host", ""), f".s.PGSQL.{parameters['port']}")
    if not socket.exists():
        pytest.skip("PgBouncer would need a password for PostgreSQL")
    # PgBouncer refuses to run as root, and only its owner may use PostgreSQL's socket.
    account = socket.stat().st_uid if os.getuid() == 0 else None
    with TemporaryDirectory(prefix="pgbouncer-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        if account is not None:
            os.chown(directory, account, -1)
        config = directory / "pgbouncer.ini"
        config.write_text(CONFIG.format(listen=PORT, directory=directory, **parameters))
        with subprocess.Popen([str(PGBOUNCER), "-q", str(config)], user=account) as process:
            try:
                ready = (directory / f".s.PGSQL.{PORT}").exists
                wait_until(ready, "PgBouncer did not start", START_TIMEOUT)
                user, name = parameters["user"], parameters["dbname"]
                yield f"postgres://{user}@/{name}?host={directory}&port={PORT}"
            finally:
                process.kill()


@pytest.fixture
def pooled_url() -> Iterator[str]:
    with start_pgbouncer({"port": 5432, "user": "", **connection.get_connection_params()}) as url:
        yield url


def test_iterator_reads_all_rows_in_any_session(load: Load, pooled_url: str) -> None:
    """Forms read their choices with iterator(), which by default keeps a cursor in its session."""
    expected = list(Permission.objects.order_by("pk"))
    variables = {"DATABASE_URL": pooled_url, "SHORTURL_LOCAL": "on"}
    settings = load(**variables, DATABASE_POOLER="transaction")["DATABASES"]
    pooled, other = (ConnectionHandler(settings)["default"] for _ in range(2))
    own = connections["default"]
    with closing(pooled), closing(other):
        connections["default"] = pooled
        try:
            rows = Permission.objects.order_by("pk").iterator(chunk_size=2)
            read = [next(rows)]
            # Another client takes the session that has just become free, with a cursor in it.
            other.set_autocommit(False)
            with other.cursor() as cursor:
                cursor.execute("SELECT 1")
            read += rows
            other.rollback()
        finally:
            connections["default"] = own
    assert read == expected


# These tests set a parameter of their session, keep a lock in it, or read its statistics. Through
# PgBouncer the next statement may have another session.
NEED_ONE_SESSION = (
    "test_hits_are_counted_in_place",
    "test_a_request_that_is_still_in_progress",
    "test_a_lock_timeout_of_the_work_is_not_a_request_in_progress",
)
IGNORED_PATHS = ("browser", "races", "test_serial_orders.py")


@pytest.mark.exhaustive
def test_the_services_own_tests_pass_through_pgbouncer() -> None:
    """All but NEED_ONE_SESSION and those of the explorer, which tells sessions apart."""
    ignored = [f"--ignore=shorturl/tests/{path}" for path in IGNORED_PATHS]
    command = [sys.executable, "-m", "pytest", "-q", "--reuse-db", "shorturl/tests"]
    chosen = ("-k", f"not ({' or '.join(NEED_ONE_SESSION)})")
    with own_postgres() as postgres, start_pgbouncer(postgres.address) as url:
        through = {"DATABASE_URL": url, "DATABASE_POOLER": "transaction", "SHORTURL_LOCAL": "on"}
        ended = subprocess.run(
            [*command, *ignored, *chosen],
            cwd=ROOT, env={"PATH": os.environ["PATH"], **through},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert " passed" in ended.stdout
