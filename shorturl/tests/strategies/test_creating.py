"""The contract of every strategy for creating; lab/races has the races."""

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
from shorturl.tests.callers import each

pytestmark = pytest.mark.django_db(transaction=True)

DRAW_NO_KEYS = ("timestamp_key", "permuted_sequence")
PERSISTENT = [
    one
    for one in STRATEGIES["creating"].values()
    if one.name not in (*DRAW_NO_KEYS, "naive", "get_or_create")
]
MINE, YOURS = "https://mine.example/", "https://yours.example/"


every_strategy = each(STRATEGIES["creating"].values())


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timestamp_key, "time_ns", lambda: 1_700_000_000_000_000_000)


def take(strategy: Strategy) -> str:
    """Create a link to YOURS with the key that `strategy` will try first; return the key."""
    if strategy.name == "timestamp_key":
        return str(strategy.function(YOURS, keys=[]))
    key = "taken"
    if strategy.name == "permuted_sequence":
        with connection.cursor() as cursor:
            cursor.execute("SELECT nextval('shorturl_shorturl_id_seq')")
            key = permuted_sequence.SHUFFLED.encode([cursor.fetchone()[0] + 1])
    # The id is far from the sequence, whose next value permuted_sequence will draw.
    ShortUrl.objects.create(id=10**9, key=key, target_url=YOURS)
    return key


@every_strategy
def test_returns_the_new_short_url_with_all_values_of_the_insert(
    strategy: Strategy,
) -> None:
    """The INSERT sets the owner, so the link never exists without it."""
    owner = User.objects.create(username="owner")
    for values in ({}, {"owner_id": owner.pk, "max_hits": 3}):
        ShortUrl.objects.all().erase()
        with CaptureQueriesContext(connection) as sent:
            short_url = strategy.function(MINE, keys=["free"], **values)
        stored = ShortUrl.objects.get()
        for this in (short_url, stored):
            assert (this.pk, this.created_at) == (stored.pk, stored.created_at)
            assert (this.target_url, this.deleted_at) == (MINE, None)
            assert (this.owner_id, this.max_hits) == (
                values.get("owner_id"),
                values.get("max_hits"),
            )
            assert (this.key == "free") is (strategy.name not in DRAW_NO_KEYS)
        assert not [query for query in sent if "UPDATE" in query["sql"]]


@every_strategy
@pytest.mark.parametrize("deleted", [False, True])
def test_a_taken_key(strategy: Strategy, deleted: bool) -> None:
    taken = take(strategy)
    if deleted:
        ShortUrl.objects.get().delete()
    gets_stolen = strategy.name == "get_or_create"
    if strategy.name in ("naive", "timestamp_key"):
        with pytest.raises(IntegrityError) as raised:
            strategy.function(MINE, keys=[taken, "free"])
        assert keys.is_collision(raised.value)
    else:
        short_url = strategy.function(MINE, keys=[taken, "free"])
        assert (short_url.key == taken) is gets_stolen
        assert (short_url.target_url == YOURS) is gets_stolen
    assert ShortUrl.objects.get(key=taken).target_url == YOURS


@each(PERSISTENT)
def test_all_keys_taken(strategy: Strategy) -> None:
    for key in ("one", "two", "four4"):
        ShortUrl.objects.create(key=key, target_url=YOURS)
    with pytest.raises(KeySpaceExhausted) as raised:
        strategy.function(MINE, keys=["one", "two", "four4"])
    assert raised.value.attempts == {3: 2, 5: 1}
    assert str(raised.value) == "Every candidate key was taken; tried 2 of length 3, 1 of length 5."


@every_strategy
def test_another_violation_is_raised_and_not_retried(strategy: Strategy) -> None:
    """The primary key is a unique constraint, too, and its violation is no collision of keys."""
    ShortUrl.objects.create(id=10**6, key="bystander", target_url=YOURS)
    with connection.cursor() as cursor:
        table = ShortUrl._meta.db_table
        cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), 999999)", [table])
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
    with pytest.raises(OperationalError, match="worker-1"), transaction.atomic():
        operations.create(MINE, key="away3")
    monkeypatch.setattr(keys, "draw", lambda length: "away4")
    with pytest.raises(OperationalError, match="worker-1"), transaction.atomic():
        operations.create(MINE)
