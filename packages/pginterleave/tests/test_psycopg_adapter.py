"""Plain connections of psycopg 3, and SQLAlchemy's ORM; Django makes the test database."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pginterleave import Exploration, InterleaveError, Outcome, Schedule, explore

psycopg = pytest.importorskip("psycopg")

from pginterleave.psycopg_adapter import PsycopgDatabase  # noqa: E402

from .counter import arguments, conninfo, violation_of  # noqa: E402


@pytest.fixture
def database(counter_table: None) -> Iterator[PsycopgDatabase]:
    database = PsycopgDatabase(conninfo())
    yield database
    database.close()


def explore_with(
    database: PsycopgDatabase, *processes: Callable[[], object], **options: Any
) -> Exploration:
    def setup() -> None:
        with database.connect(autocommit=True) as connection:
            connection.execute("DELETE FROM interleave_counter")
            connection.execute("INSERT INTO interleave_counter VALUES (1, 'a', 0)")

    def invariant(outcomes: list[Outcome]) -> str:
        with database.connect() as connection:
            (hits,) = connection.execute("SELECT hits FROM interleave_counter").fetchone()
        return "" if hits == len(outcomes) else f"hits = {hits}"

    race = {"setup": setup, "invariant": invariant, "expected": ()}
    return explore(processes, using=database, **arguments(**{**race, **options}))


UPDATE = "UPDATE interleave_counter SET hits = %s WHERE id = 1"


def make_counter(database: PsycopgDatabase, *, lock: str = "", autocommit: bool = False) -> Any:
    def process() -> None:
        with database.connect(autocommit=autocommit) as connection:
            read = connection.execute(f"SELECT hits FROM interleave_counter {lock}")
            connection.execute(UPDATE, [read.fetchone()[0] + 1])

    return process


@pytest.mark.parametrize(
    ("how", "split", "expected"),
    [
        ({}, True, (12, 14)),  # as naive in atomic()
        ({"autocommit": True}, False, (4, 6)),  # as naive
        ({"autocommit": True}, True, (12, 14)),
        ({"lock": "FOR UPDATE"}, True, (0, 6)),
    ],
)
def test_the_counts_are_those_of_django(
    database: PsycopgDatabase, how: dict[str, Any], split: bool, expected: tuple[int, int]
) -> None:
    process = make_counter(database, **how)
    found = explore_with(database, process, process, split_autocommit=split)
    assert (found.violating, found.schedules, found.complete) == (*expected, True)


def test_without_an_invariant_the_ends_are_compared(database: PsycopgDatabase) -> None:
    wrong, right = make_counter(database), make_counter(database, lock="FOR UPDATE")
    found = explore_with(database, wrong, wrong, invariant=None)
    assert "interleave_counter.hits (id = 1) is 1. One after the other, it is 2." in violation_of(
        found
    )
    explore_with(database, right, right, invariant=None).assert_safe()
    explore_with(database, right, right, invariant=None, like=[right] * 2).assert_safe()
    assert explore_with(database, wrong, wrong, invariant=None, like=[right] * 2).violating


def test_the_timeline(database: PsycopgDatabase) -> None:
    def process() -> None:
        with database.connect() as connection, connection.transaction():
            with connection.transaction():
                connection.execute("SELECT id, hits FROM interleave_counter").fetchall()
            with connection.cursor() as cursor:
                cursor.executemany(UPDATE, [[1], [2]])
                with cursor.copy("COPY interleave_counter TO STDOUT") as copy:
                    assert b"".join(copy) == b"1\ta\t2\n"
            connection.execute("SELECT pg_advisory_lock(7)")

    kept: list[Schedule] = []
    explore_with(database, process, on_schedule=kept.append, invariant=lambda outcomes: None)
    (schedule,) = kept
    kinds = "SAVEPOINT SELECT RELEASE UPDATE COPY SELECT COMMIT CLOSE"  # which releases the lock
    assert [step.kind for step in schedule.timeline] == kinds.split()
    assert (schedule.timeline[1].columns, schedule.timeline[1].rows) == (("id", "hits"), ((1, 0),))


def test_rows_of_any_factory(database: PsycopgDatabase) -> None:
    """An iteration fetches no row before it is due."""

    def process() -> None:
        query = "SELECT hits FROM interleave_counter UNION ALL SELECT 7"
        for factory in (psycopg.rows.scalar_row, psycopg.rows.dict_row):
            with database.connect(row_factory=factory) as connection:
                cursor = connection.execute(query)
                first = next(iter(cursor))
                assert (first, cursor.fetchone()) in [(0, 7), ({"hits": 0}, {"hits": 7})]

    kept: list[Schedule] = []
    explore_with(database, process, on_schedule=kept.append, invariant=lambda outcomes: None)
    (schedule,) = kept
    assert [step.rows for step in schedule.timeline if step.kind == "SELECT"] == [((0,), (7,))] * 2


def in_a_thread(use: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(use).result()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda database, connection: database.connect(), "opens a second connection"),
        (lambda database, connection: in_a_thread(database.connect), "connects in another thread"),
        (lambda database, connection: in_a_thread(connection.cursor), "is used in another thread"),
        (lambda database, connection: next(connection.cursor().stream("SELECT 1")), "observed"),
        (lambda database, connection: connection.cursor("name"), "cannot be observed"),
        (lambda database, connection: connection.pipeline(), "cannot be observed"),
    ],
)
def test_a_use_that_cannot_be_observed_is_refused(
    use: Callable[..., object], message: str, database: PsycopgDatabase
) -> None:
    def process() -> None:
        with database.connect() as connection:
            use(database, connection)

    with pytest.raises(InterleaveError, match=message):
        explore_with(database, process)


WITHOUT_DJANGO = """
import sys
sys.modules["django"] = None  # an import of it fails
from pginterleave import explore
from pginterleave.psycopg_adapter import PsycopgDatabase

database = PsycopgDatabase(sys.argv[1])

def process():
    with database.connect(autocommit=True) as connection:
        connection.execute("UPDATE interleave_counter SET hits = hits + 1")

explore([process] * 2, using=database, invariant=lambda outcomes: None).assert_safe()
database.close()
"""


def test_it_needs_no_django(counter_table: None) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_DJANGO, conninfo()], check=True)


def test_a_cursor_that_is_not_observed_proves_nothing(database: PsycopgDatabase) -> None:
    def process() -> None:
        with database.connect(autocommit=True) as connection:
            psycopg.ClientCursor(connection).execute(UPDATE, [1])

    found = explore_with(database, process)
    (past,) = found.unobserved
    assert past.startswith("the driver's connection at ")
    assert not found.complete
