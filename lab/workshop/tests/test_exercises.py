"""The exercises: what a student is handed does not hold, what solves it does, and who judges it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError
from django.db import OperationalError, transaction

from lab.conftest import judged, race
from lab.workshop.exercises import EXERCISES
from project.docs import ROOT
from shorturl import operations
from shorturl.models import ShortUrl

pytestmark = pytest.mark.usefixtures("in_the_tests_database")
exploring = pytest.mark.django_db(transaction=True)


# What the judges say of each template, in their order.
HANDED_OUT = {
    "create": [
        (0, "holds. 0 of 1 schedules violate the invariant"),
        (1, "Violated: process 2 raises IntegrityError"),
        (1, "Violated: process 2 raises IntegrityError"),
    ],
    "resolve": [
        (1, "Violated: hits = 1, not 2"),
        (1, "Violated: the edit of the target is undone"),
    ],
    "schedule": [(1, "schedule 111122223333 holds. Look for one that does not.")],
    "limited_use": [(1, "Violated: ")],
    "last_use": [
        (1, "Violated: process 2 raises IntegrityError"),
        (0, "holds. 0 of 7 schedules violate the invariant"),
    ],
    "reuse": [(1, "Violated: processes [1, 2] are told that the link is new")] * 2,
    "quota": [
        (1, "Violated: 2 links are made where the quota has one left"),
        (1, "Violated: 2 links are made where the quota has one left"),
        (1, "Violated: 0 links are made where the quota has one left"),
    ],
    "crossed_locks": [
        (1, "raises OperationalError: deadlock detected"),
        (0, "holds. 0 of 1 schedules violate the invariant"),
    ],
}


@exploring
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXERCISES)
def test_a_template_does_not_hold_and_a_solution_does(name: str) -> None:
    exercise = EXERCISES[name]
    for judge, (code, message) in zip(exercise.judges, HANDED_OUT[name], strict=True):
        found, said = judged(judge, f"lab.workshop.templates.{name}:{exercise.function}")
        assert (found, message in said) == (code, True), said
        found, said = judged(judge, f"lab.workshop.solutions.{name}:{exercise.function}")
        assert found == 0, said


def resolve_both_and_try_again(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    for _ in range(5):
        try:
            with transaction.atomic():
                return operations.resolve(first), operations.resolve(second)
        except OperationalError:
            pass
    raise AssertionError("the victim of five deadlocks")


def resolve_both_without_a_transaction(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    return operations.resolve(first), operations.resolve(second)


def resolve_both_in_another_order(first: str, second: str) -> list[ShortUrl]:
    with transaction.atomic():
        return [operations.resolve(key) for key in sorted((first, second))]


def resolve_both_and_forget(first: str, second: str) -> None:
    resolve_both_in_another_order(first, second)


def resolve_nothing(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    return ShortUrl.objects.get(key=first), ShortUrl.objects.get(key=second)


def resolve_what_there_is(first: str, second: str) -> None:
    operations.resolve(first)


def too_short() -> str:
    return "12"


def all_in_turn() -> str:
    return "123" * 4


def none_at_all() -> None:
    pass


def failing() -> str:
    raise KeyError("1122")


@exploring
@pytest.mark.parametrize(
    ("judge", "function", "code", "message"),
    [
        ("crossed_calls", "resolve_both_and_try_again", 0, "holds"),
        ("half_a_call", "resolve_both_without_a_transaction", 1, "half of the call has counted"),
        ("crossed_calls", "resolve_both_in_another_order", 1, "process 2 asked for ('b', 'a')"),
        ("crossed_calls", "resolve_both_and_forget", 1, "and is returned None"),
        ("crossed_calls", "resolve_nothing", 1, "hits = 0 and 0, not 2"),
        ("half_a_call", "resolve_what_there_is", 1, "gets no error, not ShortUrl.DoesNotExist"),
        ("find_the_schedule", "too_short", 2, "12 is not a schedule of this race: "),
        ("find_the_schedule", "all_in_turn", 1, "and no process has noticed anything. Look for"),
        ("find_the_schedule", "none_at_all", 2, "returned None; return a schedule, like '1122'"),
        ("find_the_schedule", "failing", 2, "The function raised KeyError: '1122'."),
    ],
)
def test_the_judges_of_exercises(judge: str, function: str, code: int, message: str) -> None:
    found, said = judged(judge, f"{__name__}:{function}")
    assert (found, message in said) == (code, True), said


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python imports from, and where the command is given."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_the_template_and_never_overwrites(folder: Path) -> None:
    exercise = EXERCISES["create"]
    printed = race("exercise", "create")
    mine = folder / "exercises" / "create.py"
    assert mine.read_text() == exercise.template.read_text()
    for judge in exercise.judges:
        assert f"race check {judge} exercises.create:{exercise.function}" in printed
    mine.write_text("my work")
    (folder / "folder").write_text("a file")
    for file in "exercises/create.py", "folder/create.py":
        with pytest.raises(CommandError, match=r"\w exists already, and is left as it") as raised:
            race("exercise", "create", file)
        assert raised.value.returncode == 2
    assert mine.read_text() == "my work"


@pytest.mark.parametrize("file", ["a-b/mine.py", "mine.txt", "class.py", "/a.py"])
def test_what_could_not_be_imported_is_not_written(folder: Path, file: str) -> None:
    with pytest.raises(CommandError, match=f"could not import {file}: name a file") as raised:
        race("exercise", "create", file)
    assert raised.value.returncode == 2
    assert not list(folder.iterdir())


@exploring
@pytest.mark.exhaustive
def test_the_command_that_it_prints_judges_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = folder / "mine.py"
    monkeypatch.setattr(sys, "argv", ["manage.py"])
    first, _second = race("exercise", "resolve", str(mine)).splitlines()[2:]
    judging = subprocess.run(
        shlex.split(first),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert judging.returncode == 1, judging.stderr
    assert "lost_update × mine:resolve: schedule 112212 violates the" in judging.stdout
    assert "Violated: hits = 1, not 2." in judging.stdout
