"""The page of HTML with what each test has found, and the annotations of a CI."""

import re
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from pginterleave.picture import html_report as report
from pginterleave.picture.history import locks, transactions, waits
from pginterleave.picture.recorded import recorded_steps

from .counter import counted, naive, replayed, select_for_update, sql
from .test_pytest_plugin import run_pytest

pytestmark = pytest.mark.usefixtures("counter_table")

TESTS = """
from tests.counter import anything, counted, naive, setup, sql, update_returning

def test_lost(interleave):
    interleave(naive, setup=setup, invariant=counted(2))

def test_markup(interleave):
    def process():
        sql("UPDATE interleave_counter SET key = '</script><b>' || hits WHERE key = 'a'")
        raise LookupError("<img src=x>")
    interleave(process, setup=setup, invariant=anything)

def test_truncated(interleave):
    interleave(naive, setup=setup, invariant=anything, max_schedules=2)

def test_right(interleave):
    interleave(update_returning, setup=setup, invariant=counted(2))
"""


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [f"{name}={value}" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_every_test_and_asks_no_network(tmp_path: Path) -> None:
    options = ["--numprocesses=1"] if find_spec("xdist") else []
    printed = run_pytest(
        tmp_path,
        TESTS,
        "--interleave-html=found/report.html",
        *options,
        GITHUB_ACTIONS="true",
        GITHUB_WORKSPACE=str(Path(__file__).parent.parent),
    )
    text = (tmp_path / "found" / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert page.links == []
    assert "default-src 'none'" in text
    assert "1 violated, 1 refused, 1 not proven, 1 safe" in text
    names = re.findall(r"<code>(test_inner\.py::\w+)</code></summary>", text)
    assert sorted(names[:2]) == ["test_inner.py::test_lost", "test_inner.py::test_markup"]
    assert names[2:] == ["test_inner.py::test_truncated", "test_inner.py::test_right"]
    assert page.tags.count("svg") == 4  # wide and narrow
    assert "lost update" in text
    assert "pytest test_inner.py::test_lost --interleave-replay 122211" in text
    assert "img" not in page.tags
    assert "&lt;img src=x&gt;" in text
    assert text.count("</script>") == 1
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    line = naive.__code__.co_firstlineno + 3
    assert (
        f"::error file=tests/counter.py,line={line},title=Race::test_inner.py::test_lost: hits = 1"
        in printed
    )
    assert printed.count("::error") == 2


def test_the_picture_knows_transactions_locks_and_waits() -> None:
    """Without anybody who observes the sessions after each step."""
    schedule = replayed("121122", select_for_update, select_for_update)
    steps = recorded_steps(schedule)
    assert [step["in_transaction"] for step in steps] == [[1], [1, 2], [1, 2], [2], [2], []]
    assert [(each.process, each.first, each.last, each.end) for each in transactions(steps)] == [
        (1, 1, 4, "COMMIT"),
        (2, 2, 6, "COMMIT"),
    ]
    held = [(each.process, each.first, each.last, each.mode) for each in locks(steps)]
    assert held == [(1, 1, 4, "FOR UPDATE"), (2, 4, 6, "FOR UPDATE")]
    assert [(each.first, each.last) for each in waits(steps)] == [(2, 4)]


def test_a_single_statement_is_in_a_transaction_until_its_commit() -> None:
    schedule = replayed("122211", naive, naive, invariant=counted(2))
    steps = recorded_steps(schedule)
    assert [step["in_transaction"] for step in steps] == [[], [], [2], [], [1], []]


def test_a_schedule_without_a_step_has_a_picture_too() -> None:
    schedule = replayed("", lambda: 1, lambda: 2, invariant=lambda _: "no")
    assert "no" in report.picture(schedule, name="-x", snapshots=False)


def test_what_the_driver_says_is_escaped() -> None:
    schedule = replayed("12", lambda: sql("SELECT '<i>'"), lambda: sql("SELECT '<i>' AS \"<u>\""))
    text = report.picture(schedule, name="-x", snapshots=False)
    assert "<i>" not in text
    assert "<u>" not in text
    assert Page(text).open == []
