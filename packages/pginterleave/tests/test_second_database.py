"""Processes that use two databases: the statements of both are steps."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import pytest
from django.db import connection, connections, models, transaction

from pginterleave import InterleaveError, explore
from pginterleave.django.database import DjangoDatabase
from pginterleave.pytest_plugin import Interleave

from .counter import sql


@pytest.fixture
def databases(interleave: Interleave) -> Iterator[None]:
    """Make a table in this database and in that of a second alias, which the test names."""
    settings = {**connection.settings_dict, "NAME": f"{connection.settings_dict['NAME']}_other"}
    name = connection.ops.quote_name(settings["NAME"])
    sql(f"DROP DATABASE IF EXISTS {name}")
    sql(f"CREATE DATABASE {name}")
    connections.settings["other"] = settings
    interleave.named.aliases = ["default", "other"]
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


@pytest.mark.usefixtures("databases")
def test_the_rows_of_both_databases_are_put_back_before_each_schedule() -> None:
    def add_to_both() -> None:
        for alias in ("default", "other"):
            add_in_one_statement(alias)

    def read_amounts() -> list[int]:
        return [run(alias, "SELECT amount FROM account") for alias in ("default", "other")]

    for alias in ("default", "other"):
        run(alias, "INSERT INTO account VALUES (1, 50)")
    amounts: list[list[int]] = []
    with Interleave(databases=["default", "other"]) as interleave:
        interleave(add_to_both, invariant=lambda _: amounts.append(read_amounts()))
    assert amounts == [[52, 52]] * len(amounts)
    assert len(amounts) > 1
    assert read_amounts() == [50, 50]


class Account(models.Model):
    id = models.IntegerField(primary_key=True)
    amount = models.IntegerField()

    objects: ClassVar[models.Manager["Account"]] = models.Manager()

    class Meta:
        app_label = "second_database"
        db_table = "account"

    def __str__(self) -> str:
        return f"{self.amount}"


@pytest.mark.usefixtures("databases")
def test_an_object_of_the_second_database_is_loaded_from_there() -> None:
    for alias, amount in (("default", 1), ("other", 2)):
        run(alias, f"INSERT INTO account VALUES (1, {amount})")
    account = Account.objects.using("other").get()
    amounts: set[object] = set()
    with Interleave(databases=["default", "other"]) as interleave:
        interleave(lambda: account.amount, invariant=lambda ends: amounts.add(ends[0].returned))
    assert amounts == {2}


def swallow(function: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        function()


@pytest.mark.usefixtures("databases")
@pytest.mark.parametrize("is_swallowed", [False, True])
def test_a_database_that_the_test_does_not_name_is_not_written(
    interleave: Interleave, is_swallowed: bool
) -> None:
    """It may be a real one: Django makes test databases only for the aliases that tests name."""
    run("other", "INSERT INTO account VALUES (1, 50)")
    interleave.named.aliases = ["default"]
    forget = partial(add_in_one_statement, "other")
    process = partial(swallow, forget) if is_swallowed else forget
    message = 'does not say that it uses the database \'other\', .*"default", "other"'
    with pytest.raises(InterleaveError, match=message):
        interleave(process, invariant=lambda _: None)
    with pytest.raises(InterleaveError, match=message):
        forget()
    interleave.named.aliases = ["default", "other"]
    assert run("other", "SELECT amount FROM account") == 50


@pytest.mark.parametrize(
    ("settings", "is_other"),
    [
        ({}, False),
        ({"NAME": "a"}, True),
        ({"HOST": "a"}, True),
        ({"PORT": "1"}, True),
        ({"USER": "a"}, False),
        ({"NAME": "a", "ENGINE": "django.db.backends.sqlite3"}, False),
    ],
)
def test_which_alias_names_another_database(settings: dict[str, str], is_other: bool) -> None:
    connections.settings["other"] = {**connection.settings_dict, **settings}
    try:
        others = DjangoDatabase("default").other_databases()
    finally:
        del connections["other"], connections.settings["other"]
    assert [*others] == ["other"] * is_other
