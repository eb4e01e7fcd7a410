"""The contract of every strategy for resolving; lab/races has the races."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from pginterleave.pytest_plugin import Interleave
from shorturl.exceptions import Contended
from shorturl.models import CLOCK, ShortUrl
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.resolving import (
    compare_and_swap,
    in_memory,
    repeatable_read,
    update_returning,
)
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.tests.callers import TARGET, for_strategies

pytestmark = pytest.mark.django_db(transaction=True)

every_strategy = for_strategies(STRATEGIES["resolving"].values())


@pytest.fixture(autouse=True)
def hot(transactional_db: None) -> ShortUrl:
    return ShortUrl.objects.create(key="hot", target_url=TARGET)


def total(key: str = "hot") -> int:
    in_memory.write()
    links = ShortUrl.objects.filter(key=key).annotate(total_hits=TOTAL_HITS)
    hits: int = links.values_list("total_hits", flat=True).get()
    return hits


@every_strategy
def test_returns_the_short_url_and_counts(strategy: Strategy, hot: ShortUrl) -> None:
    ShortUrl.objects.create(key="cold", target_url=TARGET, hits=5)
    ShortUrl.objects.create(key="viral", target_url=TARGET, hits=2**62)
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("Hot")
    for _ in range(3):
        link = strategy.function("hot")
    assert (link.pk, link.key, link.target_url) == (hot.pk, "hot", TARGET)
    assert link.created_at == ShortUrl.objects.get(key="hot").created_at
    assert (total("hot"), total("cold")) == (3, 5)
    strategy.function("viral")
    assert total("viral") == 2**62 + 1


@every_strategy
@pytest.mark.parametrize(
    "values", [{"deleted_at": CLOCK}, {"expires_at": CLOCK}, {"hits": 5, "max_hits": 5}]
)
def test_a_link_that_is_not_live_counts_no_hit(strategy: Strategy, values: dict[str, Any]) -> None:
    ShortUrl.objects.update(**values)
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("hot")
    assert total() == values.get("hits", 0)
    ShortUrl.objects.update(deleted_at=None, max_hits=6, expires_at=CLOCK + timedelta(hours=1))
    assert strategy.function("hot").target_url == TARGET


@every_strategy
def test_the_callers_transaction_stays_usable(strategy: Strategy) -> None:
    """`repeatable_read` refuses before it sends anything."""
    is_refused = strategy.name == "repeatable_read"
    with transaction.atomic():
        for key in ("hot", "unknown"):
            expected = RuntimeError if is_refused else ShortUrl.DoesNotExist
            with CaptureQueriesContext(connection) as sent:
                if is_refused or key == "unknown":
                    with pytest.raises(expected):
                        strategy.function(key)
                else:
                    strategy.function(key)
            assert bool(sent) is not is_refused
    assert total() == (0 if is_refused else 1)


@pytest.mark.parametrize("module", [compare_and_swap, repeatable_read])
def test_an_optimistic_strategy_gives_up(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 0)
    with pytest.raises(Contended, match="Gave up on 'hot' after 0 attempts"):
        module.resolve("hot")


def test_hits_in_memory_are_written_beside_another_hit(
    interleave: Interleave, hot: ShortUrl
) -> None:
    def write() -> None:
        in_memory.HITS.waiting[hot.pk] += 2
        in_memory.write()

    interleave(write, lambda: update_returning.resolve("hot").key)
