"""What is recorded of the steps of a schedule, for its picture."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pginterleave import Step
from pginterleave.picture.history import find_locks, find_transactions, find_waits
from pginterleave.picture.recorded import read_columns, record_steps

from .counter import counted, naive, replayed, select_for_update

pytestmark = pytest.mark.usefixtures("counter_table")


def test_the_picture_knows_transactions_locks_and_waits() -> None:
    """The sessions are not observed after each step."""
    schedule = replayed("121122", select_for_update, select_for_update)
    steps = record_steps(schedule.timeline)
    assert [step["in_transaction"] for step in steps] == [[1], [1, 2], [1, 2], [2], [2], []]
    assert [
        (each.process, each.first, each.last, each.end) for each in find_transactions(steps)
    ] == [
        (1, 1, 4, "COMMIT"),
        (2, 2, 6, "COMMIT"),
    ]
    held = [(each.process, each.first, each.last, each.mode) for each in find_locks(steps)]
    assert held == [(1, 1, 4, "FOR UPDATE"), (2, 4, 6, "FOR UPDATE")]
    assert [(each.first, each.last) for each in find_waits(steps)] == [(2, 4)]


def test_a_single_statement_is_in_a_transaction_until_its_commit() -> None:
    schedule = replayed("122211", naive, naive, invariant=counted(2))
    steps = record_steps(schedule.timeline)
    assert [step["in_transaction"] for step in steps] == [[], [], [2], [], [1], []]


HOSTILE = "it's, hits = 7, (x) VALUES (y) WHERE id = 2"


def step(sql: str, params: Any = None, **more: Any) -> Step:
    return Step(1, 1, sql.split()[0], sql, params, "file.py", 1, "f", 1, **more)


def test_a_select_reads() -> None:
    found = read_columns(
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
    found = read_columns(step(sql, params))
    assert found["wrote"] == {"url": HOSTILE, "n": "3", "gone": None}
    assert found["condition"] == {"id": "9"}


def test_an_insert_writes_and_a_commit_does_not() -> None:
    now = datetime(2022, 4, 29, tzinfo=UTC)
    sql = "INSERT INTO t (a, b, c, d) VALUES (%s, coalesce(%s, 1), %s, DEFAULT) RETURNING id"
    found = read_columns(step(sql, (HOSTILE, 5, now), columns=("id",), rows=((4,),)))
    assert found["wrote"] == {"a": HOSTILE, "c": "2022-04-29 00:00:00+00:00"}
    assert found["read"] == [{"id": "4"}]
    assert read_columns(step("INSERT INTO t DEFAULT VALUES"))["wrote"] == {}
    assert read_columns(step("INSERT INTO t (a, b) SELECT 1, c FROM u"))["wrote"] == {"a": "1"}
    assert [value for value in read_columns(step("COMMIT")).values() if value] == ["COMMIT"]


def test_a_with_has_the_kind_and_the_tables_of_its_write() -> None:
    link = "WITH link AS (SELECT id FROM links WHERE key = %s)"
    found = read_columns(
        step(f"{link}, counted AS (INSERT INTO counts AS c (link, n) SELECT id, 1 FROM link)"
             " SELECT id FROM link", ("a",))
    )  # fmt: skip
    assert (found["kind"], found["table"], found["tables"]) == ("INSERT", "counts", ["links"])
    assert (found["condition"], found["wrote"]) == ({"key": "a"}, {"n": "1"})
    assert found["subquery"]
    found = read_columns(step(f"{link} UPDATE t SET n = 1 FROM link", ("a",)))
    assert (found["kind"], found["table"], found["tables"]) == ("UPDATE", "t", ["links"])
    two = "WITH one AS (UPDATE t SET n = 2), two AS (INSERT INTO u (a) VALUES (1)) SELECT 1"
    assert (read_columns(step(two))["kind"], read_columns(step(two))["writes"]) == (
        "UPDATE",
        ["t", "u"],
    )
    assert read_columns(step(f"{link} SELECT id FROM link", ("a",)))["kind"] == "SELECT"
    total = "SELECT id, (SELECT sum(n) FROM counts) AS n FROM links JOIN t ON true"
    found = read_columns(step(total))
    assert (found["table"], found["tables"]) == ("links", ["links", "t", "counts"])


def test_an_expression_is_kept_as_its_text() -> None:
    found = read_columns(step('UPDATE "t" SET "n" = ("t"."n" + %s), x = %s WHERE id = 9', (1, "y")))
    assert (found["computed"], found["wrote"]) == ({"n": "n + 1"}, {"x": "y"})
    upsert = "INSERT INTO t (a) VALUES (%s) ON CONFLICT (a) DO UPDATE SET n = t.n + 1"
    assert read_columns(step(upsert, (HOSTILE,)))["computed"] == {"n": "n + 1"}


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
    found = read_columns(step(sql, ("FOR UPDATE",)))
    assert (found["lock"], found["lock_name"]) == (lock, name)
