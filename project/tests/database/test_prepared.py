"""Prepared statements: prepared once in a session, and without a change of any result."""

import pytest
from django.db import DEFAULT_DB_ALIAS, IntegrityError, connection, connections, transaction
from pytest_django import Settings

from project.database.prepared import PreparedCursor
from shorturl.models import RecentVisits, ShortUrl, Visit
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
    rows = RecentVisits.objects.values_list("kinds", flat=True)
    return ShortUrl.objects.get(key="a").hits, sum(map(len, rows))


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
