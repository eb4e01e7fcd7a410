"""Which errors of the database are outages."""

from unittest.mock import Mock

import pytest
from django.core.management import CommandError
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection
from django.db.backends.postgresql.base import DatabaseWrapper

from shorturl.management.database_command import database_error
from shorturl.models import ShortUrl
from shorturl.outages import database_address, driver_error, is_busy, is_outage
from shorturl.tests.callers import run

driver = DatabaseWrapper.Database  # psycopg2 or psycopg 3


def django_error(error: type[Exception], cause: Exception) -> Exception:
    """Return an error as Django raises it: caused by an error of the driver."""
    with pytest.raises(error) as raised:
        raise error("no reason") from cause
    return raised.value


def test_a_connection_that_broke_is_an_outage() -> None:
    """psycopg2 raises any of these when PostgreSQL goes away."""
    message = "server closed the connection unexpectedly"
    assert is_outage(django_error(OperationalError, driver.OperationalError(message)))
    assert is_outage(django_error(InterfaceError, driver.InterfaceError("already closed")))
    assert is_outage(django_error(DatabaseError, driver.DatabaseError(message)))


# Messages of Citus: remote_commands.c, connection_management.c, remote_transaction.c.
NODE_ERRORS = [
    (
        "08006",
        "connection to the remote node shorturl@a:5432 failed with the following error",
        True,
    ),
    ("08006", "could not establish any connections to the node a:5432 after 30000 ms", True),
    ("XX000", "failure on connection marked as essential: a:5432", True),
    ("XX000", "postmaster was shut down, exiting", True),
    ("XX000", "could not commit transaction for shard 7 on at least one active node", True),
    ("XX000", "a bug in the node a:5432", False),
    ("25006", "cannot execute INSERT in a read-only transaction", True),  # on a stand-by
]


@pytest.mark.django_db
@pytest.mark.parametrize(("code", "message", "expected"), NODE_ERRORS)
def test_an_unavailable_node_is_an_outage_and_its_bug_is_not(
    code: str, message: str, expected: bool
) -> None:
    with connection.cursor() as cursor, pytest.raises(DatabaseError) as info:
        cursor.execute(f"DO $$ BEGIN RAISE '{message}' USING ERRCODE = '{code}'; END $$")
    assert is_outage(info.value) is expected


@pytest.mark.django_db
def test_other_errors_are_no_outage() -> None:
    with pytest.raises(DatabaseError) as info:
        ShortUrl(pk=1).save(update_fields=["hits"])
    assert not is_outage(info.value)  # Django raises this one itself
    assert not is_outage(django_error(IntegrityError, driver.IntegrityError("taken")))
    assert not is_outage(ValueError("a mistake"))
    assert not is_outage(None)


@pytest.mark.parametrize("name", ["pgcode", "sqlstate"])  # of psycopg2 and psycopg 3
def test_the_error_code_is_read_from_both_drivers(name: str) -> None:
    cause = type("LockNotAvailable", (Exception,), {name: "55P03"})()
    error = django_error(OperationalError, cause)
    assert driver_error(error, "55P03") is cause
    assert driver_error(error, "42501") is None
    error.__cause__, error.__context__ = None, cause  # raised while the driver's was handled
    assert driver_error(error, "55P03") is cause


# lock_timeout, statement_timeout, deadlock, serialization failure, connection limit.
@pytest.mark.django_db
@pytest.mark.parametrize("code", ["55P03", "57014", "40P01", "40001", "53300"])
def test_an_overload_is_busy(code: str) -> None:
    with connection.cursor() as cursor, pytest.raises(DatabaseError) as info:
        cursor.execute(f"DO $$ BEGIN RAISE 'full' USING ERRCODE = '{code}'; END $$")
    assert is_busy(info.value)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("sorry, too many clients already", True),  # PostgreSQL
        ('too many connections for role "a"', True),
        ("remaining connection slots are reserved for roles with SUPERUSER", True),
        ("no more connections allowed (max_client_conn)", True),  # PgBouncer
        ("Connection refused", False),
    ],
)
def test_a_refused_connection_is_busy_if_there_are_too_many(message: str, expected: bool) -> None:
    assert is_busy(OperationalError(message)) is expected


def test_the_log_and_the_commands_name_a_local_socket_and_an_error_without_a_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOST", "PORT"):
        monkeypatch.setitem(connection.settings_dict, name, "")
    assert database_address() == "a local socket:5432"
    error = database_error(OperationalError(), "Try again.")
    assert str(error) == "The database: OperationalError. Try again."


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("ban a.example", "Try again."),
        ("remove_account ann", "Try again: it continues."),
        ("roll_up", "Nothing is lost: try again."),
        ("webhook list", "Nothing was changed: try again."),
    ],
)
def test_a_command_says_what_to_do_after_an_error_of_the_database(
    command: str, advice: str
) -> None:
    refuse = Mock(side_effect=OperationalError("refused\nDETAIL"))
    with connection.execute_wrapper(refuse), pytest.raises(CommandError) as raised:
        run(*command.split())
    assert str(raised.value) == f"The database: refused. {advice}"
