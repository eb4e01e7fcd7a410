"""The command `manage.py interleave`, and the test case and the mixin for unittest."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import TestCase, TransactionTestCase

from pginterleave import CannotExplore
from pginterleave.django.management.commands import interleave as command
from pginterleave.django.test import InterleaveMixin, InterleaveTestCase
from pginterleave.pytest_plugin import Interleave

from .counter import anything, counted, hits, naive, setup, sql, update_returning
from .test_pytest_plugin import settings_of_this_database

pytestmark = pytest.mark.usefixtures("counter_table")

HERE = __name__

Run = Callable[..., tuple[object, str]]


def lost(interleave: Interleave) -> None:
    setup()
    interleave(naive, invariant=counted(2))


def right(interleave: Interleave) -> None:
    setup()
    interleave(update_returning, invariant=counted(2), processes=2)


def truncated(interleave: Interleave) -> None:
    setup()
    interleave(naive, invariant=anything, max_schedules=2)


def broken(interleave: Interleave) -> None:
    interleave(naive, invariant=anything, setup=lambda: {"a": 1}["key"])


def idle(interleave: Interleave) -> None:
    """Explore nothing."""


class Cases(InterleaveTestCase):
    def method(self) -> None:
        setup()
        self.assertNoRace(naive, invariant=counted(2))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, counter_table: None) -> Run:
    monkeypatch.setattr(command, "test_database", lambda *, keep: nullcontext())

    def run(*arguments: str) -> tuple[object, str]:
        output = StringIO()
        try:
            call_command(command.Command(), *arguments, stdout=output)
        except SystemExit as ended:
            return ended.code, output.getvalue()
        except CommandError as error:
            return error.returncode, str(error)
        return 0, output.getvalue()

    return run


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (
            ["lost", "--count-all"],
            1,
            "12 of 14 schedules violate the invariant (4 ran; the others are equivalent, if no "
            "memory is shared). The shortest is 122211:\n",
        ),
        (["lost"], 1, "2 of the first 4 schedules violate the invariant (3 ran; the others"),
        (["lost"], 1, f"    manage.py interleave {HERE}:lost --replay 122211\n"),
        (["Cases.method"], 1, f"    manage.py interleave {HERE}:Cases.method --replay 122211\n"),
        (["lost", "--replay=122211"], 1, "Schedule 122211 violates the invariant:\n\n   process 1"),
        (["lost", "--replay=111222"], 0, "Schedule 111222 is safe:\n\n   process 1"),
        (
            ["lost", "--count-all", "--isolation-level=Serializable"],
            1,
            "schedules violate the",
        ),
        (["right"], 0, "0 of 4 schedules violate the invariant (2 ran; the others are"),
        (["lost", "--processes=3", "--max-schedules=20"], 1, ":lost --replay 111222333\n"),
        (["lost", "--processes=3"], 1, "The processes also fail one after the other: "),
        (["truncated"], 2, "Not proven: 0 of the first 2 schedules"),
        (["lost", "--replay=1"], 2, "ImpossibleSchedule: "),
        (["lost", "--isolation-level=none"], 2, "CannotExplore: isolation_level is 'none'"),
        (["broken"], 2, "KeyError: 'key'\nRaised in setup."),
        (["idle"], 2, "The test has not called `interleave`."),
        (["missing"], 2, "Name a test as package.module:function. module"),
        (["naive"], 2, "is neither a function with the one argument `interleave` nor"),
    ],
)
def test_exit_codes(run: Run, arguments: list[str], code: int, shown: str) -> None:
    ended, output = run(f"{HERE}:{arguments[0]}", *arguments[1:])
    assert shown in output
    assert ended == code


@pytest.mark.usefixtures("interleave")
def test_it_works_in_a_test_database(tmp_path: Path) -> None:
    settings = settings_of_this_database() | {"NAME": f"interleave_{os.getpid()}"}
    tmp_path.joinpath("command_settings.py").write_text(
        f"DATABASES = {{'default': {settings!r}}}\n"
        "INSTALLED_APPS = ['django.contrib.contenttypes', 'pginterleave.django']\n"
    )
    tmp_path.joinpath("races.py").write_text(
        "from django.contrib.contenttypes.models import ContentType\n"
        "def look(): return ContentType.objects.count()\n"
        "def test_look(interleave):\n"
        "    interleave(look, invariant=lambda outcomes: print(outcomes))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "django", "interleave", "races:test_look"],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "command_settings",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr == ""
    assert ran.stdout.count("Outcome(returned=1, raised=None)") == 2
    assert ran.returncode == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE '%%interleave_%%'")
        assert f"test_interleave_{os.getpid()}" not in [name for (name,) in cursor.fetchall()]


class Checks(InterleaveMixin):
    def check(self) -> None:
        setup()
        self.assertNoRace(update_returning, invariant=counted(2))
        self.assertNoRace(update_returning, invariant=counted(3), processes=3)
        self.assertNoRace(update_returning)
        assert hits() == 0
        with pytest.raises(
            AssertionError, match=r"    self.assertNoRace\(naive, .*, replay='122211"
        ):
            self.assertNoRace(naive, invariant=counted(2))


class WithoutFlush(Checks, InterleaveTestCase):
    def setUp(self) -> None:
        """Call no super(): the rows are put back nevertheless, also those of a cleanup."""
        assert sql("SELECT count(*) FROM interleave_counter") == [(0,)]
        self.addCleanup(setup)

    def test_it_explores(self) -> None:
        self.check()

    def test_nothing_is_left(self) -> None:
        """setUp() checks it, in whatever order the two run."""


def test_setup_test_data_is_refused() -> None:
    with pytest.raises(CannotExplore, match=r"setUpTestData\(\) would never"):

        class WithData(InterleaveTestCase):
            @classmethod
            def setUpTestData(cls) -> None:
                setup()


class WithMixin(Checks, TransactionTestCase):
    def test_it_explores(self) -> None:
        self.check()


class InTransaction(InterleaveMixin, TestCase):
    def test_it_is_told_what_to_do(self) -> None:
        with pytest.raises(
            CannotExplore, match="in an InterleaveTestCase or a TransactionTestCase"
        ):
            self.assertNoRace(naive, invariant=anything)
