"""The service's connection through a PgBouncer in transaction mode, if PgBouncer is installed."""

import os
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import OperationalError, connection, connections
from django.db.utils import ConnectionHandler

from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import PGBOUNCER, own_pgbouncer
from project.tests.conftest import ROOT, Load

pytestmark = [
    pytest.mark.skipif(not PGBOUNCER, reason="PgBouncer is not installed"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def given() -> dict[str, Any]:
    parameters = {"port": 5432, "user": "", **connection.get_connection_params()}
    if not str(parameters.get("host", "")).startswith("/"):
        pytest.skip("PgBouncer would need a password for PostgreSQL")
    return parameters


def test_iterator_reads_all_rows_in_any_session(load: Load, given: dict[str, Any]) -> None:
    """Forms read their choices with iterator(), which by default keeps a cursor on the server.

    The other client takes the session that has just become free, with the cursor in it.
    """
    expected = list(Permission.objects.order_by("pk"))
    with own_pgbouncer(given) as pgbouncer:
        variables = {"DATABASE_URL": pgbouncer.url, "SHORTURL_LOCAL": "on"}
        unaware = ConnectionHandler(load(**variables)["DATABASES"])["default"]
        settings = load(**variables, DATABASE_POOLER="transaction")["DATABASES"]
        pooled, other = (ConnectionHandler(settings)["default"] for _ in range(2))
        own = connections["default"]
        with closing(pooled), closing(other):
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
        # Without the setting PgBouncer refuses, so no service runs behind it without the limits.
        with pytest.raises(OperationalError, match="unsupported startup parameter: options"):
            unaware.ensure_connection()
    assert read == expected


# They set a parameter of their session, keep a lock in it, or read its statistics. The next
# statement may have another session.
OF_A_SESSION = (
    "test_the_database_does_not_answer_in_time",
    "test_the_command_says_what_it_moved",
    "test_hits_are_counted_in_place",
    "test_count_skips_a_locked_row_and_resolve_waits_for_it",
    "test_a_request_that_is_still_in_progress",
    "test_a_lock_timeout_of_the_work_is_not_a_request_in_progress",
    "test_links_are_imported_although_analyze_fails",
)


@pytest.mark.exhaustive
def test_the_services_own_tests_through_it() -> None:
    """All but OF_A_SESSION and those of the explorer, which are skipped: see conftest.py.

    Each transaction begins in a reset session. Otherwise a parameter that one test sets for its
    session could reach another test, in one run and not in the next.
    """
    as_new = "server_reset_query_always = 1"
    with own_postgres() as postgres, own_pgbouncer(postgres.address, more=as_new) as pgbouncer:
        url = pgbouncer.url.replace("/pooled", "/shorturl")
        through = {"DATABASE_URL": url, "DATABASE_POOLER": "transaction", "SHORTURL_LOCAL": "on"}
        ended = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "--reuse-db", "shorturl/tests",
                "--ignore=shorturl/tests/browser", "-k", f"not ({' or '.join(OF_A_SESSION)})",
            ],
            cwd=ROOT, env={"PATH": os.environ["PATH"], **through},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert " passed" in ended.stdout
