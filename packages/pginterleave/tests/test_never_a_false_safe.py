"""Programs that break in threads or between processes: each is violated, or has a limit.

In how many of how many tries each broke in threads stands beside it.
"""

import functools
import os
from collections.abc import Callable, Iterator
from functools import partial
from io import StringIO
from typing import Any, ClassVar

import pytest
from django.db import OperationalError, connection, transaction

from pginterleave.sql.timeouts import timeouts_set

from .counter import Counter, explored, sql

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE safe_range (r int4range, EXCLUDE USING gist (r WITH &&));
    CREATE TABLE safe_later (n int UNIQUE DEFERRABLE INITIALLY IMMEDIATE);
    CREATE TABLE safe_parent (id int PRIMARY KEY);
    CREATE TABLE safe_child (
        id serial PRIMARY KEY, parent int REFERENCES safe_parent ON UPDATE CASCADE);
    CREATE TABLE safe_key (n int PRIMARY KEY);
    CREATE VIEW safe_view AS
        SELECT safe_key.n FROM safe_key JOIN interleave_counter ON n = interleave_counter.id;
    CREATE TABLE safe_whole (n int) PARTITION BY LIST (n);
    CREATE TABLE safe_part1 PARTITION OF safe_whole FOR VALUES IN (1);
    CREATE TABLE safe_part2 PARTITION OF safe_whole FOR VALUES IN (2)
"""
NAMES = "safe_range, safe_later, safe_child, safe_parent, safe_key, safe_whole"


@pytest.fixture
def tables(counter_table: None) -> Iterator[None]:
    sql(f"DROP TABLE IF EXISTS {NAMES} CASCADE")
    sql(TABLES)
    yield
    sql(f"DROP TABLE {NAMES} CASCADE")


def setup() -> None:
    sql("DELETE FROM safe_range; DELETE FROM safe_later; DELETE FROM safe_child")
    sql("DELETE FROM safe_parent; DELETE FROM safe_key; DELETE FROM interleave_counter")
    sql("INSERT INTO safe_parent VALUES (1), (9); INSERT INTO safe_child (parent) VALUES (1), (1)")
    sql("INSERT INTO interleave_counter VALUES (1, 'a', 0), (2, 'b', 0)")


def together(*statements: str) -> Callable[[], None]:
    def run() -> None:
        with transaction.atomic():
            for each in statements:
                sql(each)

    return run


def limits(*processes: Callable[[], object], **options: Any) -> tuple[str, ...]:
    return explored(*processes, setup=setup, **options).limits


ADVISORY = "SELECT pg_advisory_xact_lock(g) FROM generate_series({}) AS g"
ORDER = "in which order one statement locks "


@pytest.mark.parametrize(
    ("one", "two", "limit"),
    [
        (  # 92 of 10,059
            "INSERT INTO safe_range VALUES ('[1,5)')",
            "INSERT INTO safe_range VALUES ('[3,9)')",
            "which of two statements is first in safe_range, whose constraint is checked after",
        ),
        (
            "INSERT INTO safe_later VALUES (1)",
            "INSERT INTO safe_later VALUES (1)",
            "which of two statements is first in safe_later, whose constraint is checked after",
        ),
        (  # 65 of 90
            "UPDATE safe_parent SET id = 2 WHERE id = 1",
            "SELECT 1 FROM safe_child WHERE parent = 1 ORDER BY id DESC FOR UPDATE",
            f"{ORDER}several rows of safe_child",
        ),
        # 22 of 216, with 40 tables
        (
            "LOCK TABLE safe_key, safe_range",
            "LOCK TABLE safe_range, safe_key",
            f"{ORDER}rows of safe_key and safe_range",
        ),
        # 11 of 193
        (ADVISORY.format("1, 4"), ADVISORY.format("4, 1, -1"), f"{ORDER}several advisory locks"),
        (
            "SELECT count(*) FROM (SELECT pg_advisory_lock(n) FROM safe_key) AS taken",
            ADVISORY.format("4, 1, -1"),
            f"{ORDER}several advisory locks",
        ),
        (
            "SELECT pg_advisory_xact_lock(1), pg_advisory_xact_lock(2)",
            "SELECT pg_advisory_xact_lock(2), pg_advisory_xact_lock(1)",
            f"{ORDER}several advisory locks",
        ),
        (
            'SELECT array_agg("pg_advisory_xact_lock"(id)::text) FROM interleave_counter',
            "SELECT 1 FROM interleave_counter WHERE pg_advisory_xact_lock(3 - id)::text = 'x'",
            f"{ORDER}several advisory locks",
        ),
        (
            "LOCK TABLE safe_view",
            "LOCK TABLE interleave_counter, safe_key",
            f"{ORDER}rows of interleave_counter and safe_key",
        ),
        (
            "LOCK TABLE safe_whole",
            "LOCK TABLE safe_part2, safe_part1",
            f"{ORDER}rows of safe_part1 and safe_part2",
        ),
        # 10 of 200
        (
            "TRUNCATE safe_key, safe_range",
            "TRUNCATE safe_range, safe_key",
            f"{ORDER}rows of safe_key and safe_range",
        ),
        (
            "TRUNCATE safe_parent CASCADE",
            "DELETE FROM safe_child",
            f"{ORDER}several rows of safe_child",
        ),
    ],
)
def test_a_statement_that_takes_several_locks(one: str, two: str, limit: str) -> None:
    found = limits(together(one), together(two))
    assert any(each.startswith(limit) for each in found), found


def test_one_lock_a_statement_is_no_limit() -> None:
    advisory = "SELECT pg_advisory_xact_lock(1)"
    assert not limits(*[together(advisory, "INSERT INTO safe_key VALUES (1)")] * 2)
    assert not limits(together("LOCK TABLE safe_key"), together("TRUNCATE safe_key"))


def test_rows_that_another_statement_locks_in_the_order_of_their_places() -> None:
    """That differs from database to database, unless ORDER BY decides."""

    def adds(*ids: int) -> None:
        with transaction.atomic():
            for each in ids:
                row = Counter.objects.select_for_update().get(key=" ab"[each])
                row.hits += 1
                row.save()

    every = together("UPDATE interleave_counter SET hits = hits + 1")
    limit = f"{ORDER}several rows of interleave_counter"
    assert limit in limits(partial(adds, 1, 2), every)
    assert limit not in limits(partial(adds, 1), every)
    in_order = together("SELECT 1 FROM interleave_counter ORDER BY id FOR UPDATE")
    assert limit not in limits(partial(adds, 1, 2), in_order)


def test_copy() -> None:
    """4 of 197, with 40 keys."""

    def copies(*keys: int) -> None:
        text = "".join(f"{key}\n" for key in keys)
        with transaction.atomic(), connection.cursor() as cursor:
            if hasattr(cursor.cursor, "copy_expert"):
                cursor.copy_expert("COPY safe_key FROM STDIN", StringIO(text))
            else:
                with cursor.copy("COPY safe_key FROM STDIN") as copy:
                    copy.write(text)

    assert f"{ORDER}several rows of safe_key" in limits(
        partial(copies, 1, 2), partial(copies, 2, 1)
    )


@pytest.mark.parametrize("name", ["lock_timeout", "statement_timeout"])
def test_a_timeout_that_the_code_sets(name: str) -> None:
    """16 of 20: the other holds the row for longer."""
    update = "UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1"

    def passes_over() -> None:
        try:
            together(f"SET LOCAL {name} = '5s'", update)()
        except OperationalError:
            return

    limit = f"when {name} ends a statement or a session, which the code sets"
    assert limit in limits(passes_over, together(update))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SET LOCAL lock_timeout = '50ms'", ("lock_timeout",)),
        ("SELECT 1; set session statement_timeout to 7", ("statement_timeout",)),
        ("SELECT set_config('idle_session_timeout', '9', true)", ("idle_session_timeout",)),
        ("SELECT set_config(%s, %s, true) ['lock_timeout', '2s']", ("lock_timeout",)),
        ("SELECT set_config('lock' || '_timeout', '2s', true)", ("a setting",)),
        ("UPDATE pg_settings SET setting = 1 WHERE name = 'lock_timeout'", ("lock_timeout",)),
        ("SET /* now */ LOCAL \"lock_timeout\" TO '2s'", ("lock_timeout",)),
        ("SELECT set_config('lock_timeout', '0', true), set_config(%s, 'x', true)", ()),
        ("SET lock_timeout = 0", ()),
        ("SET lock_timeout TO DEFAULT", ()),
        ("SHOW lock_timeout", ()),
    ],
)
def test_which_statements_set_a_timeout(text: str, names: tuple[str, ...]) -> None:
    assert timeouts_set(text) == names


def test_a_cache_in_memory() -> None:
    """Between processes always stale: the other's cache_clear() does not reach this one's."""

    @functools.lru_cache
    def hits() -> int:
        return Counter.objects.get(key="a").hits

    @functools.lru_cache
    def not_used() -> int:
        return 1

    def writes() -> None:
        sql("UPDATE interleave_counter SET hits = 1 WHERE id = 1")
        hits.cache_clear()

    def set_up() -> None:
        setup()
        hits.cache_clear()

    def reads() -> int:
        sql("SELECT 1")
        return hits()

    (limit,) = explored(reads, writes, setup=set_up).limits
    assert limit.startswith(
        "the cache of test_a_cache_in_memory.<locals>.hits, which the processes"
    )


DICTIONARY: dict[str, int] = {}
GLOBAL = 0


class Memory:
    known: ClassVar[list[int]] = []


def _once(default: list[int] = []) -> None:  # noqa: B006
    default.append(1)


def _in_a_global() -> None:
    global GLOBAL
    GLOBAL += 1


@pytest.mark.parametrize(
    ("name", "remember"),
    [
        ("DICTIONARY", lambda: DICTIONARY.update(a=len(DICTIONARY))),
        ("GLOBAL", _in_a_global),
        ("Memory.known", lambda: Memory.known.append(1)),
        ("_once.__defaults__", _once),
        ("os.environ", lambda: os.environ.update(SAFE=os.environ.get("SAFE", "") + "1")),
    ],
)
def test_memory_of_the_project(
    name: str, remember: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads share it, and the processes of a server do not."""
    monkeypatch.setenv("SAFE", "")

    def remembers() -> None:
        sql("SELECT 1")
        remember()

    place = name if "environ" in name else f"{__name__}.{name}"
    assert limits(remembers, remembers) == (
        f"the memory of {place}, which the processes of a server do not share",
    )
    assert limits(*[lambda: sql("SELECT 1")] * 2) == ()


@pytest.mark.parametrize(
    "statements",
    [
        ("LOCK TABLE safe_key IN SHARE MODE", "INSERT INTO safe_key VALUES ({})"),
        ("SELECT count(*) FROM safe_key", "ALTER TABLE safe_key ADD COLUMN IF NOT EXISTS c{} int"),
    ],
)
def test_an_upgrade_of_a_lock(statements: tuple[str, ...]) -> None:
    """Who closes the cycle is refused at once: no other process can be the victim."""
    one, two = (together(*(each.format(number) for each in statements)) for number in (1, 2))
    found = explored(one, two, setup=setup, expected=())
    assert found.complete
    assert found.raising == found.violating > 0
    assert not any(letter in order for order in found.orders for letter in "ab")
    for schedule in found.violations:
        assert {type(each.raised) for each in schedule.outcomes} == {type(None), OperationalError}


def test_an_upgrade_of_a_lock_beside_another_deadlock() -> None:
    """Elsewhere in the same search each process may be the victim."""
    rows = ("SELECT 1 FROM interleave_counter WHERE id = {} FOR UPDATE",) * 2
    one = together(rows[0].format(1), rows[1].format(2), "LOCK TABLE safe_key IN SHARE MODE")
    two = together(rows[0].format(2), rows[1].format(1), "LOCK TABLE safe_key IN SHARE MODE")
    found = explored(one, two, setup=setup)
    assert found.complete
    assert any("a" in order for order in found.orders)
