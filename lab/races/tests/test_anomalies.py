"""The anomalies of the literature at each isolation level: docs/isolation-levels.md has the table.

The programs are those of Hermitage (github.com/ept/hermitage, postgres.md): rows 1 = 10 and 2 = 20.
"""

import re
from collections.abc import Callable
from functools import partial

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction

from lab.recordings.cells import LEVELS
from pginterleave import Outcome, explore

DOCUMENT = settings.BASE_DIR / "docs" / "isolation-levels.md"
ABORT = "ABORT"
READ_ALL = "SELECT id, value FROM test"
MULTIPLES = f"{READ_ALL} WHERE value % 3 = 0"
Rows = dict[int, int]
Occurs = Callable[[list[list[Rows]], Rows], bool]


def read(row: int) -> str:
    return f"SELECT id, value FROM test WHERE id = {row}"


def write(row: int, value: int) -> str:
    return f"UPDATE test SET value = {value} WHERE id = {row}"


def insert(row: int, value: int) -> str:
    return f"INSERT INTO test VALUES ({row}, {value})"


# Transactions, each a list of statements, and a function that returns whether the anomaly occurs.
# It gets what each transaction has read, empty if PostgreSQL refused it, and the final rows.
ANOMALIES: dict[str, tuple[list[list[str]], Occurs]] = {
    "G0 dirty write": (
        [[write(1, 11), write(2, 21)], [write(1, 12), write(2, 22)]],
        lambda reads, rows: rows in ({1: 11, 2: 22}, {1: 12, 2: 21}),
    ),
    "G1a aborted read": (
        [[write(1, 101), ABORT], [read(1), read(1)]],
        lambda reads, rows: {1: 101} in reads[1],
    ),
    "G1b intermediate read": (
        [[write(1, 101), write(1, 11)], [read(1), read(1)]],
        lambda reads, rows: {1: 101} in reads[1],
    ),
    "G1c circular information flow": (
        [[write(1, 11), read(2)], [write(2, 22), read(1)]],
        lambda reads, rows: reads == [[{2: 22}], [{1: 11}]],
    ),
    "OTV observed transaction vanishes": (
        [[write(1, 11), write(2, 19)], [write(1, 12), write(2, 18)], [read(1), read(2)]],
        lambda reads, rows: reads[2] in ([{1: 11}, {2: 20}], [{1: 12}, {2: 20}]),
    ),
    "PMP phantom": (
        [[MULTIPLES, MULTIPLES], [insert(3, 30)]],
        lambda reads, rows: reads[0] == [{}, {3: 30}],
    ),
    "P4 lost update": (
        [[read(1), write(1, 11)], [read(1), write(1, 12)]],
        lambda reads, rows: reads == [[{1: 10}], [{1: 10}]],
    ),
    "G-single read skew": (
        [[read(1), read(2)], [write(1, 12), write(2, 18)]],
        lambda reads, rows: reads[0] == [{1: 10}, {2: 18}],
    ),
    "G2-item write skew": (
        [[READ_ALL, write(1, 11)], [READ_ALL, write(2, 21)]],
        lambda reads, rows: reads == [[{1: 10, 2: 20}]] * 2,
    ),
    "G2 write skew by a phantom": (
        [[MULTIPLES, insert(3, 30)], [MULTIPLES, insert(4, 42)]],
        lambda reads, rows: reads == [[{}]] * 2,
    ),
}


def run(statements: list[str]) -> list[Rows]:
    """Run a transaction, and return what each of its SELECTs has read."""
    reads = []
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            if statement == ABORT:
                transaction.set_rollback(True)
                continue
            cursor.execute(statement)
            if cursor.description:
                reads.append(dict(cursor.fetchall()))
    return reads


def set_up() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS test (id int PRIMARY KEY, value int)")
        cursor.execute("TRUNCATE test")
        cursor.execute("INSERT INTO test VALUES (1, 10), (2, 20)")


def describe_results(name: str, level: str) -> str:
    """Explore an anomaly; return in how many schedules it occurs, and how many are refused."""
    transactions, occurs = ANOMALIES[name]

    def invariant(outcomes: list[Outcome]) -> str:
        reads = [outcome.returned or [] for outcome in outcomes]
        [rows] = run([READ_ALL])
        return name if occurs(reads, rows) else ""

    processes = [partial(run, statements) for statements in transactions]
    run_all = partial(explore, processes, setup=set_up, isolation_level=level)
    result = run_all(invariant=invariant, expected=OperationalError)
    assert result.complete
    refused = run_all(invariant=lambda _: "").raising  # exceptions alone are violations
    text = f"{'✗' if result.violating else '✓'} {result.violating} / {result.schedules}"
    text += f", ⊘ {refused}" if refused else ""
    return text + (f", `{result.counterexample.order}`" if result.counterexample else "")


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ANOMALIES)
def test_the_table_is_what_an_exploration_finds(name: str) -> None:
    """Hermitage's results, in brackets, are from PostgreSQL 9.3.5, and must be the same."""
    cells = [describe_results(name, level) for level in LEVELS]
    (row,) = re.findall(rf"^\| {name} \|(.*)\|$", DOCUMENT.read_text(), re.MULTILINE)
    assert re.sub(r" \([✓—]\)", "", row).strip() == " | ".join(cells)
    for level in row.split("|"):  # (✓) is prevented, and (—) is not
        assert ("✗" in level) is ("(—)" in level), name
