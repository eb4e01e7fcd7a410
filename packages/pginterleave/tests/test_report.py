"""The HTML report with the result and the picture of each test, and the annotations for CI."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pginterleave import Step
from pginterleave.picture import html_report as report
from pginterleave.picture.history import locks, transactions, waits
from pginterleave.picture.recorded import column_values, recorded_steps

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


def test_the_page_has_every_test_and_uses_no_network(tmp_path: Path) -> None:
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
    """The sessions are not observed after each step."""
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


def test_names_and_values_from_the_database_are_escaped() -> None:
    schedule = replayed("12", lambda: sql("SELECT '<i>'"), lambda: sql("SELECT '<i>' AS \"<u>\""))
    text = report.picture(schedule, name="-x", snapshots=False)
    assert "<i>" not in text
    assert "<u>" not in text
    assert Page(text).open == []


HOSTILE = "it's, hits = 7, (x) VALUES (y) WHERE id = 2"


def step(sql: str, params: Any = None, **more: Any) -> Step:
    return Step(1, 1, sql.split()[0], sql, params, "file.py", 1, "f", 1, **more)


def test_a_select_reads() -> None:
    found = column_values(
        step(
            'SELECT "t"."id", "t"."url", "t"."gone" FROM "t" WHERE "t"."key" = %s LIMIT 21',
            ("a",),
            columns=("id", "url", "gone"),
            rows=((1, HOSTILE, None), (2, "", None)),
        )
    )
    assert found["table"] == "t"
    assert found["condition"] == {"key": "a"}
    assert found["read"] == [
        {"id": "1", "url": HOSTILE, "gone": None},
        {"id": "2", "url": "", "gone": None},
    ]
    assert found["wrote"] == {}
    assert (found["lock"], found["lock_name"]) == ("", "")


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("UPDATE t SET url = %s, n = 3, gone = NULL, hits = (t.hits + %s) WHERE t.id = %s",
         (HOSTILE, 1, 9)),
        ("UPDATE t SET url = %(u)s, n = %(n)s, gone = NULL, hits = %(n)s + 1 WHERE id = %(id)s",
         {"u": HOSTILE, "n": 3, "id": 9}),
        ("UPDATE t SET url = 'it''s, hits = 7, (x) VALUES (y) WHERE id = 2', n = '3', gone = NULL"
         " WHERE id = 9 RETURNING id = 8", None),
    ],
)  # fmt: skip
def test_an_update_writes_values_and_not_expressions(sql: str, params: Any) -> None:
    found = column_values(step(sql, params))
    assert found["wrote"] == {"url": HOSTILE, "n": "3", "gone": None}
    assert found["condition"] == {"id": "9"}


def test_an_insert_writes_and_a_commit_does_not() -> None:
    now = datetime(2022, 4, 29, tzinfo=UTC)
    sql = "INSERT INTO t (a, b, c, d) VALUES (%s, coalesce(%s, 1), %s, DEFAULT) RETURNING id"
    found = column_values(step(sql, (HOSTILE, 5, now), columns=("id",), rows=((4,),)))
    assert found["wrote"] == {"a": HOSTILE, "c": "2022-04-29 00:00:00+00:00"}
    assert found["read"] == [{"id": "4"}]
    assert column_values(step("INSERT INTO t DEFAULT VALUES"))["wrote"] == {}
    assert column_values(step("INSERT INTO t (a, b) SELECT 1, c FROM u"))["wrote"] == {"a": "1"}
    assert [value for value in column_values(step("COMMIT")).values() if value] == ["COMMIT"]


def test_a_with_has_the_kind_and_the_tables_of_its_write() -> None:
    link = "WITH link AS (SELECT id FROM links WHERE key = %s)"
    found = column_values(
        step(f"{link}, counted AS (INSERT INTO counts AS c (link, n) SELECT id, 1 FROM link)"
             " SELECT id FROM link", ("a",))
    )  # fmt: skip
    assert (found["kind"], found["table"], found["tables"]) == ("INSERT", "counts", ["links"])
    assert (found["condition"], found["wrote"]) == ({"key": "a"}, {"n": "1"})
    assert found["subquery"]
    found = column_values(step(f"{link} UPDATE t SET n = 1 FROM link", ("a",)))
    assert (found["kind"], found["table"], found["tables"]) == ("UPDATE", "t", ["links"])
    two = "WITH one AS (UPDATE t SET n = 2), two AS (INSERT INTO u (a) VALUES (1)) SELECT 1"
    assert (column_values(step(two))["kind"], column_values(step(two))["writes"]) == (
        "UPDATE",
        ["t", "u"],
    )
    assert column_values(step(f"{link} SELECT id FROM link", ("a",)))["kind"] == "SELECT"
    total = "SELECT id, (SELECT sum(n) FROM counts) AS n FROM links JOIN t ON true"
    found = column_values(step(total))
    assert (found["table"], found["tables"]) == ("links", ["links", "t", "counts"])


def test_an_expression_is_kept_as_its_text() -> None:
    found = column_values(
        step('UPDATE "t" SET "n" = ("t"."n" + %s), x = %s WHERE id = 9', (1, "y"))
    )
    assert (found["computed"], found["wrote"]) == ({"n": "n + 1"}, {"x": "y"})
    upsert = "INSERT INTO t (a) VALUES (%s) ON CONFLICT (a) DO UPDATE SET n = t.n + 1"
    assert column_values(step(upsert, (HOSTILE,)))["computed"] == {"n": "n + 1"}


@pytest.mark.parametrize(
    ("sql", "lock", "name"),
    [
        ("SELECT id FROM t WHERE key = %s FOR UPDATE", "FOR UPDATE", ""),
        ("SELECT id FROM t WHERE key = %s FOR NO KEY UPDATE OF t NOWAIT", "FOR NO KEY UPDATE", ""),
        ("SELECT id FROM t WHERE key = %s", "", ""),
        ("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", "advisory", "FOR UPDATE"),
        ("LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE", "SHARE ROW EXCLUSIVE", ""),
        ("UPDATE t SET a = 1 WHERE key = %s", "FOR NO KEY UPDATE", ""),
        ("DELETE FROM t WHERE key = %s", "FOR UPDATE", ""),
    ],
)
def test_the_lock_that_a_statement_takes(sql: str, lock: str, name: str) -> None:
    found = column_values(step(sql, ("FOR UPDATE",)))
    assert (found["lock"], found["lock_name"]) == (lock, name)
