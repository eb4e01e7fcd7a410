"""The service's connection through a PgBouncer in transaction mode, if PgBouncer is installed."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.checks import Tags, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection, connections
from django.db.utils import ConnectionHandler
from django.test import override_settings

from loadtests.harness.own_postgres import own_postgres
from loadtests.harness.own_proxies import PGBOUNCER, own_pgbouncer
from project.tests.conftest import ROOT, Load

pytestmark = [
    pytest.mark.skipif(not PGBOUNCER, reason="PgBouncer is not installed"),
    pytest.mark.django_db(transaction=True),
]
NO_LIMITS = {
    "DATABASE_STATEMENT_TIMEOUT": 0,
    "DATABASE_LOCK_TIMEOUT": 0,
    "DATABASE_IDLE_IN_TRANSACTION_TIMEOUT": 0,
}
Told = Callable[..., list[str]]


@pytest.fixture
def given() -> dict[str, Any]:
    parameters = {"port": 5432, "user": "", **connection.get_connection_params()}
    if not str(parameters.get("host", "")).startswith("/"):
        pytest.skip("PgBouncer would need a password for PostgreSQL")
    return parameters


@pytest.fixture
def direct_url(given: dict[str, Any]) -> str:
    return "postgres://{user}@/{dbname}?host={host}&port={port}".format(**given)


@pytest.fixture
def told(load: Load) -> Told:
    """Return a function that returns the messages of the checks with these variables."""

    def told(limits: dict[str, int] = NO_LIMITS, **variables: str) -> list[str]:
        loaded = load(SHORTURL_LOCAL="on", **variables)
        names = ("SERVICE_DATABASE", "DIRECT_DATABASE", "DATABASE_POOLER")
        with override_settings(**{name: loaded[name] for name in names}, **limits):
            messages = run_checks(tags=[Tags.database], databases=["default"])
        return [f"{each.id}: {each.msg}".removeprefix("project.") for each in messages]

    return told


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


IGNORING = "ignore_startup_parameters = options"


@pytest.mark.parametrize(
    ("mode", "pooler", "more", "said"),
    [
        ("transaction", "transaction", "", ""),
        ("session", "transaction", "", "W003: DATABASE_URL leads to a PgBouncer in session mode"),
        ("statement", "transaction", "", "E003: DATABASE_URL leads to a PgBouncer in statement"),
        ("transaction", "none", "", "E002: DATABASE_URL leads to a PgBouncer that refuses"),
        ("transaction", "none", IGNORING, "E002: DATABASE_URL leads to a PgBouncer in transaction"),
        ("session", "none", IGNORING, ""),
        ("", "transaction", "", "W003: DATABASE_POOLER is transaction, and DATABASE_URL leads to"),
        ("", "none", "", ""),
    ],
)
def test_the_pool_mode_has_to_match_the_setting(
    told: Told, given: dict[str, Any], direct_url: str, mode: str, pooler: str, more: str, said: str
) -> None:
    with own_pgbouncer(given, mode=mode or "session", more=more) as pgbouncer:
        url = pgbouncer.url if mode else direct_url
        found = "".join(told(DATABASE_URL=url, DATABASE_POOLER=pooler))
    assert found.startswith(said) if said else not found


def test_a_warning_of_limits_that_its_sessions_lack(told: Told, given: dict[str, Any]) -> None:
    """The service cannot set them. It warns of those in the settings."""
    alter = f"ALTER DATABASE {connection.ops.quote_name(given['dbname'])}"
    with connection.cursor() as cursor, own_pgbouncer(given) as pgbouncer:
        # The role or PgBouncer may have the limit as well.
        cursor.execute(f"{alter} SET lock_timeout = '500ms'")
        variables = {"DATABASE_URL": pgbouncer.url, "DATABASE_POOLER": "transaction"}
        try:
            (said,) = told({}, **variables)
            (less,) = told({"DATABASE_STATEMENT_TIMEOUT": 0}, **variables)
        finally:
            cursor.execute(f"{alter} RESET lock_timeout")
    assert said == (
        "W006: The sessions of the PgBouncer have no idle_in_transaction_session_timeout and no "
        "statement_timeout: the service cannot set them there."
    )
    assert less == said.replace(" and no statement_timeout", "")


def test_a_direct_url_has_to_lead_to_the_same_database(
    told: Told, given: dict[str, Any], direct_url: str
) -> None:
    with own_pgbouncer(given) as pgbouncer:
        variables = {"DATABASE_URL": pgbouncer.url, "DATABASE_POOLER": "transaction"}
        assert told(**variables, DATABASE_DIRECT_URL=direct_url) == []
        for direct, said in {
            direct_url.replace(given["dbname"], "postgres"): (
                "E008: DATABASE_DIRECT_URL leads to another database"
            ),
            direct_url.replace(given["dbname"], "no_such_database"): (
                "W005: DATABASE_DIRECT_URL does not answer: .*no_such_database"
            ),
            pgbouncer.url: "W005: DATABASE_DIRECT_URL .*unsupported startup parameter",
        }.items():
            (found,) = told(**variables, DATABASE_DIRECT_URL=direct)
            assert re.match(said, found), found


def test_commands_bypass_it(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"DATABASE_URL": "postgres://a@pooler/x", "DATABASE_POOLER": "transaction"}
    variables |= {"DATABASE_DIRECT_URL": "postgres://a@db/x", "SHORTURL_LOCAL": "on"}
    assert load(**variables)["DATABASES"]["default"]["HOST"] == "pooler"
    monkeypatch.setattr("sys.orig_argv", ["python", "/srv/manage.py", "migrate"])
    direct = load(**variables)["DATABASES"]["default"]
    assert direct["HOST"] == "db"
    assert "statement_timeout" in direct["OPTIONS"]["options"]
    assert not direct["DISABLE_SERVER_SIDE_CURSORS"]
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_DIRECT_URL is not the address"):
        load(**variables | {"DATABASE_DIRECT_URL": "mysql://a@db/x"})


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
