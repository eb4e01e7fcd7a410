"""The service's connection through a PgBouncer in transaction mode, where one is installed."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from django.contrib.auth.models import Permission
from django.db import OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from loadtests.harness.own_pgbouncer import PGBOUNCER, own_pgbouncer
from project.tests.test_settings import Load, load

__all__ = ["load"]  # a fixture

pytestmark = [
    pytest.mark.skipif(not PGBOUNCER, reason="PgBouncer is not installed"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def pgbouncer_url() -> Iterator[str]:
    """Run a PgBouncer before the tests' database; return the address to connect to."""
    given = {"port": 5432, "user": "", **connection.get_connection_params()}
    if not str(given.get("host", "")).startswith("/"):
        pytest.skip("PgBouncer would need a password for PostgreSQL")
    with own_pgbouncer(given) as pgbouncer:
        yield pgbouncer.url


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
