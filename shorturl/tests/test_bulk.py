"""Creating many short URLs: the result of each entry, and two requests for the same keys."""

from collections.abc import Callable, Iterator

import pytest
from django.db import transaction

from shorturl import operations
from shorturl.bulk import Wanted, create_many
from shorturl.exceptions import KeySpaceExhausted, KeyTaken, LeftOut, ShortUrlError
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db(transaction=True)

MINE, YOURS = "https://mine.example/", "https://yours.example/"
Created = list[ShortUrl | ShortUrlError]


def drawing(*keys: str) -> Callable[[], Iterator[str]]:
    return lambda: iter(keys)


def seen(created: Created) -> list[str]:
    """Return the key or the error of each entry, and check that the stored links are the same."""
    links = [each for each in created if isinstance(each, ShortUrl)]
    stored = ShortUrl.objects.in_bulk([link.pk for link in links])
    for link in links:
        assert (link.key, link.target_url) == (stored[link.pk].key, stored[link.pk].target_url)
    return [each.key if isinstance(each, ShortUrl) else type(each).__name__ for each in created]


def test_each_entry_gets_a_new_link_or_an_error() -> None:
    """It never gets an existing link, live or deleted, nor the link of another entry."""
    ShortUrl.objects.create(key="theirs", target_url=YOURS)
    ShortUrl.objects.create(key="gone", target_url=YOURS).delete()
    before = list(ShortUrl.objects.order_by("pk").values())
    wanted = [
        Wanted(MINE),  # draws keys that other entries have chosen or draw
        Wanted(MINE),
        *(Wanted(MINE, key) for key in ("theirs", "twice", "gone", "twice", "b")),
    ]
    draw = drawing("theirs", "b", "twice", "c", "d")
    created = create_many(wanted, all_or_nothing=False, draw=draw)
    refused = ["KeyTaken", "twice", "KeyTaken", "KeyTaken", "b"]
    assert seen(created) == ["c", "d", *refused]
    assert str(created[5]) == "The key 'twice' is taken."
    assert list(ShortUrl.objects.filter(target_url=YOURS).order_by("pk").values()) == before

    ShortUrl.objects.filter(target_url=MINE).erase()
    created = create_many(wanted, all_or_nothing=True, draw=draw)
    assert [type(each) for each in created] == [
        *(LeftOut, LeftOut, KeyTaken, LeftOut, KeyTaken, KeyTaken, LeftOut)
    ]
    assert not ShortUrl.objects.filter(target_url=MINE).exists()


@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_a_key_space_that_is_used_up(all_or_nothing: bool) -> None:
    assert create_many([], all_or_nothing=all_or_nothing) == []
    wanted = [Wanted(MINE) for _ in "abc"]
    created = create_many(wanted, all_or_nothing=all_or_nothing, draw=drawing("a", "b"))
    assert ShortUrl.objects.count() == (0 if all_or_nothing else 2)
    assert sum(isinstance(each, KeySpaceExhausted) for each in created) == 1


@pytest.mark.parametrize("all_or_nothing", [False, True])
def test_the_callers_transaction_stays_usable(all_or_nothing: bool) -> None:
    ShortUrl.objects.create(key="theirs", target_url=YOURS)
    wanted = [Wanted(MINE, "a"), Wanted(MINE, "theirs"), Wanted(MINE)]
    with transaction.atomic():
        operations.create(MINE, key="before")
        create_many(wanted, all_or_nothing=all_or_nothing, draw=drawing("theirs", "b"))
        operations.create(MINE, key="after")
    made = {"theirs", "before", "after"} | (set() if all_or_nothing else {"a", "b"})
    assert set(ShortUrl.objects.values_list("key", flat=True)) == made


def test_keys_are_inserted_in_one_order() -> None:
    """The ids show the order. In one order, two requests for the same keys do not deadlock."""
    asked = ["b", "_", "a", "B", "-", "1", "A"]
    create_many([Wanted(MINE, key) for key in asked], all_or_nothing=True)
    assert list(ShortUrl.objects.order_by("id").values_list("key", flat=True)) == sorted(asked)
