"""Race coverage: which lines of a project write, and which of them an exploration ran."""

import json
import sys
from pathlib import Path

import pytest

from pginterleave.processes.race_coverage import Recorder, find_reason_to_be_alone

from .test_pytest_plugin import IN_A_WORKER, run_pytest

pytestmark = pytest.mark.usefixtures("counter_table")

SHOP = """
from tests.counter import Counter, sql

def count():
    sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1")

def count_by_orm():
    Counter.objects.filter(id=1).update(hits=5)

def look():
    return sql("WITH w AS (SELECT) SELECT 1 FROM public.interleave_counter FOR UPDATE")

def call(function):
    function()

def import_all():
    # pginterleave: alone - an operator's command
    sql("TRUNCATE interleave_counter")

def forgotten():
    # pginterleave: alone
    sql("DELETE FROM interleave_counter")

def elsewhere():
    sql("CREATE TEMP TABLE elsewhere (id int)")
    sql("INSERT INTO elsewhere VALUES (1)")
"""
TESTS = """
import pytest, shop
from tests.counter import setup, sql

def test_pair(interleave):
    setup()
    interleave(shop.count, shop.look)

def test_no_pair(interleave):
    setup()
    interleave(shop.elsewhere, shop.count_by_orm)

@pytest.mark.django_db(transaction=True)
def test_alone():
    setup()
    shop.count_by_orm()
    shop.import_all()
    shop.forgotten()
    shop.call(lambda: sql("DELETE FROM interleave_counter"))
"""


def read_lines(folder: Path) -> dict[str, list[str]]:
    """Return the explorations of each line of the shop, by its text."""
    data = json.loads((folder / ".interleave-coverage.json").read_text())
    source = SHOP.splitlines()
    found = {}
    for place, each in data["lines"].items():
        path, _, number = place.rpartition(":")
        assert path == str(folder / "shop.py")
        found[source[int(number) - 1].strip()] = each["explored"]
    return found


def test_each_line_that_writes_is_listed_with_its_explorations(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    options = ["--interleave-coverage", "--interleave-coverage-fail-under=50", *IN_A_WORKER]
    printed = run_pytest(tmp_path, TESTS, *options)
    pair = ["test_inner.py::test_pair"]
    assert read_lines(tmp_path) == {
        'sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1")': pair,
        "Counter.objects.filter(id=1).update(hits=5)": [],
        'return sql("WITH w AS (SELECT) SELECT 1 FROM public.interleave_counter FOR UPDATE")': pair,
        'sql("TRUNCATE interleave_counter")': [],
        'sql("DELETE FROM interleave_counter")': [],
        'sql("INSERT INTO elsewhere VALUES (1)")': [],
    }
    assert "shop.py:11  interleave_counter  1: test_inner.py::test_pair\n" in printed
    assert "shop.py:18  interleave_counter  alone: an operator's command\n" in printed
    assert "shop.py:22  interleave_counter  never\n" in printed
    assert "40 % of the lines that ran and wrote or locked rows were explored." in printed
    assert "FAIL: 50 % are required." in printed
    assert "exit code 1" in printed


def test_runs_are_combined(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    append = ["--interleave-coverage=.", "--interleave-coverage-append"]
    run_pytest(tmp_path, TESTS, *append, "-k", "alone")
    assert not any(read_lines(tmp_path).values())
    enough = "--interleave-coverage-fail-under=50"
    printed = run_pytest(tmp_path, TESTS, *append, "-k", "test_pair", enough)
    assert "FAIL" not in printed
    assert "exit code 0" in printed
    assert sum(map(bool, read_lines(tmp_path).values())) == 2
    assert len(read_lines(tmp_path)) == 5


def test_what_another_folder_sends_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "caller.py").write_text("def call(function):\n    function()\n")
    calling = "def test_alone():\n    from other import caller\n    caller.call(shop.count_by_orm)"
    tests = TESTS.replace("def test_alone():", calling)
    run_pytest(tmp_path, tests, "--interleave-coverage=other")
    assert read_lines(tmp_path) == {}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("shop/views.py", "shop/views.py"),
        ("shop/testing.py", "shop/testing.py"),
        ("shop/site-packages/lib/db.py", "shop/calling.py"),
        ("/usr/lib/python/db.py", "shop/calling.py"),
        *((f"shop/{name}", "") for name in ("tests.py", "test_a.py", "a_test.py", "conftest.py")),
        *((f"shop/{folder}/a.py", "") for folder in ("test", "tests", "migrations")),
        ("other/a.py", ""),
    ],
)
def test_the_innermost_line_of_the_project_is_reported(path: str, line: str) -> None:
    """A line of a package is its caller's; one of a test, a migration or elsewhere is none."""
    recorder = Recorder([Path("/project/shop")], Path("/project"))
    send = "recorder.note_statement('DELETE FROM t', sys._getframe())"
    code = compile(send, str(Path("/project", path)), "eval")
    calling = compile("eval(code)", "/project/shop/calling.py", "eval")
    names = {"recorder": recorder, "sys": sys, "code": code}
    assert eval(calling, names) == (f"/project/{line}:1" if line else "")
    assert bool(recorder.lines) is bool(line)


def test_a_comment_beside_or_above_a_line_says_why_it_is_alone(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(
        "sql()  # pginterleave: alone: nightly\n"
        "sql()\n"
        "# pginterleave: alone - by hand\n"
        "# and once a year\n"
        "sql()\n"
        "sql()  # alone\n"
    )
    reasons = [find_reason_to_be_alone(str(file), number) for number in (1, 2, 5, 6)]
    assert reasons == ["nightly", "", "by hand", ""]
