"""Programs that fail in real threads or between processes, and in no schedule.

The result does not call them proven, or it names a limit.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection

from pginterleave import Outcome
from pginterleave.sql.timeouts import find_timeouts_set

from . import counter
from .counter import explore_all, hits, parameters, sql, transact

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE interleave_item (v int);
    CREATE TABLE interleave_total (id int PRIMARY KEY, v int)
"""


def setup() -> None:
    counter.setup()
    sql("DELETE FROM interleave_item; DELETE FROM interleave_total")
    sql("INSERT INTO interleave_total VALUES (1, 0), (2, 0)")


ITEM = "INSERT INTO interleave_item VALUES (1)"
ADD_UP = "UPDATE interleave_total SET v = (SELECT sum(v) FROM interleave_item) WHERE id = 1"
GAP = "what others commit between the snapshot of one statement and its locks: "


def test_a_statement_that_reads_before_it_locks_is_named() -> None:
    def insert_and_add_up() -> None:
        sql(ITEM)
        sql(ADD_UP)

    def added_up(outcomes: list[Outcome]) -> str:
        ((total, items),) = sql(
            "SELECT v, (SELECT sum(v) FROM interleave_item) FROM interleave_total WHERE id = 1"
        )
        return "" if total == items else f"total {total} of {items}"

    found = explore_all(insert_and_add_up, insert_and_add_up, setup=setup, invariant=added_up)
    assert found.violating == 0
    assert found.limits == (GAP + "UPDATE interleave_total SET v = (SELECT sum(v) FROM interle…",)


@pytest.mark.parametrize(
    ("statement", "processes", "named"),
    [
        # With two processes, the other transaction is in progress at the snapshot or it is not.
        (ADD_UP, 2, False),
        (ADD_UP, 3, True),
        # One row, which does not depend on other rows.
        ("UPDATE interleave_total SET v = v + 1 WHERE id = 1", 3, False),
        ("UPDATE interleave_total SET v = v + 1 WHERE v = 0", 3, True),
        ("SELECT v FROM interleave_total WHERE v = 0 LIMIT 1 FOR UPDATE", 3, True),
        ("INSERT INTO interleave_total SELECT 3, 0 ON CONFLICT (id) DO NOTHING", 3, False),
        # Each other way to name the table that it reads or locks.
        (ADD_UP.replace("FROM", "FROM (SELECT) AS nothing,"), 3, True),
        (ADD_UP.replace("FROM ", "FROM public."), 3, True),
        (
            "UPDATE interleave_total SET v = 1 WHERE id = 1 AND 2 NOT IN (TABLE interleave_item)",
            3,
            True,
        ),
        ("UPDATE public.interleave_total SET v = v + 1 WHERE v = 0", 3, True),
    ],
)
def test_the_gap_is_named_only_if_it_matters(statement: str, processes: int, named: bool) -> None:
    adds = [transact(ITEM, statement)] * processes
    found = explore_all(*adds, setup=setup, reduce=True, max_schedules=10)
    assert any(each.startswith(GAP) for each in found.limits) is named


def test_a_safe_result_names_python_between_two_statements() -> None:
    line = "What Python does between two statements is not interleaved"
    assert line in str(explore_all(hits, hits))
    assert line not in str(explore_all(hits, hits, max_schedules=1))


def connect_elsewhere() -> Any:
    driver: Any = connection
    return driver.Database.connect(**parameters() | {"dbname": "postgres"})


def test_a_connection_that_is_idle_sends_nothing() -> None:
    with closing(connect_elsewhere()) as other:
        other.cursor().execute("SELECT 1")
        other.rollback()
        found = explore_all(hits, hits)
    assert found.unobserved == ()


@pytest.mark.parametrize("closes", [False, True])
def test_a_connection_that_was_opened_before_to_another_database_is_noticed(closes: bool) -> None:
    """As in a pool or a kept thread; the schedule closes it or not."""
    with closing(connect_elsewhere()) as other:

        def process() -> None:
            hits()
            if not other.closed:
                other.cursor().execute("SELECT 1")
                other.rollback()
                if closes:
                    other.close()

        found = explore_all(process, hits)
    assert len(found.unobserved) == 1, found.unobserved
    ended = "a session of another connection, which has ended"
    assert (found.unobserved[0] == ended) is closes
    assert not found.complete


def test_a_connection_that_is_not_used_is_no_limit() -> None:
    with closing(connect_elsewhere()):
        explore_all(hits, hits).assert_safe()


@pytest.mark.parametrize("name", ["lock_timeout", "statement_timeout"])
def test_a_timeout_that_the_code_sets_is_named(name: str) -> None:
    """In threads 16 of 20 times the other holds the row for longer."""
    update = "UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1"

    def passes_over() -> None:
        with suppress(OperationalError):
            transact(f"SET LOCAL {name} = '5s'", update)()

    limit = f"when {name} ends a statement or a session, which the code sets"
    assert limit in explore_all(passes_over, transact(update)).limits


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SET LOCAL lock_timeout = '50ms'", ("lock_timeout",)),
        ("SELECT 1; set session statement_timeout to 7", ("statement_timeout",)),
        ("SELECT set_config('idle_session_timeout', '9', true)", ("idle_session_timeout",)),
        ("SET transaction_timeout = 9", ("transaction_timeout",)),
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
    assert find_timeouts_set(text) == names


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
def test_memory_of_the_project_is_named(
    name: str, remember: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads share it, and the processes of a server do not."""
    monkeypatch.setenv("SAFE", "")

    def remembers() -> None:
        sql("SELECT 1")
        remember()

    place = name if "environ" in name else f"{__name__}.{name}"
    assert explore_all(remembers, remembers).limits == (
        f"the memory of {place}, which the processes of a server do not share",
    )
    assert explore_all(*[partial(sql, "SELECT 1")] * 2).limits == ()


def test_memory_in_a_closure_is_named_also_beside_a_name_without_a_value() -> None:
    kept: list[int] = []

    def remembers() -> None:
        sql("SELECT 1")
        kept.append(1)
        if len(kept) > 1_000:
            made_later()

    limits = explore_all(remembers, remembers).limits
    assert limits == ("the memory of kept, which the processes of a server do not share",)

    def made_later() -> None:
        pass


class Anything:
    """Has every attribute: also a `__dict__`, which is none."""

    __slots__ = ()

    def __getattr__(self, name: str) -> None:
        return None


def _make_holders() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield functions that hold a list, each with the name of the way to it."""

    def count(numbers: list[int] = []) -> None:  # noqa: B006
        numbers.append(sql("SELECT 1")[0][0])

    yield "numbers", count
    anything, fake = Anything(), Mock(spec=count)  # which isinstance() takes for a function

    def calls_another() -> None:
        if anything and fake:
            count()

    yield "count.numbers", calls_another
    yield "argument 1", partial(count, [1])
    append = list[int]().append
    yield "append", lambda: append(sql("SELECT 1")[0][0])


@pytest.mark.parametrize(("name", "remembers"), [*_make_holders()])
def test_memory_that_a_function_holds_is_named(name: str, remembers: Callable[[], object]) -> None:
    assert explore_all(remembers, remembers).limits == (
        f"the memory of {name}, which the processes of a server do not share",
    )
