"""Keys of links: those that are drawn, custom ones, and what the database does with them."""

import re

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from shorturl import following, operations
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.exceptions import KeySpaceExhausted, KeyTaken
from shorturl.links import keys
from shorturl.links.validators import shortened
from shorturl.models import DailyVisits, LinkEvent, ShortUrl, Visit
from shorturl.strategies.exhibits.models import erase
from shorturl.tests.callers import TARGET, create_link

RECEIVER = "https://receiver.example/"
PERSON = Visit(is_bot=False)
UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s"


def first_segments(patterns: list[URLPattern | URLResolver], prefix: str = "") -> set[str]:
    """Return the first segments of the paths below `prefix`, such as `api` of `^api/docs$`."""
    segments = set()
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver) and "/" not in route:
            segments |= first_segments(pattern.url_patterns, route)
        else:
            segments.add(re.split(r"[/$]", route.removeprefix("^"))[0])
    return segments


def test_no_path_of_the_service_can_be_a_key() -> None:
    segments = first_segments(get_resolver().url_patterns)
    assert {"admin", "api", "lab", "login", "links"} <= segments
    assert [segment for segment in segments if keys.key_of(f"/{segment}")] == []


def test_candidates_are_a_bounded_number_at_each_length_and_then_longer(settings: Settings) -> None:
    settings.SHORTURL_KEY_LENGTH = 5
    lengths = [len(key) for key in keys.candidates()]
    assert lengths == [5] * 10 + [6] * 10 + [7] * 10 + [8] * 10
    assert {len(key) for key in keys.candidates(63)} == {63, 64}  # no key can be longer
    # The exception counts them without drawing them again.
    assert KeySpaceExhausted(keys.candidates(5)).attempts == {5: 10, 6: 10, 7: 10, 8: 10}
    assert str(KeySpaceExhausted(iter(()))) == "Every candidate key was taken."


def test_candidates_are_random_letters_and_digits_and_never_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [keys.draw(7) for _ in range(1_000)]
    assert set("".join(drawn)) == set(keys.ALPHABET)
    assert len(set(drawn)) == len(drawn)
    letters = iter("LaBx7Q")  # LaB is drawn first, and reserved for /lab
    monkeypatch.setattr("secrets.choice", lambda alphabet: next(letters))
    assert keys.draw(3) == "x7Q"


@pytest.mark.parametrize("key", ["a", "A-b_9", "x" * 64, "-", "stats"])
def test_a_custom_key_is_valid(key: str) -> None:
    keys.validate_custom_key(key)


@pytest.mark.parametrize("key", ["", "x" * 65, "a b", "a/b", "é", "a\n", "a\x00", "٣"])
def test_a_malformed_custom_key_is_refused(key: str) -> None:
    with pytest.raises(ValidationError) as raised:
        keys.validate_custom_key(key)
    message = f"{shortened(key)!r} is not a valid key: use 1 to 64 letters, digits, '-' and '_'."
    assert raised.value.messages == [message]


@pytest.mark.parametrize("key", ["admin", "API", "bulk"])
def test_a_reserved_custom_key_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match="is reserved"):
        keys.validate_custom_key(key)


@pytest.mark.django_db(transaction=True)
def test_the_longest_key_is_followed_rolled_up_and_in_an_event(client: Client) -> None:
    key = "x" * keys.MAX_LENGTH
    subscribe(RECEIVER)
    create_link(key)
    assert LinkEvent.objects.get().key == key
    unsubscribe(RECEIVER)
    assert client.get(f"/{key}")["Location"] == TARGET
    call_command("roll_up", verbosity=0)
    assert DailyVisits.objects.filter(short_url__key=key).exists()


@pytest.mark.django_db
def test_keys_are_compared_bytewise_and_distinguish_upper_case() -> None:
    """The order in the unique index then does not depend on the C library."""
    for key in ("b", "B", "a"):
        create_link(key)
    assert list(ShortUrl.objects.order_by("key").values_list("key", flat=True)) == ["B", "a", "b"]


@pytest.mark.django_db
def test_the_keys_of_many_deleted_links_are_taken_until_the_links_are_erased() -> None:
    create_link("one")
    create_link("two").delete()
    assert ShortUrl.objects.all().delete() == (1, {"shorturl.ShortUrl": 1})  # only `one`
    with pytest.raises(KeyTaken, match="The key 'one' is taken: it was deleted"):
        operations.create(TARGET, key="one")
    assert erase(ShortUrl.objects.all()) == 2
    assert operations.create(TARGET, key="one").key == "one"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        (keys.KEY_CONSTRAINT, True),
        (f"{keys.KEY_CONSTRAINT}_102008", True),  # with the number of a shard
        (f"{keys.KEY_CONSTRAINT}2", False),
        (f"of_{keys.KEY_CONSTRAINT}", False),
    ],
)
def test_a_collision_on_another_node_is_known_by_its_message(name: str, is_ours: bool) -> None:
    """Citus forwards the message without the fields for the table and the constraint."""
    for message in (
        f'duplicate key value violates unique constraint "{name}"',
        f"doppelter Schlüsselwert verletzt Unique-Constraint »{name}«",
    ):
        statement = f"DO $$ BEGIN RAISE unique_violation USING MESSAGE = '{message}'; END $$"
        with pytest.raises(IntegrityError) as raised, transaction.atomic():
            connection.cursor().execute(statement)
        assert keys.is_collision(raised.value) is is_ours
    assert not keys.is_collision(IntegrityError(keys.KEY_CONSTRAINT))  # an error without a cause


def count_updates(cursor: CursorWrapper) -> tuple[int, int]:
    """Return how many rows of links were updated, and how many of them in place."""
    cursor.execute("SELECT pg_stat_force_next_flush()")
    cursor.execute(UPDATES, ["shorturl_shorturl"])
    all_updates, in_place = cursor.fetchone()
    return all_updates, in_place


@pytest.mark.django_db(transaction=True)
def test_hits_are_counted_in_place() -> None:
    """The fill factor leaves room for HOT updates of `hits`, which touch no index.

    The pages are new and each row is updated once, so that no other snapshot keeps old versions.
    """
    target_url = TARGET + "x" * 1_900  # a long row needs much room
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE shorturl_shorturl CASCADE")
        for number in range(50):
            create_link(f"k{number}", target_url=target_url, title="A", tags=["b"])
        all_before, in_place_before = count_updates(cursor)
        for number in range(50):
            following.follow(f"k{number}", PERSON)
        all_after, in_place_after = count_updates(cursor)
    assert (all_after - all_before, in_place_after - in_place_before) == (50, 50)
