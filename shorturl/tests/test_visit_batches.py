"""A batch of visits of several kinds: one statement, whose sum is the hits."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType

import pytest
from django.db import connection
from django.db.models import Sum

from pginterleave import Outcome, explore
from project.prepared import prepared
from shorturl.models import ShortUrl, VisitCount
from shorturl.recording_visits import append_only, combined
from shorturl.rolling_up import batches, by_key
from shorturl.visit_roll_up import ALL
from shorturl.visits import Visit

FIREFOX, CHROME = Visit(browser="Firefox"), Visit(browser="Chrome")


def recorded() -> dict[str, int]:
    return dict(VisitCount.objects.values_list("browser", "hits"))


@pytest.mark.django_db
def test_each_kind_of_a_batch_has_its_number() -> None:
    link = ShortUrl.objects.create(key="hot", target_url="https://a.example/")
    assert combined.count("hot", [FIREFOX, CHROME, FIREFOX]) is not None
    assert combined.count("hot", [CHROME]) is not None
    link.refresh_from_db()
    assert (link.hits, recorded()) == (4, {"Firefox": 2, "Chrome": 2})
    ShortUrl.objects.update(max_hits=5)
    assert combined.count("hot", [FIREFOX, CHROME]) is None
    assert recorded() == {"Firefox": 2, "Chrome": 2}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sent", [nullcontext, partial(connection.execute_wrapper, prepared)])
def test_what_is_sent_of_a_batch_comes_in_as_it_is(
    sent: Callable[[], AbstractContextManager[None]],
) -> None:
    """As JSON, and as JSON in EXECUTE: whatever a list of families may once have in it."""
    ShortUrl.objects.create(key="hot", target_url="https://a.example/")
    odd = Visit("r" * 253, "it's a \\", '{"%s": $1}', "Ü 🐍\n\x01", "%%", is_bot=False)
    for alike in ([odd], [odd, odd._replace(is_bot=True)], [odd, FIREFOX, odd]):
        VisitCount.objects.all().delete()
        with sent():
            combined.count("hot", alike)
        stored = VisitCount.objects.values_list(*Visit._fields, "hits")
        assert {Visit(*kind): hits for *kind, hits in stored} == Counter(alike)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", [batches, pytest.param(by_key, marks=pytest.mark.exhaustive)])
def test_batches_and_a_roll_up_meet_in_the_same_rows(strategy: ModuleType) -> None:
    """In every order of their statements; an exploration does not cut what is within one."""

    def setup() -> None:
        VisitCount.objects.all().delete()
        ShortUrl.objects.all().erase()
        ShortUrl.objects.create(key="hot", target_url="https://a.example/")
        for visit in (FIREFOX, CHROME):
            append_only.record("hot", visit)

    def exact(outcomes: list[Outcome]) -> None:
        assert [outcome.raised for outcome in outcomes] == [None] * 3
        visits = VisitCount.objects.aggregate(visits=Sum("hits"))["visits"]
        assert ShortUrl.objects.get().hits == visits == 6

    result = explore(
        [
            lambda: combined.count("hot", [FIREFOX, CHROME]),
            lambda: combined.count("hot", [CHROME, FIREFOX]),
            lambda: strategy.roll_up(None, "h", ALL),
        ],
        setup=setup,
        invariant=exact,
        split_autocommit=True,
    )
    assert not result.violations, result
    assert result.complete
