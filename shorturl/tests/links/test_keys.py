"""Candidate keys and custom keys."""

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from pytest_django import Settings

from shorturl.exceptions import KeySpaceExhausted
from shorturl.links import keys


def test_candidates_are_a_bounded_number_at_each_length_and_then_longer(
    settings: Settings,
) -> None:
    settings.SHORTURL_KEY_LENGTH = 5
    lengths = [len(key) for key in keys.candidates()]
    assert lengths == [5] * 10 + [6] * 10 + [7] * 10 + [8] * 10
    assert {len(key) for key in keys.candidates(19)} == {19, 20}  # no key can be longer


def test_candidates_are_random_letters_and_digits_and_never_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [keys.draw(7) for _ in range(1_000)]
    assert set("".join(drawn)) == set(keys.ALPHABET)
    assert len(set(drawn)) == len(drawn)
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


def test_a_custom_key() -> None:
    for key in ("a", "A-b_9", "x" * 20, "-", "stats"):
        keys.validate_custom_key(key)
    for key in ("", "x" * 21, "a b", "a/b", "é", "a\n", "a\x00", "٣"):
        with pytest.raises(ValidationError) as raised:
            keys.validate_custom_key(key)
        message = f"{key!r} is not a valid key: use 1 to 20 letters, digits, '-' and '_'."
        assert raised.value.messages == [message]
    for key in ("admin", "API", "bulk"):
        with pytest.raises(ValidationError, match="is reserved") as raised:
            keys.validate_custom_key(key)
        assert raised.value.code == "reserved"


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
