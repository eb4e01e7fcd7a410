"""Candidate keys and custom keys."""

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction

from shorturl.exceptions import KeySpaceExhausted
from shorturl.links import keys


def test_candidates_are_a_bounded_number_at_each_length_and_then_longer(settings) -> None:  # type: ignore[no-untyped-def]
    settings.SHORTURL_KEY_LENGTH = 5
    lengths = [len(key) for key in keys.candidates()]
    assert lengths == [5] * 10 + [6] * 10 + [7] * 10 + [8] * 10
    assert {len(key) for key in keys.candidates(19)} == {19, 20}  # no key can be longer


def test_candidates_are_letters_and_digits_and_hardly_ever_the_same() -> None:
    drawn = [keys.draw(7) for _ in range(1_000)]
    assert set("".join(drawn)) == set(keys.ALPHABET)
    assert len(set(drawn)) == len(drawn)


def test_a_reserved_word_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = iter("LaBx7Q")
    monkeypatch.setattr("secrets.choice", lambda alphabet: next(letters))
    assert keys.draw(3) == "x7Q"


def test_exhausted_candidates_are_counted_without_drawing_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    candidates = keys.candidates(5)
    monkeypatch.setattr(keys, "draw", lambda length: pytest.fail("drawn again"))
    assert KeySpaceExhausted(candidates).attempts == {5: 10, 6: 10, 7: 10, 8: 10}
    assert str(KeySpaceExhausted(iter(()))) == "Every candidate key was taken."


@pytest.mark.parametrize("key", ["a", "A-b_9", "x" * 20, "-", "stats"])
def test_a_custom_key(key: str) -> None:
    keys.validate_custom_key(key)


@pytest.mark.parametrize("key", ["", "x" * 21, "a b", "a/b", "é", "a\n", "a\x00", "٣"])
def test_a_malformed_custom_key(key: str) -> None:
    with pytest.raises(ValidationError) as raised:
        keys.validate_custom_key(key)
    message = f"{key!r} is not a valid key: use 1 to 20 letters, digits, '-' and '_'."
    assert raised.value.messages == [message]


@pytest.mark.parametrize("key", ["admin", "API", "bulk"])
def test_a_reserved_custom_key(key: str) -> None:
    with pytest.raises(ValidationError, match="is reserved") as raised:
        keys.validate_custom_key(key)
    assert raised.value.code == "reserved"


def test_an_error_without_a_cause_is_no_collision() -> None:
    assert not keys.is_collision(IntegrityError(keys.KEY_CONSTRAINT))


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
@pytest.mark.parametrize(
    "message",
    [
        'duplicate key value violates unique constraint "{}"',
        "doppelter Schlüsselwert verletzt Unique-Constraint »{}«",
    ],
)
def test_a_collision_on_another_node(name: str, is_ours: bool, message: str) -> None:
    """Citus passes the message on, and leaves out the fields that name table and constraint."""
    passed_on = f"""
        DO $$ BEGIN
            RAISE unique_violation USING MESSAGE = '{message.format(name)}';
        END $$
    """
    with (
        pytest.raises(IntegrityError) as raised,
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(passed_on)
    assert keys.is_collision(raised.value) is is_ours
