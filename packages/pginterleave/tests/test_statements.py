"""Facts from the text of a statement: its COMMIT, its effect, and how it is shown."""

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import Jsonb

from pginterleave import Step, formatting
from pginterleave.formatting import format_place, format_processes
from pginterleave.processes.clocks import ClockReads
from pginterleave.processes.race_coverage import find_written_tables
from pginterleave.sql import catalogue_queries, statements
from pginterleave.sql.pg_catalog import Catalogue
from pginterleave.sql.single_row import parse_simple_statement

SEPARATE = [
    "GRANT SELECT ON t TO PUBLIC",
    "REFRESH MATERIALIZED VIEW v",
    "EXPLAIN (ANALYZE) INSERT INTO t VALUES (1)",
    "EXPLAIN ANALYZE EXECUTE prepared",
    "EXPLAIN ANALYSE CREATE TABLE t AS SELECT 1",
    "EXPLAIN (COSTS, ANALYZE) REFRESH MATERIALIZED VIEW v",
    "UPDATE subscription SET system = 1",
    "IMPORT FOREIGN SCHEMA a FROM SERVER b INTO c",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "COPY (UPDATE t SET a = 1 RETURNING a) TO STDOUT",
    "WITH gone AS (DELETE FROM t RETURNING a) SELECT a FROM gone",
    "SELECT a INTO u FROM t",
    "SELECT a FROM t FOR SHARE",
    "COPY t FROM STDIN",
    "SELECT pg_advisory_xact_lock(1)",
    "ANALYZE t",
    "UPDATE t SET a = 'b; c'",
    "UPDATE t SET a = 1; -- done",
    "/* ; */ UPDATE t SET a = 1",
]
UNSEEN = [
    "CREATE INDEX CONCURRENTLY i ON t (a)",
    "VACUUM t",
    "REINDEX TABLE t",
    "CLUSTER",
    "UPDATE t SET a = 1; SELECT 1",
]
# They write nothing, or are errors outside a transaction.
NEITHER = [
    "SELECT 'CONCURRENTLY'",
    "NOTIFY a",
    "LOCK TABLE t",
    "COPY t TO STDOUT",
    "SELECT pg_advisory_lock(1)",
    "EXPLAIN SELECT 1",
    "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1",
]


@pytest.mark.parametrize("sql", [*SEPARATE, *UNSEEN, *NEITHER])
def test_whether_the_commit_of_a_statement_is_a_separate_step(sql: str) -> None:
    assert statements.has_separate_commit(sql) == (sql in SEPARATE)
    assert statements.has_unseen_commit(sql, single=True) == (sql in UNSEEN)


def test_an_operator_that_calls_a_function() -> None:
    special = frozenset({"+!"})
    assert not statements.is_plain_select("SELECT a +! 1 FROM t", special)
    assert statements.has_separate_commit("SELECT a +! 1 FROM t", special)
    assert statements.is_plain_select("SELECT a + 1, '+!' FROM t", special)


def test_an_apostrophe_in_a_name_begins_no_string() -> None:
    called = """SELECT hits AS "link's hits", add_once(7) AS "owner's turn" FROM link"""
    assert statements.find_called_names(called) == {"add_once"}
    assert statements.has_separate_commit(called)
    locking = """SELECT "it's" FROM t WHERE id = 1 FOR UPDATE -- it's"""
    assert not statements.is_plain_select(locking)
    assert statements.has_separate_commit(locking)
    assert statements.find_locked_tables(locking) == {"t"}
    assert statements.is_plain_select("""SELECT "it's", 'add_once(7)' FROM t""")


CALLS = [
    "SELECT 1 /* a /* b */ ' */, add_once(8) -- '",
    "SELECT 1 /* a /* b /* c */ */ ' */, add_once(8) /* ' */",
    "SELECT 1 -- ' \r, add_once(8) -- '",
    r"SELECT name'\', add_once(8), ' '",
    "SELECT a$b$ + add_once(8) + c$b$ FROM t",
]
NO_CALLS = [
    "SELECT 1 /* add_once(8) /* */ ' add_once(8) */ FROM t",
    "/* one /* two */ */ SELECT '/*' FROM t WHERE name <> '*/ add_once(8)'",
    r"SELECT E'\', add_once(8), '",
    "SELECT $b$ + add_once(8) + $b$ FROM t",
    "SELECT 1 -- /* add_once(8)",
]


@pytest.mark.parametrize("sql", [*CALLS, *NO_CALLS])
def test_a_call_in_a_string_or_a_comment_is_none(sql: str) -> None:
    """What only seems to be in a string or a comment is a call."""
    assert statements.find_kind(sql) == "SELECT"
    assert statements.find_called_names(sql) == ({"add_once"} if sql in CALLS else set())
    assert sql in NO_CALLS or not statements.is_plain_select(sql)
    assert sql in NO_CALLS or statements.has_separate_commit(sql)


READS_OF_THE_CLOCK = [
    "SELECT 'now'::timestamptz",
    "SELECT timestamp 'Tomorrow 9:00'",
    r"SELECT E'\tnow'::timestamptz",
    r"SELECT e'\156ow'::timestamptz",
    "SELECT now()",
    "SELECT CURRENT_TIMESTAMP",
    "SELECT LOCALTIME",
    "SELECT localtimestamp, hits FROM t",
    "SELECT clock_timestamp()",
    "SELECT clock_timestamp() > until FROM t",
    "SELECT 1 FROM t WHERE until > clock_timestamp() - age",
    "SELECT 1 FROM t WHERE until > (clock_timestamp()) - age",
    "SELECT a -> clock_timestamp() FROM t",
    "SELECT a >> clock_timestamp() FROM t",
    "SELECT until > clock_timestamp() OR id = add_once(8) FROM t",
    "SELECT ' > clock_timestamp() ', clock_timestamp() FROM t",
    "SELECT 1 FROM t WHERE until > clock_timestamp() FOR UPDATE",
    "SELECT until > clock_timestamp(), clock_timestamp() FROM t",
]
PLAIN_READS = [
    "SELECT hits, 'unknown' FROM t",
    "SELECT 1 FROM t WHERE until > clock_timestamp()",
    "SELECT 1 FROM t WHERE (until IS NULL OR until > (CLOCK_TIMESTAMP())) LIMIT 21",
    "SELECT CASE WHEN until <= statement_timestamp() THEN 1 END FROM t",
]


@pytest.mark.parametrize("sql", [*READS_OF_THE_CLOCK, *PLAIN_READS])
def test_a_comparison_with_the_clock_is_a_plain_read_and_any_other_use_is_none(sql: str) -> None:
    assert statements.is_plain_select(sql) == (sql in PLAIN_READS)


@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT {name} FROM t" for name in ["xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"]),
        "SELECT 1 FROM pg_locks",
        "SELECT 1 FROM information_schema.tables",
        "SELECT 1 INTO u FROM t",
        "SELECT 1 FROM t FOR KEY SHARE",
        "SELECT nextval('s') FROM t",
        "SELECT public.lower(n) FROM t",
        "SELECT \"setval\"('s', 1)",
        "WITH u AS (DELETE FROM t RETURNING n) SELECT n FROM u",
        "SHOW transaction_isolation",
        "EXPLAIN ANALYZE DELETE FROM t",
    ],
)
def test_what_is_no_plain_read_in_whatever_capitals(sql: str) -> None:
    for text in (sql, sql.upper(), sql.lower(), sql.title()):
        assert not statements.is_plain_select(text)
    for text in ("SELECT lower(n)::text", 'Select Max("N")', "select sum(n) /* xmin */"):
        assert statements.is_plain_select(f"{text} FROM t")


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ('UPDATE ONLY public."A b" SET n = 1', "A b"),
        ("INSERT INTO t SELECT n FROM u ON CONFLICT DO NOTHING", "t"),
        ("DELETE FROM t USING u WHERE t.id = u.id", "t"),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE", "t"),
        ("MERGE INTO t USING u ON true WHEN MATCHED THEN UPDATE SET n = 1", "t"),
        ("TRUNCATE t, u", "t, u"),
        ("LOCK TABLE t", "t"),
        ("DROP TABLE IF EXISTS t", "t"),
        ("COPY t FROM STDIN", "t"),
        ("COPY t TO STDOUT", ""),
        ("WITH u AS (DELETE FROM t RETURNING n) INSERT INTO v SELECT n FROM u", "t, v"),
        ("SELECT n FROM t JOIN u ON true FOR NO KEY UPDATE", "t, u"),
        ("SELECT n FROM t FOR KEY SHARE", "t"),
        ("WITH u AS (SELECT n FROM v) SELECT n FROM t, u FOR UPDATE", "t, v"),
        ("SELECT n FROM t WHERE n = 'FOR UPDATE' -- FOR UPDATE", ""),
    ],
)
def test_which_tables_a_statement_writes_or_locks(sql: str, tables: str) -> None:
    expected = set(filter(None, tables.split(", ")))
    assert find_written_tables(sql) == expected
    if '"' not in sql:
        assert find_written_tables(sql.lower()) == find_written_tables(sql.title()) == expected


def test_which_statements_write_rows_and_which_read_the_clock_of_a_transaction() -> None:
    """SELECT … FOR UPDATE fires no trigger, and clock_timestamp() is not the transaction's."""
    writing = "INSERT UPDATE Delete merge COPY truncate EXECUTE INTO"
    assert all(map(statements.may_write, writing.split()))
    assert not statements.may_write("SELECT 1 FROM t FOR NO KEY UPDATE")
    clocks = "now() Transaction_Timestamp() CURRENT_DATE current_time LOCALTIME localtimestamp"
    for clock in [*clocks.split(), "CURRENT_TIMESTAMP(0)", "'Today'"]:
        assert statements.has_transaction_clock(f"SELECT {clock}")
    assert not statements.has_transaction_clock("SELECT clock_timestamp(), 'known'")
    kinds = {"(select 1": "SELECT", "Rollback Work To a": "ROLLBACK TO", "ROLLBACK": "ROLLBACK"}
    assert {text: statements.find_kind(text) for text in kinds} == kinds


@pytest.mark.parametrize("text", ["now", " today", "\tnow", "\x0bnow", "\nyesterday 9:00"])
def test_a_parameter_that_is_read_as_a_time(text: str) -> None:
    assert statements.has_clock_text(f"{[text]}")
    assert not statements.has_clock_text(f"{['x' + text.strip()]}")


def test_a_name_of_several_words() -> None:
    names = {catalogue_queries.SPECIAL_NAMES: [("old orders", "relation", "")]}
    catalogue = Catalogue()
    catalogue.learn(lambda sql: names.get(sql, []))
    assert not statements.is_plain_select('SELECT 1 FROM "old orders"', catalogue.special_names)
    assert statements.is_plain_select("SELECT 1 FROM t", catalogue.special_names)


@pytest.mark.parametrize(
    ("sql", "params", "shown"),
    [
        ('SELECT "a"."b",\n  "c" FROM "a"', None, "SELECT b, c FROM a"),
        ("SELECT %s", ['He said "hi"  and "a"."b"'], """SELECT 'He said "hi"  and "a"."b"'"""),
        ("""SELECT  'a "b"  c', "d" """, None, """SELECT 'a "b"  c', d"""),
        ("SELECT  'it''s  \"one\"'", None, "SELECT 'it''s  \"one\"'"),
        (r"""SELECT E'\'  "x"'  ,  2""", None, r"""SELECT E'\'  "x"' , 2"""),
        ('DO $a$ "x"  $b$  $a$  "y"', None, 'DO $a$ "x"  $b$  $a$ y'),
        ("SELECT %(a)s, %(b)s", {"a": "x  y", "b": None}, "SELECT 'x  y', NULL"),
        ("SELECT a, b, c, d FROM t WHERE e = %s", ["SELECT a, b, c, d FROM t"],
         "SELECT … FROM t WHERE e = 'SELECT a, b, c, d FROM t'"),
        ("SELECT %s, %s", ["one"], "SELECT %s, %s"),
        ("", None, ""),
    ],
)  # fmt: skip
def test_values_are_not_changed(sql: str, params: Any, shown: str) -> None:
    assert formatting.format_statement(sql, params) == shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({"c", "d"}, "UPDATE t SET c = f(1, 'x WHERE y'), d = 2, … WHERE e = 1"),
        ({"a", "b", "c", "d"}, "all"),
        (set(), "UPDATE t SET … WHERE e = 1"),
    ],
)
def test_assignments_to_columns_that_do_not_change_are_cut(columns: set[str], shown: str) -> None:
    update = "UPDATE t SET a = 'it''s, one', b = NULL, c = f(1, 'x WHERE y'), d = 2 WHERE e = 1"
    assert formatting.cut_to_columns(update, columns) == shown.replace("all", update)
    few = "UPDATE t SET a = 1, b = 2"
    assert formatting.cut_to_columns(few, set()) == few


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT 1 FROM t WHERE (a IS NULL AND (b > f(2) OR b = 1) AND hits < (c) AND key = 'a') "
         "LIMIT 1", "SELECT 1 FROM t WHERE (hits < (c) AND key = 'a' AND …) LIMIT 1"),
        ("DELETE FROM t WHERE (a = ' AND (') AND b = 2 AND c = 3 AND (d = 4) RETURNING a, b, c, d",
         "DELETE FROM t WHERE b = 2 AND … RETURNING a, …"),
        ("UPDATE t SET a = 1 WHERE a = 1 OR b = 2 AND c = 3 AND d = 4", ""),
        ("UPDATE t SET a = 1 WHERE a BETWEEN 1 AND 2 AND b = 3 AND c = 4", ""),
        ("INSERT INTO t AS i (a, b, c, hits) VALUES ('(', f(1, 2), 3, 4), (5, 6, 7, 8) ON CONFLICT "
         "(a) DO UPDATE SET a = 1, b = 2, c = 3, hits = 4",
         "INSERT INTO t AS i (a, hits, …) VALUES ('(', 4, …), (5, 8, …) ON CONFLICT "
         "(a) DO UPDATE SET hits = 4, …"),
        ("INSERT INTO t (a, b, c, d) SELECT a, b, c, d FROM t", ""),
        ("INSERT INTO t DEFAULT VALUES", ""),
    ],
)  # fmt: skip
def test_long_statements_are_cut_to_the_key_and_what_changes(sql: str, shown: str) -> None:
    assert formatting.cut_to_columns(sql, {"hits"}) == (shown or sql)


@pytest.mark.parametrize(
    ("kind", "facts", "shown"),
    [
        ("UPDATE", {"rowcount": 0}, "→ 0 rows"),
        ("DELETE", {"rowcount": 1}, "→ 1 row"),
        ("MERGE", {"rowcount": 2}, "→ 2 rows"),
        ("INSERT", {"rowcount": -1}, ""),
        ("COMMIT", {"rowcount": 0}, ""),
        ("SELECT", {"rowcount": 0}, "→ 0 rows"),
        ("SELECT", {"rowcount": 1, "rows": ((1, None),)}, "→ id = 1, a = None"),
        ("SELECT", {"rowcount": 3, "rows": ((1, 2),)}, "→ id = 1, a = 2 (+2)"),
        ("FETCH", {"rows": ((1, 2), (2, 3))}, "→ id = 1, a = 2 (+1)"),
        ("SELECT", {"rows": ((1, 2, 3, 4),)}, "→ id = 1, hits = 4, …"),
        ("SELECT", {"rows": ((1, 2),), "error": "IntegrityError"}, "!! IntegrityError"),
    ],
)
def test_the_result_of_a_step_in_a_few_words(kind: str, facts: dict[str, Any], shown: str) -> None:
    columns = ("id", "a", "b", "hits")[: len(facts.get("rows", [()])[0])]
    step = Step(1, 1, kind, kind, None, "", 1, "f", 1, columns=columns, **facts)
    assert step.result({"hits"}) == shown


def test_processes_and_lines_in_words() -> None:
    assert format_processes([2]) == "process 2"
    assert format_processes([1, 3]) == "processes 1 and 3"
    places = {
        "/venv/lib/python3/site-packages/shop/a.py": "shop/a.py:7",
        "/elsewhere/a.py": "a.py:7",
        str(Path.cwd() / "shop" / "a.py"): "shop/a.py:7",
        "<string>": "<string>:7",
    }
    assert {path: format_place(path, 7) for path in places} == places


def test_an_exception_without_a_text() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise KeyError("text")

    assert formatting.format_exception(Odd()) == "Odd: (its str() raises KeyError)"
    assert formatting.format_exception(ValueError("two\nlines")) == "ValueError: two"


def test_a_limit_without_a_number_is_no_error() -> None:
    """PostgreSQL refuses the statement; the parser must not fail before."""
    simple = parse_simple_statement("SELECT 1 FROM t WHERE id = 1 FOR UPDATE LIMIT")
    assert simple
    assert not simple.has_only_equality


def test_a_semicolon_at_the_end_changes_nothing() -> None:
    text = "SELECT 1 FROM t WHERE id = 1"
    assert parse_simple_statement(f"{text};") == parse_simple_statement(text) is not None
    assert parse_simple_statement("") is None


def make_uuid7(now: float) -> uuid.UUID:
    return uuid.UUID(int=int(now * 1000) << 80 | 7 << 76 | 2 << 62)


@pytest.mark.parametrize(
    "write",
    [
        lambda now: now,
        Decimal,
        lambda now: int(now * 10**3),
        lambda now: int(now * 10**6),
        lambda now: int(now * 10**9),
        lambda now: str(int(now * 1000)),
        lambda now: f"at {now}",
        lambda now: datetime.fromtimestamp(now, UTC),
        lambda now: datetime.fromtimestamp(now),  # noqa: DTZ006
        lambda now: datetime.fromtimestamp(now, UTC).replace(tzinfo=None),
        lambda now: datetime.fromtimestamp(now, UTC).isoformat(),
        lambda now: f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S.%fZ}",
        make_uuid7,
        lambda now: f"id {make_uuid7(now)}",
        lambda now: ("a", [{"at": now}]),
        lambda now: Jsonb({"at": [now]}),
        lambda now: Jsonb(f"at {now}"),
    ],
)
def test_the_times_among_the_parameters_of_a_statement(write: Callable[[float], Any]) -> None:
    """A time that is still to come was not read from the clock."""
    now = time.time()
    returned = [(now - 2, ""), (now - 1, "SELECT 1"), (now + 1, "SELECT 2")]
    for seconds, params in ((0.0, lambda value: [value]), (90.0, lambda value: {"at": value})):
        reads = ClockReads()
        for process in (1, 2):
            statement = "UPDATE t SET n = 1 WHERE at < %s"
            reads.note_statement(process, statement, params(write(now + seconds)), returned)
        assert reads.is_read_after(1, "SELECT 1") is reads.is_read_after(2, "SELECT 1")
        assert reads.is_read_after(1, "SELECT 1") is (not seconds)
        assert not any(reads.is_read_after(1, sql) for sql in ("", "SELECT 2"))
        assert reads.list_limits() == []


@pytest.mark.parametrize(
    ("statement", "is_compared"),
    [
        ("UPDATE t SET at = %s WHERE id = %s", False),
        ("UPDATE t SET id = %s where at > %s", True),
        ("INSERT INTO t VALUES (%s, %s)", False),
    ],
)
def test_a_time_that_is_read_before_the_first_statement_matters_if_one_is_compared(
    statement: str, is_compared: bool
) -> None:
    reads, now = ClockReads(), time.time()
    for process in (1, 2):
        params = [1, now] if "at >" in statement else [now, 1]
        reads.note_statement(process, statement, params, [(now - 1, ""), (now + 1, "SELECT 1")])
        assert bool(reads.list_limits()) is (is_compared and process == 2)
