"""What every strategy of an operation does, right or wrong; lab/races has the races."""

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from typing import Any, NoReturn

import pytest
from django.core.exceptions import FieldError
from django.db import (
    DataError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    connection,
    transaction,
)
from django.db.backends.utils import CursorWrapper
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.exceptions import Contended, KeySpaceExhausted, KeyTaken, QuotaExceeded
from shorturl.links import keys
from shorturl.models import CLOCK, QuotaUsage, ShortUrl
from shorturl.strategies.creating import permuted_sequence, timestamp_key
from shorturl.strategies.exhibits.models import SingleCreate
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.resolving import in_memory, update_returning
from shorturl.strategies.table import STRATEGIES, Strategy, Verdict
from shorturl.tests.callers import OTHER, TARGET, create_link, for_strategies, user

CREATING, RESOLVING, SPENDING = (
    STRATEGIES[operation] for operation in ("creating", "resolving", "spending")
)
MAKE_THE_KEY = ("timestamp_key", "permuted_sequence")  # and take none of the candidates
TRY_ONE_KEY = (*MAKE_THE_KEY, "naive", "get_or_create")
NOT_LIVE: tuple[dict[str, Any], ...] = (  # CLOCK is the time of the database
    {"deleted_at": CLOCK},
    {"expires_at": CLOCK},
    {"hits": 5, "max_hits": 5},
)
every_create = for_strategies(CREATING.values())
every_resolve = for_strategies(RESOLVING.values())

pytestmark = pytest.mark.django_db(transaction=True)


def set_next_id(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('shorturl_shorturl_id_seq', %s, false)", [number])


@pytest.fixture
def taken_key(monkeypatch: pytest.MonkeyPatch, strategy: Strategy) -> str:
    """Create a link to OTHER with the key that `strategy` will try first; return the key."""
    monkeypatch.setattr(timestamp_key, "time_ns", lambda: 1_700_000_000_000_000_000)
    set_next_id(1)
    made_keys = {  # of that time in milliseconds, and of that id
        "timestamp_key": f"{1_700_000_000_000:x}",
        "permuted_sequence": permuted_sequence.SHUFFLED.encode([1]),
    }
    key = made_keys.get(strategy.name, "taken")
    create_link(key, id=10**9, target_url=OTHER)  # id 1 is for the next link
    return key


@every_create
@pytest.mark.parametrize("has_values", [False, True])
def test_the_insert_has_all_values(strategy: Strategy, has_values: bool) -> None:
    """The link never exists without its owner."""
    values: dict[str, Any] = {"owner_id": user().pk, "max_hits": 3} if has_values else {}
    with CaptureQueriesContext(connection) as sent:
        link = strategy.function(TARGET, keys=["free"], **values)
    assert not [query for query in sent if "UPDATE" in query["sql"]]
    assert link.key == "free" or strategy.name in MAKE_THE_KEY
    columns = {"key": link.key, "created_at": link.created_at, "target_url": TARGET, **values}
    assert ShortUrl.objects.filter(pk=link.pk, deleted_at=None, **columns).exists()


@every_create
def test_a_misspelt_value_is_an_error(strategy: Strategy) -> None:
    refused = (TypeError, FieldError, ProgrammingError)  # by Python, Django or PostgreSQL
    with pytest.raises(refused, match="titel"):
        strategy.function(TARGET, keys=["free"], titel="a")


@every_create
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_taken_key_keeps_its_target(strategy: Strategy, taken_key: str, is_deleted: bool) -> None:
    if is_deleted:
        ShortUrl.objects.get().delete()
    create = partial(strategy.function, TARGET, keys=[taken_key, "free"])
    if strategy.name in ("naive", "timestamp_key"):
        with pytest.raises(IntegrityError) as raised:
            create()
        assert keys.is_collision(raised.value)
    else:
        link = create()
        is_stolen = strategy.name == "get_or_create"  # which is wrong: it returns another's link
        assert link.target_url == (OTHER if is_stolen else TARGET)
    assert ShortUrl.objects.get(key=taken_key).target_url == OTHER


@for_strategies(strategy for name, strategy in CREATING.items() if name not in TRY_ONE_KEY)
def test_the_error_counts_the_keys_that_were_taken(strategy: Strategy) -> None:
    taken = ["one", "two", "four4"]
    for key in taken:
        create_link(key)
    with pytest.raises(KeySpaceExhausted) as raised:
        strategy.function(TARGET, keys=taken)
    assert str(raised.value) == "Every candidate key was taken; tried 2 of length 3, 1 of length 5."


@every_create
def test_a_violation_of_another_constraint_is_raised_and_not_retried(strategy: Strategy) -> None:
    """The primary key is a unique constraint, too, and its violation is no collision of keys."""
    create_link("bystander", id=10**6)
    set_next_id(10**6)
    with CaptureQueriesContext(connection) as sent, pytest.raises(IntegrityError) as raised:
        strategy.function(TARGET, keys=["one", "two", "three"])
    assert not keys.is_collision(raised.value)
    assert sum("INSERT" in query["sql"] for query in sent) == 1


# A message of Citus: the keys that begin with "away" are on an unavailable node.
NODE_AWAY = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE 'connection to the remote node me@worker-1:5432 failed' USING ERRCODE = '08006';
    END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON shorturl_shorturl
    FOR EACH ROW WHEN (NEW.key LIKE 'away%') EXECUTE FUNCTION refuse()
"""


@pytest.mark.django_db
def test_a_random_key_on_an_unavailable_node_is_drawn_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's transaction stays usable. A custom key is not drawn again."""
    drawn = chain(["away1", "away2", "here"], repeat("away3"))
    monkeypatch.setattr(keys, "draw", lambda length: next(drawn))
    settings.DATABASE_CITUS = True
    with connection.cursor() as cursor:
        cursor.execute(NODE_AWAY)
    assert operations.create(TARGET).key == "here"
    assert ShortUrl.objects.get().target_url == TARGET
    for key in ("away4", None):  # None draws "away3", again and again
        with pytest.raises(OperationalError, match="worker-1"), transaction.atomic():
            operations.create(TARGET, key=key)


@pytest.fixture
def hot(transactional_db: None) -> ShortUrl:
    return create_link("hot")


def total_hits(key: str = "hot") -> int:
    in_memory.write()  # the hits that this strategy has not written yet
    links = ShortUrl.objects.filter(key=key).annotate(total_hits=TOTAL_HITS)
    hits: int = links.values_list("total_hits", flat=True).get()
    return hits


@every_resolve
def test_a_resolve_returns_the_link_and_counts(strategy: Strategy, hot: ShortUrl) -> None:
    create_link("cold", hits=5)
    create_link("viral", hits=2**62)  # more than an integer column holds
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("Hot")  # is another key
    for _ in range(3):
        link = strategy.function("hot")
    assert (link.pk, link.key, link.target_url) == (hot.pk, "hot", TARGET)
    assert link.created_at == ShortUrl.objects.get(key="hot").created_at
    strategy.function("viral")
    assert [total_hits(key) for key in ("hot", "cold", "viral")] == [3, 5, 2**62 + 1]


@every_resolve
@pytest.mark.parametrize("values", NOT_LIVE)
def test_a_link_that_is_not_live_counts_no_hit(strategy: Strategy, values: dict[str, Any]) -> None:
    create_link("hot", **values)
    with pytest.raises(ShortUrl.DoesNotExist):
        strategy.function("hot")
    assert total_hits() == values.get("hits", 0)
    # It was not live because of these values.
    ShortUrl.objects.update(deleted_at=None, max_hits=6, expires_at=CLOCK + timedelta(hours=1))
    assert strategy.function("hot").target_url == TARGET


@for_strategies(strategy for name, strategy in RESOLVING.items() if name != "repeatable_read")
def test_the_transaction_of_the_caller_of_a_resolve_stays_usable(
    strategy: Strategy, hot: ShortUrl
) -> None:
    with transaction.atomic():
        strategy.function("hot")
        with pytest.raises(ShortUrl.DoesNotExist):
            strategy.function("unknown")
    assert total_hits() == 1


def test_repeatable_read_refuses_a_callers_transaction_before_it_sends_anything(
    hot: ShortUrl,
) -> None:
    with transaction.atomic(), CaptureQueriesContext(connection) as sent:
        with pytest.raises(RuntimeError):
            RESOLVING["repeatable_read"].function("hot")
        assert not sent.captured_queries


@pytest.mark.parametrize("name", ["compare_and_swap", "repeatable_read"])
def test_an_optimistic_strategy_gives_up(
    name: str, hot: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"shorturl.strategies.resolving.{name}.ATTEMPTS", 0)
    with pytest.raises(Contended, match="Gave up on 'hot' after 0 attempts"):
        RESOLVING[name].function("hot")


def test_hits_in_memory_are_written_beside_another_hit(
    interleave: Interleave, hot: ShortUrl
) -> None:
    def write_two_hits() -> None:
        in_memory.HITS.waiting[hot.pk] += 2  # as two hits do
        in_memory.write()

    # Each order has to end as if one had run after the other: with three hits.
    interleave(write_two_hits, lambda: update_returning.resolve("hot").key)


@for_strategies(STRATEGIES["reusing"].values())
@pytest.mark.parametrize("values", NOT_LIVE)
def test_a_link_that_is_not_live_is_not_reused(strategy: Strategy, values: dict[str, Any]) -> None:
    owner_id = user().pk

    def reuse(key: str) -> Any:
        create = partial(create_link, key, owner_id=owner_id)
        return strategy.function(TARGET, owner_id=owner_id, create=create)

    link, _ = reuse("a")
    assert reuse("b") == (link, False)  # the link is not new
    ShortUrl.objects.update(**values)
    another, is_new = reuse("c")
    assert is_new
    assert another != link


@for_strategies(STRATEGIES["idempotency"].values())
def test_a_lock_timeout_of_the_work_is_not_a_request_in_progress(
    strategy: Strategy, other_session: CursorWrapper
) -> None:
    """The strategy raises the error of the work, and not InFlight."""

    def work() -> dict[str, int]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '10ms'")
            cursor.execute("SELECT pg_advisory_xact_lock(1)")
        return {"status": 201}

    other_session.execute("SELECT pg_advisory_lock(1)")
    with pytest.raises(OperationalError), transaction.atomic():
        strategy.function(caller="me", key="key", fingerprint="0", work=work)


PERIOD = timedelta(days=10_000)  # one began in 2024, and ends in 2052
BEFORE = datetime(1997, 5, 19, tzinfo=UTC)  # when the period before it began


def spent(spender: str) -> int:
    """Return what is spent in this period; count_then_insert stores a row for each link."""
    current = QuotaUsage.objects.filter(spender=spender, since__gt=BEFORE)
    counted = current.aggregate(sum=Sum("spent"))["sum"] or 0
    return counted + SingleCreate.objects.filter(spender=spender).count()


def fail() -> NoReturn:
    """Fail to create a link; a spend that is refused does not call this."""
    raise KeyTaken("mine")


@for_strategies(SPENDING.values())
@pytest.mark.parametrize("spender", ["one", "other"])
def test_a_spender_spends_up_to_the_limit_of_a_period(strategy: Strategy, spender: str) -> None:
    """A refusal spends nothing."""
    # What `one` has spent in an earlier period counts for neither of the two.
    QuotaUsage.objects.create(spender="one", period=PERIOD, since=BEFORE, spent=3)
    spend = partial(strategy.function, spender, limit=3, period=PERIOD)
    with pytest.raises(QuotaExceeded):
        spend(fail, amount=4)
    assert spend(lambda: "made") == "made"
    with pytest.raises(QuotaExceeded):
        spend(fail, amount=3)
    assert spend(lambda: "two", amount=2) == "two"
    with pytest.raises(QuotaExceeded, match=f"'{spender}' has used up its quota of 3 in"):
        spend(fail)
    assert spent(spender) == 3


@for_strategies(strategy for strategy in SPENDING.values() if strategy.verdict is Verdict.RIGHT)
def test_a_failed_create_gives_its_quota_back_and_the_callers_transaction_stays_usable(
    strategy: Strategy,
) -> None:
    def divide_by_zero() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    spend = partial(strategy.function, "one", limit=1, period=PERIOD)
    with transaction.atomic():
        with pytest.raises(DataError):
            spend(divide_by_zero)
        with pytest.raises(KeyTaken):
            spend(fail)
        assert spent("one") == 0
        spend(lambda: "made")
        assert spent("one") == 1


@pytest.mark.parametrize(
    ("name", "stays_spent"), [("reservation", 0), ("row_lock", 0), ("conditional_update", 1)]
)
def test_a_killed_session_gives_back_what_it_has_reserved(name: str, stays_spent: int) -> None:
    """With conditional_update it stays spent, as its docstring says."""

    def kill_session() -> NoReturn:
        connection.connection.close()
        raise SystemExit

    with pytest.raises(SystemExit):
        SPENDING[name].function("one", kill_session, limit=1, period=PERIOD)
    connection.close()
    assert spent("one") == stays_spent
