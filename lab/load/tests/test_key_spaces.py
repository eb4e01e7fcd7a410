"""Key spaces: whose keys and targets they have, and that nothing of them stays behind."""

from collections import Counter
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from lab.load import key_spaces as spaces
from lab.models import KeySpace
from shorturl import keys
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def link(space: str, key: str) -> ShortUrl:
    """Return a new link of `space`."""
    return ShortUrl.objects.create(key=key, target_url=f"{spaces.targets(space)}{key}")


def aged(space: KeySpace, age: timedelta) -> None:
    """Make `space` one that was opened that long ago."""
    KeySpace.objects.filter(pk=space.pk).update(created_at=timezone.now() - age)


def run(*arguments: str) -> str:
    """Return what `manage.py spaces` prints."""
    output = StringIO()
    call_command("spaces", *arguments, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("length", [spaces.MIN_KEY_LENGTH, spaces.MAX_KEY_LENGTH])
def test_the_candidates_are_those_of_the_service_behind_a_prefix(length: int) -> None:
    space = spaces.open_space(length)
    drawn = [*spaces.SpaceCandidates(space.name, length, 0xFFF)]
    prefix = f"{space.name}-fff-"
    assert all(key.startswith(prefix) for key in drawn)
    lengths = Counter(len(key) - len(prefix) for key in drawn)
    assert lengths == Counter(len(key) for key in keys.candidates(length))
    assert all(keys.CUSTOM_KEY.fullmatch(key) for key in drawn)
    assert all(spaces.space_of(key) == space for key in drawn)


def test_rounds_share_no_key() -> None:
    first = {*spaces.SpaceCandidates("lab-aaaaa", 1, 1)}
    assert first.isdisjoint(spaces.SpaceCandidates("lab-aaaaa", 1, 2))


@pytest.mark.parametrize("key", ["abc", "lab-aaaaa-0-x", "lab-aaaaa", "lab-aaaaa-0-", "a\0b"])
def test_a_key_of_no_space(key: str) -> None:
    with pytest.raises(KeySpace.DoesNotExist):
        spaces.space_of(key)


def test_closing_takes_the_links_with_it_and_no_others() -> None:
    space, other = spaces.open_space(1), spaces.open_space(1)
    link(space.name, f"{space.name}-0-a")
    assert spaces.remembered(space.name) == space
    link(space.name, "key-of-its-own").delete()  # a tombstone
    link(other.name, f"{other.name}-0-a")
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    assert spaces.close(space) == 2
    assert {*ShortUrl.objects.values_list("key", flat=True)} == {f"{other.name}-0-a", "mine"}
    for find in (spaces.find, spaces.remembered):
        with pytest.raises(KeySpace.DoesNotExist):
            find(space.name)


def test_sweeping_removes_what_was_forgotten() -> None:
    old, young = spaces.open_space(1), spaces.open_space(1)
    aged(old, 2 * HOUR)
    for space in (old, young):
        link(space.name, f"{space.name}-0-a")
    link("lab-aaaaa", "late")  # a create that came after its space was closed
    ShortUrl.objects.create(key="mine", target_url="https://example.com/lab-aaaaa.invalid/")
    assert run("sweep") == "Removed 1 key spaces and 2 links.\n"
    assert [*KeySpace.objects.all()] == [young]
    assert {*ShortUrl.objects.values_list("key", flat=True)} == {f"{young.name}-0-a", "mine"}


def test_sweeping_the_young_ones_too() -> None:
    aged(spaces.open_space(1), timedelta(minutes=5))
    assert run("sweep", "--older-than", "6") == "Removed 0 key spaces and 0 links.\n"
    assert run("sweep", "--older-than", "4") == "Removed 1 key spaces and 0 links.\n"


@pytest.mark.parametrize("minutes", ["-1", "soon", "1234567"])
def test_a_time_that_is_none(minutes: str) -> None:
    with pytest.raises(CommandError, match="is not a number of minutes, for example 60"):
        run("sweep", f"--older-than={minutes}")


def test_the_list() -> None:
    space = spaces.open_space(2)
    link(space.name, "a")
    assert run("list").startswith(f"{space.name}  key length 2  1 links  opened 20")


def test_without_its_table(django_user_model: Any) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE lab_keyspace RENAME TO elsewhere")
    with pytest.raises(CommandError, match='relation "lab_keyspace" does not exist'):
        run("list")
