"""The pytest plugin: its fixture, its options, and what a failing test shows."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pginterleave import CannotExplore, explore
from pginterleave.pytest_plugin import Interleave

from . import counter, test_example
from .counter import parameters, sql
from .shop import Item

README = Path(__file__).parent.parent / "README.md"
IN_A_WORKER = ["--numprocesses=1"] if find_spec("xdist") else []

TESTS = """
import pytest
from pginterleave import explore
from tests.counter import anything, atomic_only, expect_hits, hits, naive, setup, sql
from tests.counter import update_returning

def test_lost(interleave):
    interleave(
        naive, lambda: naive(),  # a comment
        setup=setup, invariant=expect_hits(2),
    )

@pytest.mark.interleave(processes=3, max_schedules=5)
def test_truncated(interleave):
    interleave(naive, setup=setup, invariant=anything)

@pytest.mark.interleave(isolation_level="repeatable read", processes=2)
def test_refused(interleave):
    interleave(atomic_only, setup=setup, invariant=expect_hits(2))

def test_right(interleave):
    setup()
    interleave(update_returning, invariant=expect_hits(2), processes=2)
    assert hits() == 0
    interleave(update_returning, invariant=expect_hits(3))  # --interleave-processes=3

def test_nothing_is_left(interleave):
    assert sql("SELECT count(*) FROM interleave_counter") == [(0,)]

def test_unread(interleave):
    explore([naive], setup=setup, invariant=anything)

@pytest.mark.parametrize("name", "ab")
def test_limit(interleave, name):
    interleave(lambda: sql("SET lock_timeout = '9s'"))

@pytest.mark.interleave(max_schedules=1)
class TestNearestMark:
    @pytest.mark.interleave(max_schedules=99)
    def test_nearest(self, interleave):
        interleave(update_returning, setup=setup, invariant=expect_hits(2), processes=2)
"""


OPTIONS = {
    "count_all": True,
    "processes": 2,
    "isolation_level": "read committed",
    "max_schedules": 7,
    "max_seconds": 0.5,
    "max_preemptions": 1,
}
TEST_OF_OPTIONS = f"""
def test_options(interleave):
    assert interleave.defaults == {OPTIONS}
"""


def settings_of_this_database() -> dict[str, str]:
    """Return the entry of DATABASES for this database in another process."""
    known = {name.upper(): str(value) for name, value in parameters().items()}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": known.pop("DBNAME"), **known}


IN_A_TEST_DATABASE = """
from pginterleave.django_test import InterleaveTestCase
from tests.counter import anything, sql

def check(explore):
    explore(lambda: sql("SELECT current_database()"), invariant=in_a_test_database)

def in_a_test_database(outcomes):
    ((name,),) = outcomes[0].returned
    return "" if name.startswith("test_") else f"in {name}"

def test_fixture(interleave):
    check(interleave)

def test_other(interleave):
    interleave(lambda: 1, invariant=anything, using="other")

class TestIt(InterleaveTestCase):
    def test_case(self):
        check(self.assertNoRace)

    def test_replay(self):
        self.assertNoRace(lambda: sql("SELECT 1"), invariant=anything)
"""


DATABASE_IS_THERE = """
import pytest
@pytest.fixture(scope="session")
def django_db_setup(): pass
"""


def run_pytest(
    folder: Path, tests: str, *options: str, database: str = "", **environment: str
) -> str:
    """Run tests in another process, in this database or in a new one; return what it prints.

    The last line is its exit code.
    """
    settings = settings_of_this_database()
    if database:
        settings["NAME"] = database
    else:
        folder.joinpath("conftest.py").write_text(DATABASE_IS_THERE)
    folder.joinpath("inner_settings.py").write_text(f"DATABASES = {{'default': {settings!r}}}\n")
    folder.joinpath("test_inner.py").write_text(tests)
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    given = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(folder), str(Path(__file__).parent.parent), given])
    environment = {"DJANGO_SETTINGS_MODULE": "inner_settings", "PYTHONPATH": path} | environment
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rf", *options],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{ran.stdout}exit code {ran.returncode}\n"


def failures(folder: Path, tests: str, *options: str, **others: str) -> tuple[str, dict[str, str]]:
    """Run tests in another process; return what it prints, and what each failed test says."""
    printed = run_pytest(folder, tests, *options, COLUMNS="200", **others)
    text = re.sub(r"^E {0,7}", "", printed, flags=re.MULTILINE)
    summary = text.partition("short test summary info")[2]
    lines = [line.split(" ", 3) for line in summary.splitlines() if line.startswith("FAILED")]
    return text, {line[1].partition("::")[2]: line[-1] for line in lines}


@pytest.mark.usefixtures("counter_table")
def test_each_result_is_shown_in_another_project(tmp_path: Path) -> None:
    text, failed = failures(tmp_path, TESTS, "--interleave-processes=3", *IN_A_WORKER)
    assert failed.keys() == {"test_lost", "test_refused", "test_unread"}, text
    assert failed["test_lost"] == "Race: hits = 1"
    assert "3 failed, 5 passed, 1 not proven" in text
    assert " not proven: test_truncated " in text
    assert "\nNot proven: the search was truncated: max_schedules=5 reached. About " in text
    assert "could not serialize access" in text
    assert "- not checked in tests that passed -" in text
    assert "or a session, which the code sets: test_inner.py::test_limit[a] and 1 more\n" in text
    assert "0 of 1 schedules violate the invariant. What Python does between two" in text
    assert "is not interleaved. Call its assert_safe()" in text
    assert (
        "To run 122211 alone, pass replay='122211' in this call, or run\n"
        "\n"
        "    pytest test_inner.py::test_lost --interleave-replay 122211\n"
    ) in text


@pytest.mark.usefixtures("counter_table")
def test_one_schedule_is_replayed_and_drawn(tmp_path: Path) -> None:
    options = [
        "--interleave-replay=111222",
        "-k",
        "lost or right or options",
        "--interleave-count-all",
    ]
    given = [f"--interleave-{name.replace('_', '-')}={OPTIONS[name]}" for name in [*OPTIONS][1:]]
    text, failed = failures(tmp_path, TESTS + TEST_OF_OPTIONS, *options, *given)
    assert "ImpossibleSchedule" in failed.pop("test_right")
    assert failed == {}
    assert "test_inner.py::test_lost, schedule 111222:\n\n   process 1" in text


@pytest.mark.usefixtures("interleave")
def test_without_a_mark_it_runs_in_a_test_database(tmp_path: Path) -> None:
    """No other test makes pytest-django create the test database."""
    others = {"database": f"interleave_{os.getpid()}"}
    text, failed = failures(tmp_path, IN_A_TEST_DATABASE, "--interleave-replay=21", **others)
    assert "TestIt::test_replay, schedule 21:\n\n   process 1" in text
    assert "The test does not say that it uses the database 'other'" in failed["test_other"]
    assert failed.keys() == {"test_other"}, text


def test_without_settings_of_django_it_fails(tmp_path: Path) -> None:
    others = {"database": "none", "DJANGO_SETTINGS_MODULE": ""}
    text = run_pytest(tmp_path, "def test_fixture(interleave): pass", **others)
    assert "Set DJANGO_SETTINGS_MODULE" in text
    assert "1 error" in text


def test_a_race_fails_as_the_readme_shows(interleave: Interleave, item_table: None) -> None:
    Item.objects.create(name="lamp", stock=1)
    buy = test_example.buy_checking_first
    interleave.shell = "pytest tests/test_example.py::test_the_last_one_is_sold_once"
    interleave.shell += " --interleave-replay"
    with pytest.raises(
        AssertionError, match=r"^Race: both returned True. One after the other, "
    ) as raised:
        interleave(buy)
    assert str(raised.value) in README.read_text()


@pytest.mark.usefixtures("counter_table")
def test_the_call_may_replay_and_an_error_is_an_error(interleave: Interleave) -> None:
    with pytest.raises(CannotExplore, match="processes=2 needs one function"):
        interleave(counter.naive, counter.naive, processes=2, invariant=counter.anything)
    counter.setup()
    with pytest.raises(AssertionError, match=r"^Race: hits = 1\n\n   process 1"):
        interleave(counter.naive, invariant=counter.expect_hits(2), replay="122211")
    with pytest.raises(ZeroDivisionError):
        interleave(lambda: sql("SELECT 1"), setup=lambda: 1 / 0, invariant=counter.anything)
    found = interleave(lambda: sql("SELECT 1"), invariant=counter.anything, replay="21")
    assert (found.orders, found.violations, found.complete) == (("21",), (), False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processes": "3"}, "processes='3' is not a number from 1 to 9"),
        ({"processes": 12}, "processes=12 is not a number from 1 to 9"),
        ({"invarient": counter.anything}, "no argument invarient; the nearest one is invariant"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_right(
    interleave: Interleave, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CannotExplore, match=message):
        interleave(counter.naive, **options)


@pytest.mark.django_db
def test_a_test_in_a_transaction_is_told_what_to_do(interleave: Interleave) -> None:
    told = (
        "The test runs in a transaction of the database 'default'.* which needs no mark django_db"
    )
    with pytest.raises(CannotExplore, match=told):
        interleave(counter.naive, setup=counter.setup, invariant=counter.anything)
    with pytest.raises(CannotExplore, match=r"django_db\(transaction=True\)"):
        explore([counter.naive], invariant=counter.anything)


def test_a_project_without_django_can_load_the_plugin() -> None:
    code = "import sys, pginterleave.pytest_plugin; sys.exit('django' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
