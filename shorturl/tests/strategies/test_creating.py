"""The contract of every strategy for creating; lab/races has the races."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from shorturl import operations
from shorturl.exceptions import KeySpaceExhausted
from shorturl.links import keys
from shorturl.models import ShortUrl
from shorturl.strategies.creating import permuted_sequence, timestamp_key
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.tests.callers import for_strategies

pytestmark = pytest.mark.django_db(transaction=True)

CREATING = STRATEGIES["creating"]
USE_NO_CANDIDATES = ("timestamp_key", "permuted_sequence")
TRY_ONE_KEY = ("timestamp_key", "permuted_sequence", "naive", "get_or_create")
MINE, YOURS = "https://mine.example/", "https://yours.example/"


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamp_key, "time_ns", lambda: 1_700_000_000_000_000_000)


def set_next_id(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('shorturl_shorturl_id_seq', %s, false)", [number])


def take_first_key(strategy: Strategy) -> str:
    """Create a link to YOURS with the key that `strategy` will try first; return the key."""
    set_next_id(1)
    keys_of_others = {
        "timestamp_key": f"{1_700_000_000_000:x}",
        "permuted_sequence": permuted_sequence.SHUFFLED.encode([1]),
    }
    key = keys_of_others.get(strategy.name, "taken")
    ShortUrl.objects.create(id=10**9, key=key, target_url=YOURS)
    return key


@for_strategies(CREATING.values())
@pytest.mark.parametrize("is_limited", [False, True])
def test_the_insert_has_all_values(strategy: Strategy, is_limited: bool) -> None:
    """So the link never exists without its owner."""
    owner = User.objects.create(username="owner")
    values: dict[str, Any] = {"owner_id": owner.pk, "max_hits": 3} if is_limited else {}
    with CaptureQueriesContext(connection) as sent:
        link = strategy.function(MINE, keys=["free"], **values)
    assert not [query for query in sent if "UPDATE" in query["sql"]]
    assert (link.key == "free") is (strategy.name not in USE_NO_CANDIDATES)
    columns = {"key": link.key, "created_at": link.created_at, "target_url": MINE, **values}
    assert ShortUrl.objects.filter(pk=link.pk, deleted_at=None, **columns).exists()


@for_strategies(CREATING.values())
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_taken_key(strategy: Strategy, is_deleted: bool) -> None:
    taken = take_first_key(strategy)
    if is_deleted:
        ShortUrl.objects.get().delete()
    if strategy.name in ("naive", "timestamp_key"):
        with pytest.raises(IntegrityError) as raised:
            strategy.function(MINE, keys=[taken, "free"])
        assert keys.is_collision(raised.value)
    else:
        link = strategy.function(MINE, keys=[taken, "free"])
        is_stolen = strategy.name == "get_or_create"
        assert (link.key == taken, link.target_url == YOURS) == (is_stolen, is_stolen)
    assert ShortUrl.objects.get(key=taken).target_url == YOURS


@for_strategies(strategy for name, strategy in CREATING.items() if name not in TRY_ONE_KEY)
def test_all_keys_are_taken(strategy: Strategy) -> None:
    for key in ("one", "two", "four4"):
        ShortUrl.objects.create(key=key, target_url=YOURS)
    with pytest.raises(KeySpaceExhausted) as raised:
        strategy.function(MINE, keys=["one", "two", "four4"])
    assert str(raised.value) == "Every candidate key was taken; tried 2 of length 3, 1 of length 5."


@for_strategies(CREATING.values())
def test_another_violation_is_raised_and_not_retried(strategy: Strategy) -> None:
    """The primary key is a unique constraint, too, and its violation is no collision of keys."""
    ShortUrl.objects.create(id=10**6, key="bystander", target_url=YOURS)
    set_next_id(10**6)
    with CaptureQueriesContext(connection) as sent, pytest.raises(IntegrityError) as raised:
        strategy.function(MINE, keys=["one", "two", "three"])
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
    drawn = iter(["away1", "away2", "here"])
    monkeypatch.setattr(keys, "draw", lambda length: next(drawn))
    settings.DATABASE_CITUS = True
    with connection.cursor() as cursor:
        cursor.execute(NODE_AWAY)
    assert operations.create(MINE).key == "here"
    assert ShortUrl.objects.get().target_url == MINE
    monkeypatch.setattr(keys, "draw", lambda length: "away4")
    for key in ("away3", None):
        with pytest.raises(OperationalError, match="worker-1"), transaction.atomic():
            operations.create(MINE, key=key)
