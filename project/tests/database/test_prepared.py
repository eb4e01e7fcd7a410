"""Prepared statements: prepared once in a session, and without a change of any result."""

from typing import Any

import pytest
from django.db import DEFAULT_DB_ALIAS, IntegrityError, connection, connections, transaction
from pytest_django import Settings

from project.database.prepared import PreparedCursor
from shorturl.models import RecordedVisits, ShortUrl, Visit
from shorturl.strategies.recording_visits import combined

pytestmark = pytest.mark.django_db(transaction=True)
# The number of executions with the generic plan, and with custom plans.
SENT = "SELECT generic_plans, custom_plans FROM pg_prepared_statements"


@pytest.fixture(autouse=True)
def link() -> ShortUrl:
    connection.close()  # with the statements that other tests have prepared
    return ShortUrl.objects.create(key="a", target_url="https://a.example/")


def prepared() -> PreparedCursor:
    return PreparedCursor(connections[DEFAULT_DB_ALIAS])


def follow(cursor: PreparedCursor, times: int = 1) -> None:
    for _ in range(times):
        assert combined.count_one("a", [Visit("news.example", is_bot=False)], cursor)


def statements() -> list[tuple[int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(SENT)
        return list(cursor.fetchall())


def counted() -> tuple[int, int]:
    visits = RecordedVisits.objects.filter(referrer="news.example")
    return ShortUrl.objects.get(key="a").hits, visits.count()


def test_a_statement_is_planned_once_in_a_session() -> None:
    follow(prepared(), times=3)
    assert statements() == [(3, 0)]
    connection.close()
    follow(prepared())
    assert statements() == [(1, 0)]
    assert counted() == (4, 4)


def test_a_discarded_or_invalid_statement_is_prepared_again() -> None:
    follow(redirects := prepared())
    with connection.cursor() as cursor:
        cursor.execute("DISCARD ALL")
    follow(redirects, times=2)
    assert statements() == [(1, 0)]
    table = ShortUrl._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ALTER target_url TYPE text")
    try:
        follow(redirects, times=2)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} ALTER target_url TYPE varchar(2000)")
    assert counted() == (5, 5)


def test_a_statement_that_exists_already_is_used() -> None:
    """After an interrupt behind PREPARE, or with a pooler that the settings do not name."""
    follow(prepared())
    follow(prepared(), times=2)
    assert statements() == [(3, 0)]
    assert counted() == (3, 3)


# It fails in a prepared statement, as a WITH that changes rows does on Citus.
ONLY_UNPREPARED = """
    CREATE OR REPLACE FUNCTION pg_temp.unprepared(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM pg_prepared_statements) THEN
            RAISE 'not with a plan' USING ERRCODE = '0A000';
        END IF;
        RETURN $1;
    END $$
"""


def test_a_statement_that_cannot_be_prepared_is_tried_once_in_a_session() -> None:
    sent: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        sent.append(sql.split()[0])
        return execute(sql, *rest)

    with prepared() as cursor:
        cursor.execute(ONLY_UNPREPARED)
        with connection.execute_wrapper(note):
            for _ in range(2):
                cursor.execute("SELECT pg_temp.unprepared(%s)", ["a"])
                assert cursor.fetchone() == ("a",)
    assert sent == ["SET", "EXECUTE", "DEALLOCATE", "SELECT", "SELECT"]
    follow(prepared(), times=2)
    assert statements() == [(2, 0)]


def test_an_error_of_the_statement_is_raised() -> None:
    follow(cursor := prepared())
    insert = "INSERT INTO shorturl_shorturl (key, target_url) VALUES (%s, '')"
    with pytest.raises(IntegrityError):
        cursor.execute(insert, ["a"])
    cursor.execute(insert, ["b"])
    assert counted() == (1, 1)


def test_in_a_transaction_and_behind_a_pooler_nothing_is_prepared(
    settings: Settings,
) -> None:
    with transaction.atomic():
        follow(cursor := prepared())
    settings.DATABASE_POOLER = "transaction"
    follow(cursor)
    assert statements() == []
    assert counted() == (2, 2)
