"""Processes that use two databases: the statements of both are steps."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connection, connections, transaction

from pginterleave import explore
from pginterleave.pytest_plugin import Interleave

from .counter import sql


@pytest.fixture
def databases(interleave: Interleave) -> Iterator[None]:
    """Make a table with one row in this database, and in that of a second alias."""
    settings = {**connection.settings_dict, "NAME": f"{connection.settings_dict['NAME']}_other"}
    name = connection.ops.quote_name(settings["NAME"])
    sql(f"DROP DATABASE IF EXISTS {name}")
    sql(f"CREATE DATABASE {name}")
    connections.settings["other"] = settings
    for alias in ("default", "other"):
        run(alias, "CREATE TABLE account (id int PRIMARY KEY, amount int)")
    yield
    connections["other"].close()
    del connections["other"], connections.settings["other"]
    sql("DROP TABLE account")
    sql(f"DROP DATABASE {name}")


def run(alias: str, statement: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0]) if cursor.description else 0


def add_in_one_statement(alias: str) -> None:
    run(alias, "UPDATE account SET amount = amount + 1")


def add_after_reading(alias: str) -> None:
    amount = run(alias, "SELECT amount FROM account")
    run(alias, f"UPDATE account SET amount = {amount + 1}")


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize("is_atomic", [False, True])
@pytest.mark.parametrize(
    ("add", "violates"), [(add_in_one_statement, False), (add_after_reading, True)]
)
def test_a_second_database(add: Callable[[str], None], violates: bool, is_atomic: bool) -> None:
    """Its rows are compared; a row lock there is waited for."""

    def setup() -> None:
        for alias in ("default", "other"):
            run(alias, "DELETE FROM account; INSERT INTO account VALUES (1, 0)")

    def adds() -> None:
        add_in_one_statement("default")
        add("other")

    process = transaction.atomic(using="other")(adds) if is_atomic else adds
    found = explore([process, process], setup=setup)
    assert found.complete
    assert bool(found.violating) is violates
    assert "the functions, triggers and lock orders of the database 'other'" in found.limits
