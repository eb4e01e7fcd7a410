"""Candidate keys and custom keys."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from pytest_django import Settings

from shorturl import operations
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.exceptions import KeySpaceExhausted
from shorturl.links import keys
from shorturl.links.validators import shortened
from shorturl.models import DailyVisits, LinkEvent, ShortUrl
from shorturl.tests.callers import TARGET

RECEIVER = "https://receiver.example/"


def test_candidates_are_a_bounded_number_at_each_length_and_then_longer(
    settings: Settings,
) -> None:
    settings.SHORTURL_KEY_LENGTH = 5
    lengths = [len(key) for key in keys.candidates()]
    assert lengths == [5] * 10 + [6] * 10 + [7] * 10 + [8] * 10
    assert {len(key) for key in keys.candidates(63)} == {63, 64}  # no key can be longer


def test_candidates_are_random_letters_and_digits_and_never_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [keys.draw(7) for _ in range(1_000)]
    assert set("".join(drawn)) == set(keys.ALPHABET)
    assert len(set(drawn)) == len(drawn)
    letters = iter("LaBx7Q")
    monkeypatch.setattr("secrets.choice", lambda alphabet: next(letters))
    assert keys.draw(3) == "x7Q"


def test_exhausted_candidates_are_counted_without_drawing_them_again() -> None:
    assert KeySpaceExhausted(keys.candidates(5)).attempts == {5: 10, 6: 10, 7: 10, 8: 10}
    assert str(KeySpaceExhausted(iter(()))) == "Every candidate key was taken."


def test_a_custom_key() -> None:
    for key in ("a", "A-b_9", "x" * 64, "-", "stats"):
        keys.validate_custom_key(key)
    for key in ("", "x" * 65, "a b", "a/b", "é", "a\n", "a\x00", "٣"):
        with pytest.raises(ValidationError) as raised:
            keys.validate_custom_key(key)
        message = (
            f"{shortened(key)!r} is not a valid key: use 1 to 64 letters, digits, '-' and '_'."
        )
        assert raised.value.messages == [message]
    for key in ("admin", "API", "bulk"):
        with pytest.raises(ValidationError, match="is reserved") as raised:
            keys.validate_custom_key(key)
        assert raised.value.code == "reserved"


@pytest.mark.django_db(transaction=True)
def test_the_longest_key_is_followed_rolled_up_and_in_an_event(client: Client) -> None:
    key = "x" * keys.MAX_LENGTH
    subscribe(RECEIVER)
    operations.create(TARGET, key=key)
    assert LinkEvent.objects.get().key == key
    unsubscribe(RECEIVER)
    assert client.get(f"/{key}")["Location"] == TARGET
    call_command("roll_up", verbosity=0)
    assert DailyVisits.objects.filter(short_url__key=key).exists()


@pytest.mark.django_db
def test_keys_are_compared_bytewise_and_distinguish_upper_case() -> None:
    """So the order in the unique index does not depend on the C library."""
    for key in ("b", "B", "a"):
        operations.create(TARGET, key=key)
    assert list(ShortUrl.objects.order_by("key").values_list("key", flat=True)) == ["B", "a", "b"]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT collation_name FROM information_schema.columns WHERE column_name"
            " = 'key' AND table_name IN ('shorturl_shorturl', 'shorturl_recentvisits')"
        )
        assert cursor.fetchall() == [("C",)]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        (keys.KEY_CONSTRAINT, True),
        (f"{keys.KEY_CONSTRAINT}_102008", True),
        (f"{keys.KEY_CONSTRAINT}2", False),
        (f"of_{keys.KEY_CONSTRAINT}", False),
    ],
)
def test_a_collision_on_another_node(name: str, is_ours: bool) -> None:
    """Citus forwards the message without the fields for the table and the constraint."""
    for message in (
        f'duplicate key value violates unique constraint "{name}"',
        f"doppelter Schlüsselwert verletzt Unique-Constraint »{name}«",
    ):
        with pytest.raises(IntegrityError) as raised, transaction.atomic():
            connection.cursor().execute(
                f"DO $$ BEGIN RAISE unique_violation USING MESSAGE = '{message}'; END $$"
            )
        assert keys.is_collision(raised.value) is is_ours
    assert not keys.is_collision(IntegrityError(keys.KEY_CONSTRAINT))  # an error without a cause
