"""Key spaces: their keys and targets, and their removal."""

from collections import Counter
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from lab.load import key_spaces as spaces
from lab.models import KeySpace
from shorturl.links import keys
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def link(space: str, key: str) -> ShortUrl:
    return ShortUrl.objects.create(key=key, target_url=f"{spaces.targets(space)}{key}")


def aged(space: KeySpace, age: timedelta) -> None:
    KeySpace.objects.filter(pk=space.pk).update(created_at=timezone.now() - age)


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("spaces", *arguments, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("length", [spaces.MIN_KEY_LENGTH, spaces.MAX_KEY_LENGTH])
def test_the_candidates_are_those_of_the_service_behind_a_prefix(length: int) -> None:
    space = spaces.open_space(length)
    drawn = [*spaces.SpaceCandidates(space, 0xFFF)]
    prefix = f"{space.name}-fff-"  # of this round, and of no other
    assert all(key.startswith(prefix) for key in drawn)
    lengths = Counter(len(key) - len(prefix) for key in drawn)
    assert lengths == Counter(len(key) for key in keys.candidates(length))
    assert all(keys.CUSTOM_KEY.fullmatch(key) for key in drawn)
    assert all(spaces.space_of(key) == space for key in drawn)
    for key in ("abc", space.name, f"{space.name}-0-", "lab-aaaaa-0-x", f"{space.name}-0-a\0"):
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


def test_list_and_sweep() -> None:
    old, young = spaces.open_space(1), spaces.open_space(2)
    aged(old, 2 * HOUR)
    aged(young, timedelta(minutes=5))
    for space in (old, young):
        link(space.name, f"{space.name}-0-a")
    link("lab-aaaaa", "late")  # created after its space was closed
    ShortUrl.objects.create(key="mine", target_url="https://example.com/lab-aaaaa.invalid/")
    assert run("list").splitlines()[1].startswith(f"{young.name}  key length 2  1 links  opened 20")
    assert run("sweep") == "Removed 1 key spaces and 2 links.\n"
    assert {*ShortUrl.objects.values_list("key", flat=True)} == {f"{young.name}-0-a", "mine"}
    assert run("sweep", "--older-than", "6") == "Removed 0 key spaces and 0 links.\n"
    assert [*KeySpace.objects.all()] == [young]
    assert run("sweep", "--older-than", "4") == "Removed 1 key spaces and 1 links.\n"
    for minutes in ("-1", "1234567"):
        with pytest.raises(CommandError, match="is not a number of minutes, for example 60"):
            run("sweep", f"--older-than={minutes}")


def test_without_its_table() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE lab_keyspace RENAME TO elsewhere")
    with pytest.raises(CommandError, match='relation "lab_keyspace" does not exist'):
        run("list")
