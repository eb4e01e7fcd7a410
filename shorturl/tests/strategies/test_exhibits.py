"""Partial counts: the total of a link has them, and hits in different slots do not wait."""

import pytest
from django.db import connection, transaction

from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import PartialCount, erase
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.resolving import append_only, slotted_counter

pytestmark = pytest.mark.django_db(transaction=True)

TARGET = "https://example.com/"


@pytest.fixture(autouse=True)
def two_links() -> None:
    """The links a and b, each with 5 hits, one in a slot, and two in rows of their own."""
    for key in "ab":
        ShortUrl.objects.create(key=key, target_url=TARGET, hits=5)
        for slot in (0, None, None):
            PartialCount.objects.create(short_url_id=key, slot=slot, hits=1)


def totals() -> dict[str, int]:
    return dict(ShortUrl.objects.annotate(total=TOTAL_HITS).values_list("key", "total"))


def test_the_counts_of_an_erased_link_are_removed() -> None:
    erase(ShortUrl.objects.filter(key="a"))
    assert (totals(), PartialCount.objects.count()) == ({"b": 8}, 3)


def test_a_link_that_is_deleted_or_edited_keeps_its_hits() -> None:
    ShortUrl.objects.filter(key="a").delete()
    for strategy in (append_only, slotted_counter):
        with pytest.raises(ShortUrl.DoesNotExist):
            strategy.resolve("a")
        ShortUrl.objects.filter(key="b").update(target_url=f"{TARGET}new")
        assert strategy.resolve("b").target_url == f"{TARGET}new"
    assert totals() == {"a": 8, "b": 10}


def test_hits_in_different_slots_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = iter([3, 7])
    monkeypatch.setattr(slotted_counter, "randrange", lambda _: next(slots))
    PartialCount.objects.all().delete()
    with transaction.atomic():
        slotted_counter.resolve("a")
        rows = PartialCount.objects.filter(short_url__key="a")
        assert sorted(rows.values_list("slot", "hits")) == [(3, 1)]
        # An edit or another hit would wait for no lock on the link.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()"
                " AND relation = 'shorturl_shorturl'::regclass AND mode <> 'AccessShareLock'"
            )
            assert cursor.fetchone() == (0,)
    slotted_counter.resolve("a")
    assert sorted(rows.values_list("slot", "hits")) == [(3, 1), (7, 1)]
