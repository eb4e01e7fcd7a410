"""What is recorded of the steps of a schedule, for its picture."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction

from pginterleave import Step
from pginterleave.picture import history
from pginterleave.picture.recorded import read_columns, record_steps

from .counter import expect_hits, naive, replay, select_for_update, sql, update_returning

pytestmark = pytest.mark.usefixtures("counter_table")


def test_the_picture_knows_transactions_locks_and_waits() -> None:
    """The sessions are not observed after each step."""
    schedule = replay("121122", select_for_update, select_for_update)
    steps = record_steps(schedule.timeline)
    assert [step["in_transaction"] for step in steps] == [[1], [1, 2], [1, 2], [2], [2], []]
    assert history.find_transactions(steps) == [(1, 1, 4, "COMMIT"), (2, 2, 6, "COMMIT")]
    locks = [(lock.process, lock.first, lock.last, lock.mode) for lock in history.find_locks(steps)]
    assert locks == [(1, 1, 4, "FOR UPDATE"), (2, 4, 6, "FOR UPDATE")]
    assert [(wait.first, wait.last) for wait in history.find_waits(steps)] == [(2, 4)]


def test_a_single_statement_is_in_a_transaction_until_its_commit() -> None:
    schedule = replay("122211", naive, naive, invariant=expect_hits(2))
    steps = record_steps(schedule.timeline)
    assert [step["in_transaction"] for step in steps] == [[], [], [2], [], [1], []]


def test_the_rollback_to_a_savepoint_undoes_only_the_writes_after_it() -> None:
    def write_twice() -> None:
        with transaction.atomic():
            update_returning()
            with suppress(ZeroDivisionError), transaction.atomic():
                sql("UPDATE interleave_counter SET hits = 5 WHERE key = 'b'")
                raise ZeroDivisionError

    steps = record_steps(replay("1" * 6, write_twice).timeline)
    kinds = ["UPDATE", "SAVEPOINT", "UPDATE", "ROLLBACK TO", "RELEASE", "COMMIT"]
    assert [step["kind"] for step in steps] == kinds
    assert [step["number"] for step in history.History(steps).committed_writes()] == [1]


HOSTILE = "it's, hits = 7, (x) VALUES (y) WHERE id = 2"
UPDATED = {"wrote": {"url": HOSTILE, "n": "3", "gone": None}, "condition": {"id": "9"}}
LINK = "WITH link AS (SELECT id FROM links WHERE key = %s)"
COUNTED = "counted AS (INSERT INTO counts AS c (link, n) SELECT id, 1 FROM link)"


def read_values(sql: str, params: Any = None, **more: Any) -> dict[str, Any]:
    step = Step(1, 1, sql.split()[0], sql, params, "file.py", 1, "f", 1, **more)
    return dict(read_columns(step))


def test_a_select_reads() -> None:
    select = 'SELECT "t"."id", "t"."url", "t"."gone" FROM "t" WHERE "t"."key" = %s LIMIT 21'
    rows = ((1, HOSTILE, None), (2, "", None))
    values = read_values(select, ("a",), columns=("id", "url", "gone"), rows=rows)
    assert (values["table"], values["condition"], values["wrote"]) == ("t", {"key": "a"}, {})
    assert values["read"] == [
        {"id": "1", "url": HOSTILE, "gone": None},
        {"id": "2", "url": "", "gone": None},
    ]


def test_a_returning_reads() -> None:
    insert = "INSERT INTO t (a) VALUES (1) RETURNING id"
    assert read_values(insert, columns=("id",), rows=((4,),))["read"] == [{"id": "4"}]


@pytest.mark.parametrize(
    ("sql", "params", "expected"),
    [
        ("UPDATE t SET url = %s, n = 3, gone = NULL, hits = (t.hits + %s) WHERE t.id = %s",
         (HOSTILE, 1, 9), UPDATED),
        ("UPDATE t SET url = %(u)s, n = %(n)s, gone = NULL, hits = %(n)s + 1 WHERE id = %(id)s",
         {"u": HOSTILE, "n": 3, "id": 9}, UPDATED),
        ("UPDATE t SET url = 'it''s, hits = 7, (x) VALUES (y) WHERE id = 2', n = '3', gone = NULL"
         " WHERE id = 9 RETURNING id = 8", None, UPDATED),
        ('UPDATE "t" SET "n" = ("t"."n" + %s), x = %s WHERE id = 9', (1, "y"),
         {"computed": {"n": "n + 1"}, "wrote": {"x": "y"}}),
        ("INSERT INTO t (a, b, c, d) VALUES (%s, coalesce(%s, 1), %s, DEFAULT) RETURNING id",
         (HOSTILE, 5, datetime(2022, 4, 29, tzinfo=UTC)),
         {"wrote": {"a": HOSTILE, "c": "2022-04-29 00:00:00+00:00"}}),
        ("INSERT INTO t (a) VALUES (%s) ON CONFLICT (a) DO UPDATE SET n = t.n + 1", (HOSTILE,),
         {"computed": {"n": "n + 1"}}),
        ("INSERT INTO t DEFAULT VALUES", None, {"wrote": {}}),
        ("COMMIT", None, {"kind": "COMMIT", "table": "", "writes": [], "condition": {}, "wrote": {},
                          "computed": {}, "read": [], "lock": ""}),
        ("INSERT INTO t (a, b) SELECT 1, c FROM u", None, {"wrote": {"a": "1"}}),
        (f"{LINK}, {COUNTED} SELECT id FROM link", ("a",),
         {"kind": "INSERT", "table": "counts", "tables": ["links"], "condition": {"key": "a"},
          "wrote": {"n": "1"}, "subquery": True}),
        (f"{LINK} UPDATE t SET n = 1 FROM link", ("a",),
         {"kind": "UPDATE", "table": "t", "tables": ["links"]}),
        ("WITH one AS (UPDATE t SET n = 2), two AS (INSERT INTO u (a) VALUES (1)) SELECT 1", None,
         {"kind": "UPDATE", "writes": ["t", "u"]}),
        (f"{LINK} SELECT id FROM link", ("a",), {"kind": "SELECT"}),
        ("SELECT id, (SELECT sum(n) FROM counts) AS n FROM links JOIN t ON true", None,
         {"table": "links", "tables": ["links", "t", "counts"]}),
    ],
)  # fmt: skip
def test_what_a_statement_writes(sql: str, params: Any, expected: dict[str, Any]) -> None:
    values = read_values(sql, params)
    assert {name: values[name] for name in expected} == expected


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
    values = read_values(sql, ("FOR UPDATE",))
    assert (values["lock"], values["lock_name"]) == (lock, name)
