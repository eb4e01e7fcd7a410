"""An error of the database is an outage, or somebody's mistake."""

import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.db.backends.postgresql.base import DatabaseWrapper

from shorturl.models import ShortUrl
from shorturl.outages import driver_error, is_outage

driver = DatabaseWrapper.Database


def raised(error: type[Exception], cause: Exception | None) -> Exception:
    with pytest.raises(error) as info:
        raise error("no reason") from cause
    return info.value


def test_a_connection_that_broke_is_an_outage() -> None:
    """What psycopg2 raises when PostgreSQL goes away: either of these, as it comes."""
    message = "server closed the connection unexpectedly"
    assert is_outage(raised(OperationalError, driver.OperationalError(message)))
    assert is_outage(raised(InterfaceError, driver.InterfaceError("connection already closed")))
    assert is_outage(raised(DatabaseError, driver.DatabaseError(message)))


@pytest.mark.django_db
def test_what_is_no_outage() -> None:
    with pytest.raises(DatabaseError) as info:
        ShortUrl(pk=1).save(update_fields=["hits"])
    assert not is_outage(info.value)  # Django itself finds this wrong
    assert not is_outage(raised(IntegrityError, driver.IntegrityError("taken")))
    assert not is_outage(ValueError("a mistake"))
    assert not is_outage(None)


@pytest.mark.parametrize("name", ["pgcode", "sqlstate"])  # psycopg2's, and psycopg 3's
def test_the_code_of_an_error_is_found_under_the_name_of_either_driver(name: str) -> None:
    cause = type("LockNotAvailable", (Exception,), {name: "55P03"})()
    error = raised(OperationalError, cause)
    assert driver_error(error, "55P03") is cause
    assert driver_error(error, "42501") is None
