"""Creating and resolving as the service calls them, and the constraints of the table."""

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from shorturl import following, operations
from shorturl.exceptions import KeyTaken
from shorturl.models import ShortUrl, Visit

TARGET = "https://example.com/"


@pytest.mark.django_db
def test_create_and_resolve_are_one_statement_each_after_a_check(settings: Settings) -> None:
    settings.SHORTURL_KEY_LENGTH = 9
    with CaptureQueriesContext(connection) as sent:
        short_url = operations.create(TARGET)
        assert following.follow(short_url.key, Visit(is_bot=False)).hits == 1
    assert [query["sql"].split()[0] for query in sent] == ["SELECT", "INSERT", "WITH"]
    assert (len(short_url.key), short_url.target_url, short_url.hits) == (9, TARGET, 0)
    with pytest.raises(ValidationError, match="start it with http"):
        operations.create("javascript:alert(1)")
    with pytest.raises(ValidationError, match="is reserved"):
        operations.create(TARGET, key="admin")
    assert ShortUrl.objects.get() == short_url


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["hits = -1", "key = 'twin'", "target_url = NULL"])
def test_constraints_of_the_table(change: str) -> None:
    ShortUrl.objects.create(key="twin", target_url=TARGET)
    ShortUrl.objects.create(key="other", target_url=TARGET)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE shorturl_shorturl SET {change} WHERE key = 'other'")


@pytest.mark.django_db
def test_deleting_many_keeps_their_keys_too() -> None:
    operations.create(TARGET, key="one")
    ShortUrl.objects.create(key="two", target_url=TARGET).delete()
    assert ShortUrl.objects.all().delete() == (1, {"shorturl.ShortUrl": 1})
    with pytest.raises(KeyTaken, match="The key 'one' is taken: it was deleted"):
        operations.create(TARGET, key="one")
    assert ShortUrl.objects.all().erase() == 2
    assert operations.create(TARGET, key="one").key == "one"


@pytest.mark.django_db(transaction=True)
def test_hits_are_counted_in_place() -> None:
    """The fill factor leaves room for HOT updates of `hits`, which touch no index.

    The pages are new and each row is updated once, so that no other snapshot keeps old versions.
    """
    table = ShortUrl._meta.db_table

    def updates() -> tuple[int, int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s",
                [table],
            )
            row: tuple[int, int] = cursor.fetchone()
            return row

    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {table} CASCADE")
    ShortUrl.objects.bulk_create(
        ShortUrl(key=f"k{number}", target_url=TARGET + "x" * 1_900, title="A", tags=["b"])
        for number in range(50)
    )
    all_before, in_place_before = updates()
    for number in range(50):
        following.follow(f"k{number}", Visit(is_bot=False))
    all_after, in_place_after = updates()
    assert (all_after - all_before, in_place_after - in_place_before) == (50, 50)
