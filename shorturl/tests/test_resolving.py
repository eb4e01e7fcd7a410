"""What every way to resolve promises, and what two of them at once do to each other."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from shorturl.models import ShortUrl
from shorturl.resolving import STRATEGIES, Resolve, compare_and_swap, repeatable_read
from shorturl.strategies import Strategy, Verdict
from shorturl.tests.competitor import Competitor, Outcome, after_statement, break_at

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "https://old.example/", "https://new.example/"


def each(*strategies: Strategy[Resolve]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("strategy", strategies, ids=lambda strategy: strategy.name)


every_strategy = each(*STRATEGIES.values())
every_nesting_strategy = each(*(s for s in STRATEGIES.values() if s.nests))


def hot() -> ShortUrl:
    return ShortUrl.objects.get(key="hot")


def setup() -> None:
    ShortUrl.objects.all().erase()
    ShortUrl.objects.create(key="hot", target_url=OLD)


@every_strategy
def test_returns_the_short_url_and_counts(strategy: Strategy[Resolve]) -> None:
    setup()
    ShortUrl.objects.create(key="cold", target_url=NEW, hits=5)
    for _ in range(3):
        short_url = strategy.function("hot")
    assert (short_url.pk, short_url.key, short_url.target_url) == (hot().pk, "hot", OLD)
    assert short_url.created_at == hot().created_at
    assert hot().hits == 3
    assert ShortUrl.objects.get(key="cold").hits == 5


@every_strategy
def test_an_unknown_key(strategy: Strategy[Resolve]) -> None:
    setup()
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("Hot")
    assert hot().hits == 0


@every_nesting_strategy
def test_the_callers_transaction_stays_usable(strategy: Strategy[Resolve]) -> None:
    setup()
    assert strategy.keeps_transaction
    with transaction.atomic():
        strategy.function("hot")
        with pytest.raises(ShortUrl.DoesNotExist):
            strategy.function("unknown")
        assert ShortUrl.objects.count() == 1
    assert hot().hits == 1


def test_repeatable_read_refuses_the_callers_transaction_before_it_sends_anything() -> None:
    setup()
    with transaction.atomic():
        with CaptureQueriesContext(connection) as sent, pytest.raises(RuntimeError):
            STRATEGIES["repeatable_read"].function("hot")
        assert len(sent) == 0
        assert ShortUrl.objects.count() == 1


def lost_hit(one: Outcome, two: Outcome) -> str | None:
    """Return what is wrong after two resolves at once, or None."""
    if one.raised or two.raised:
        return f"raised {one.raised or two.raised!r}"
    return None if hot().hits == 2 else f"hits = {hot().hits}"


def undone_edit(one: Outcome, two: Outcome) -> str | None:
    """Return what is wrong after a resolve while the target was edited, or None."""
    if one.raised or two.raised:
        return f"raised {one.raised or two.raised!r}"
    if hot().target_url != NEW:
        return "the edit is undone"
    return None if hot().hits == 1 else f"hits = {hot().hits}"


def edit() -> None:
    ShortUrl.objects.filter(key="hot").update(target_url=NEW)


@every_strategy
def test_two_at_once(strategy: Strategy[Resolve]) -> None:
    """Process 1 has sent one, two, … statements when process 2 follows the same link."""

    def resolve() -> ShortUrl:
        return strategy.function("hot")

    wounds = break_at(resolve, resolve, setup=setup, broken=lost_hit)
    assert bool(wounds) is (strategy.name in ("naive", "atomic_only"))


@every_strategy
def test_an_edit_meanwhile(strategy: Strategy[Resolve]) -> None:
    """Process 1 has sent one, two, … statements when process 2 edits the target."""
    wounds = break_at(lambda: strategy.function("hot"), edit, setup=setup, broken=undone_edit)
    assert bool(wounds) is (strategy.verdict is Verdict.WRONG)


@every_nesting_strategy
def test_two_at_once_inside_the_callers_transaction(strategy: Strategy[Resolve]) -> None:
    """Process 1 counts inside atomic(), and the second comes before that is committed."""

    def resolve_in_a_transaction() -> ShortUrl:
        with transaction.atomic():
            short_url = strategy.function("hot")
            assert ShortUrl.objects.exists(), "the caller's transaction goes on"
            return short_url

    wounds = break_at(
        resolve_in_a_transaction,
        lambda: strategy.function("hot"),
        setup=setup,
        broken=lost_hit,
    )
    assert bool(wounds) is (strategy.name in ("naive", "atomic_only"))


@pytest.mark.parametrize("module", [compare_and_swap, repeatable_read])
def test_an_optimist_gives_up_in_the_end(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one attempt only, a competitor between the look and the write is the end of it."""
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    setup()
    look = 1 if module is compare_and_swap else 2  # statements up to and with the SELECT
    competitor = Competitor(lambda: STRATEGIES["update_returning"].function("hot"))
    with after_statement(look, competitor), pytest.raises(ShortUrl.Contended) as raised:
        module.resolve("hot")  # type: ignore[attr-defined]
    competitor.join()
    assert (raised.value.key, raised.value.attempts) == ("hot", 1)
    assert hot().hits == 1


@every_strategy
def test_columns_are_known_by_name(strategy: Strategy[Resolve]) -> None:
    """A table's columns can have another order than the model, and others may have been added."""
    setup()
    table = ShortUrl._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN note text NOT NULL DEFAULT 'new'")
        cursor.execute(f"ALTER TABLE {table} RENAME COLUMN deleted_at TO old")
        cursor.execute(f"ALTER TABLE {table} ADD COLUMN deleted_at timestamptz")
    try:
        short_url = strategy.function("hot")
        assert (short_url.key, short_url.target_url, short_url.deleted_at) == ("hot", OLD, None)
        assert short_url.created_at == hot().created_at
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} DROP COLUMN deleted_at, DROP COLUMN note")
            cursor.execute(f"ALTER TABLE {table} RENAME COLUMN old TO deleted_at")
