"""A batch of visits of several kinds: one statement, whose sum is the hits."""

import pytest
from django.db.models import Sum

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl, VisitCount
from shorturl.recording_visits import append_only, combined
from shorturl.rolling_up import batches
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
def test_batches_and_a_roll_up_meet_in_the_same_rows() -> None:
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
            lambda: batches.roll_up(None, "h", ALL),
        ],
        setup=setup,
        invariant=exact,
        split_autocommit=True,
    )
    assert not result.violations, result
    assert result.complete
