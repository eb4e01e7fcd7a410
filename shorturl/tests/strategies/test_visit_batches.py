"""A batch of visits of several kinds is one statement, and its sum is the hits."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from types import ModuleType

import pytest
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models import Sum

from pginterleave import Outcome, explore
from project.database.prepared import PreparedCursor
from shorturl.models import RecentVisits, RecordedVisits, ShortUrl, Visit, VisitCount
from shorturl.strategies.recording_visits import combined, one_transaction
from shorturl.strategies.rolling_up import batches, by_key
from shorturl.tests.callers import only_link, with_cursor
from shorturl.visits import recent

EXHAUSTIVE = pytest.mark.exhaustive
ALL = datetime(9999, 1, 1, tzinfo=UTC)
FIREFOX, CHROME = Visit(browser="Firefox"), Visit(browser="Chrome")


def of_hours(strategy: ModuleType) -> Callable[[], int]:
    return partial(strategy.roll_up, "h", "d", ALL)


def recorded() -> dict[str, int]:
    """Return the number of visits by browser."""
    by_browser = RecordedVisits.objects.values_list("browser").order_by()
    return dict(by_browser.annotate(Sum("hits")))


@pytest.mark.django_db
@pytest.mark.parametrize("way", [combined, one_transaction])
def test_each_kind_of_a_batch_has_its_number(way: ModuleType) -> None:
    link = ShortUrl.objects.create(key="hot", target_url="https://a.example/")
    row = with_cursor(way.count_one, "hot", [FIREFOX, CHROME, FIREFOX])
    assert row[2:] == ("https://a.example/", 3)
    assert way.record("hot", CHROME).hits == 4
    link.refresh_from_db()
    assert (link.hits, recorded()) == (4, {"Firefox": 2, "Chrome": 2})
    ShortUrl.objects.update(max_hits=5)
    assert with_cursor(way.count_one, "hot", [FIREFOX, CHROME]) is None
    assert recorded() == {"Firefox": 2, "Chrome": 2}


@pytest.mark.django_db
def test_each_key_of_a_batch_has_its_own_visits() -> None:
    for key in "ab":
        ShortUrl.objects.create(key=key, target_url=f"https://{key}.example/")
    visits = {"b": [CHROME], "none": [CHROME], "a": [FIREFOX, CHROME, FIREFOX]}
    counted = {key: row[2:] for key, row in with_cursor(combined.count, visits).items()}
    assert counted == {"a": ("https://a.example/", 3), "b": ("https://b.example/", 1)}
    rows = RecentVisits.objects.order_by("short_url")
    found = [(each.short_url.key, [Visit(*kind) for kind in each.kinds]) for each in rows]
    assert found == [("a", [FIREFOX, CHROME, FIREFOX]), ("b", [CHROME])]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cursor_of", [BaseDatabaseWrapper.cursor, PreparedCursor])
def test_any_text_in_a_batch_is_stored_unchanged(
    cursor_of: Callable[[BaseDatabaseWrapper], CursorWrapper],
) -> None:
    """The batch is sent as JSON, also in EXECUTE."""
    ShortUrl.objects.create(key="hot", target_url="https://a.example/")
    odd = Visit("r" * 253, "it's a \\", '{"%s": $1}', "Ü 🐍\n\x01", "%%", is_bot=False)
    for alike in ([odd], [odd, odd._replace(is_bot=True)], [odd, FIREFOX, odd]):
        RecentVisits.objects.all().delete()
        combined.count_one("hot", alike, cursor_of(connections[DEFAULT_DB_ALIAS]))
        stored = RecordedVisits.objects.values_list(*Visit._fields)
        assert Counter(map(Visit._make, stored)) == Counter(alike)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("roll_up", "way"),
    [
        (recent.roll_up, combined),
        pytest.param(of_hours(batches), one_transaction, marks=EXHAUSTIVE),
        pytest.param(of_hours(by_key), one_transaction, marks=EXHAUSTIVE),
    ],
)
def test_batches_and_a_roll_up_meet(roll_up: Callable[[], int], way: ModuleType) -> None:
    """The roll-up takes what the batches insert."""

    def setup() -> None:
        only_link("hot")
        for visit in (FIREFOX, CHROME):
            way.record("hot", visit)

    def exact(outcomes: list[Outcome]) -> None:
        assert [outcome.raised for outcome in outcomes] == [None] * 3
        assert ShortUrl.objects.get().hits == sum(recorded().values()) == 6

    explore(
        [
            lambda: with_cursor(way.count_one, "hot", [FIREFOX, CHROME]),
            lambda: with_cursor(way.count_one, "hot", [CHROME, FIREFOX]),
            roll_up,
        ],
        setup=setup,
        invariant=exact,
    ).assert_safe()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("uses", [4, 3])
def test_batches_of_several_keys_meet_and_pass_no_limit(uses: int) -> None:
    """Two processes count both keys as on a cluster, each in another order."""
    wanted = {"a": [FIREFOX, CHROME], "b": [CHROME]}

    def setup() -> None:
        for model in (VisitCount, RecentVisits):
            model.objects.all().delete()
        only_link("a")
        ShortUrl.objects.update(max_hits=uses)
        ShortUrl.objects.create(key="b", target_url="https://b.example/")

    def count(*keys: str) -> Counter[str]:
        visits = {key: wanted[key] for key in keys}
        counted = with_cursor(one_transaction.count, visits)
        left = {key: of_key for key, of_key in visits.items() if key not in counted}
        for key, of_key in left.items():
            if with_cursor(one_transaction.count_one, key, of_key):
                counted[key] = ()
        return Counter({key: len(wanted[key]) for key in counted})

    def exact(outcomes: list[Outcome]) -> None:
        acknowledged: Counter[str] = sum((one.returned for one in outcomes), Counter())
        assert [outcome.raised for outcome in outcomes] == [None, None]
        assert dict(ShortUrl.objects.values_list("key", "hits")) == dict(acknowledged)
        assert acknowledged == {"a": uses // 2 * 2, "b": 2}
        assert sum(recorded().values()) == acknowledged.total()

    explore(
        [partial(count, "a", "b"), partial(count, "b", "a")],
        setup=setup,
        invariant=exact,
    ).assert_safe()
