"""Without an invariant: each schedule has to end as one of the serial orders does."""

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.core import mail
from django.db import OperationalError, models, transaction

from pginterleave import CannotExplore, Exploration, explore
from pginterleave.pytest_plugin import Interleave

from .counter import (
    Counter,
    atomic_only,
    compare_and_swap,
    conninfo,
    f_expression,
    naive,
    select_for_update,
    setup,
    sql,
    update_returning,
    violation_of,
)

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE serial_order (
        id serial PRIMARY KEY, buyer text, made timestamptz DEFAULT clock_timestamp());
    CREATE TABLE serial_item (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text,
        order_id int REFERENCES serial_order ON DELETE CASCADE);
    CREATE TABLE serial_token (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text UNIQUE, used int DEFAULT 0);
    CREATE TABLE serial_use (token uuid REFERENCES serial_token, by int);
    CREATE TABLE serial_audit (what text)
"""
NAMES = ("order", "item", "token", "use", "audit")


class Order(models.Model):
    buyer = models.TextField()

    objects: ClassVar[models.Manager["Order"]] = models.Manager()

    class Meta:
        app_label = "interleave"
        db_table = "serial_order"
        managed = False

    def __str__(self) -> str:
        return self.buyer


@pytest.fixture
def tables(counter_table: None) -> Iterator[None]:
    sql(f"DROP TABLE IF EXISTS {', '.join(f'serial_{name}' for name in NAMES)}")
    sql(TABLES)
    yield
    sql(f"DROP TABLE {', '.join(f'serial_{name}' for name in NAMES)}")


def compared(*processes: Callable[[], object], **options: Any) -> Exploration:
    def empty() -> None:
        sql("DELETE FROM serial_use; DELETE FROM serial_token; DELETE FROM serial_item")
        sql("DELETE FROM serial_order; DELETE FROM serial_audit")
        setup()

    return explore(processes, **{"setup": empty, **options})


def new_order(buyer: str) -> int:
    return int(sql("INSERT INTO serial_order (buyer) VALUES (%s) RETURNING id", buyer)[0][0])


def add_item(name: str, order: int) -> None:
    sql("INSERT INTO serial_item (name, order_id) VALUES (%s, %s)", name, order)


@pytest.mark.parametrize("wrong", [naive, atomic_only])
def test_a_lost_update(wrong: Callable[[], object], interleave: Interleave) -> None:
    setup()
    with pytest.raises(AssertionError) as raised:
        interleave(wrong, count_all=True)
    assert str(raised.value).startswith(
        "12 of 14 schedules end as no serial order does.\n4 ran; the others are equivalent"
    )
    assert (
        "interleave_counter.hits is 1; one after the other it is 2 (nearest is the order 1, 2)"
        in str(raised.value)
    )
    order = "122211"
    with pytest.raises(AssertionError, match="Schedule 122211 ends as no serial order does"):
        interleave(wrong, replay=order)
    interleave(wrong, replay="111222")


@pytest.mark.parametrize(
    "right", [select_for_update, f_expression, update_returning, compare_and_swap]
)
def test_right_ways_to_count(right: Callable[[], object]) -> None:
    compared(right, right).assert_safe()


def test_new_ids_are_compared_by_the_rows_that_they_name() -> None:
    """The ids depend on the order of the INSERTs, and grow from schedule to schedule."""

    def buys(buyer: str) -> int:
        with transaction.atomic():
            order = new_order(buyer)
            add_item(f"{buyer}'s", order)
        return order

    found = compared(partial(buys, "one"), partial(buys, "two"))
    found.assert_safe()
    assert found.schedules == 20
    assert found.not_compared == ("serial_order.made",)


def test_an_item_in_the_order_of_somebody_else() -> None:
    """The newest order is the other's: each row is right by itself, and the reference is not."""

    def buys(buyer: str) -> None:
        new_order(buyer)
        add_item("an item", sql("SELECT max(id) FROM serial_order")[0][0])

    found = compared(partial(buys, "one"), partial(buys, "two"))
    assert "the rows refer to each other as after no serial order" in violation_of(found)


def test_the_id_of_a_row_that_only_one_has_made() -> None:
    """Both return the id of one row, as no serial order does; there each returns its own."""

    def makes() -> int:
        new_order("same")
        return int(sql("SELECT max(id) FROM serial_order")[0][0])

    assert compared(makes, makes).violating


def test_a_number_that_happens_to_be_a_new_id() -> None:
    """Each counts the orders, of which the ids are 1 and 2."""

    def makes() -> int:
        before = int(sql("SELECT count(*) FROM serial_order")[0][0])
        new_order("same")
        return before + 1

    def setup_with_ids() -> None:
        sql("TRUNCATE serial_order, serial_item RESTART IDENTITY")

    assert compared(makes, makes, setup=setup_with_ids).violating


def test_rows_that_setup_makes_with_other_ids_each_time() -> None:
    """The first order of the two is taken, never the second: which one is told by their places."""

    def two_orders() -> None:
        sql("DELETE FROM serial_order")
        new_order("same")
        new_order("same")

    def takes(*, first: bool) -> int:
        order = "id" if first else "id DESC"
        chosen = sql(f"SELECT id FROM serial_order WHERE buyer = 'same' ORDER BY {order} LIMIT 1")
        sql("UPDATE serial_order SET buyer = 'taken' WHERE id = %s", chosen[0][0])
        return int(chosen[0][0])

    takes_first = partial(takes, first=True)
    compared(takes_first, setup=two_orders).assert_safe()
    other = compared(takes_first, like=[partial(takes, first=False)], setup=two_orders)
    assert other.violating == 1


def test_ids_by_chance() -> None:
    def makes(name: str) -> None:
        with transaction.atomic():
            (token,) = sql("INSERT INTO serial_token (name) VALUES (%s) RETURNING id", name)[0]
            sql("INSERT INTO serial_use VALUES (%s, 1)", token)

    found = compared(partial(makes, "a"), partial(makes, "b"))
    found.assert_safe()
    assert found.not_compared == ("serial_token.id",)

    def uses(name: str) -> None:
        sql("INSERT INTO serial_token (name) VALUES (%s)", name)
        sql("INSERT INTO serial_use SELECT id, 1 FROM serial_token WHERE name <> %s", name)

    assert compared(partial(uses, "a"), partial(uses, "b")).violating


def touch() -> None:
    sql("UPDATE serial_order SET made = clock_timestamp()")


def test_a_time_that_the_clock_sets(interleave: Interleave) -> None:
    """It is not compared. A row's time from before is no new one: one that is not written shows."""
    sql("INSERT INTO serial_order (buyer) VALUES ('one')")
    found = interleave(touch)
    assert found.not_compared == ("serial_order.made",)
    assert "the value of serial_order.made, which clock or chance sets" in found.limits

    def write_back() -> None:
        (before,) = sql("SELECT made FROM serial_order")[0]
        sql("UPDATE serial_order SET made = %s", before)

    with pytest.raises(AssertionError, match="end as no serial order does"):
        interleave(touch, write_back, like=[touch, lambda: None], count_all=True)


@pytest.mark.parametrize(
    ("statement", "violation"),
    [
        ("INSERT INTO serial_audit VALUES ('met')", "has a row (what = met); one after the other"),
        # The rows are those from before, which every serial order leaves.
        ("UPDATE serial_audit SET what = what", ""),
    ],
)
def test_a_table_that_only_a_race_writes(statement: str, violation: str) -> None:
    def audits() -> None:
        hits = Counter.objects.get(key="a").hits
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        if Counter.objects.get(key="a").hits > hits + 1:
            sql(statement)

    def setup_with_a_row() -> None:
        setup()
        sql("DELETE FROM serial_audit; INSERT INTO serial_audit VALUES ('before')")

    found = compared(audits, audits, setup=setup_with_a_row)
    assert bool(found.violating) is bool(violation)
    assert violation in violation_of(found)


def test_busy_is_not_wrong() -> None:
    """Who is refused by NOWAIT, or skips a locked row, runs once more alone."""

    @transaction.atomic
    def counts_without_waiting() -> bool:
        sql("SELECT 1 FROM interleave_counter WHERE key = 'a' FOR UPDATE NOWAIT")
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        return True

    @transaction.atomic
    def counts_if_free() -> bool:
        free = sql("SELECT 1 FROM interleave_counter WHERE key = 'a' FOR UPDATE SKIP LOCKED")
        if free:
            sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        return bool(free)

    pair = [counts_without_waiting] * 2
    compared(*pair, expected=OperationalError).assert_safe()
    refused = compared(*pair)
    assert refused.raising == refused.violating > 0
    compared(*[counts_if_free] * 2, try_again=lambda outcome: not outcome.returned).assert_safe()
    found = compared(*[counts_if_free] * 2)
    assert violation_of(found).endswith("give try_again=lambda outcome: outcome.returned == False")


def test_who_is_refused_has_not_written_before() -> None:
    """A second run does not hide what the refused run has left behind."""

    def leaves_a_trace() -> None:
        sql("INSERT INTO serial_audit VALUES ('tried')")
        with transaction.atomic():
            sql("SELECT 1 FROM interleave_counter WHERE key = 'a' FOR UPDATE NOWAIT")

    found = compared(leaves_a_trace, leaves_a_trace, expected=OperationalError)
    assert found.violating
    assert found.raising == 0


def test_exceptions() -> None:
    """One that a serial order raises, too, is an end like any other, unless all orders raise it."""

    def makes(name: str, used: int = 0) -> None:
        sql("INSERT INTO serial_token (name, used) VALUES (%s, %s)", name, used)

    compared(partial(makes, "a"), partial(makes, "a")).assert_safe()

    def checks() -> None:
        if not sql("SELECT 1 FROM serial_token WHERE name = 'a'"):
            makes("a")

    found = compared(checks, checks)
    assert found.raising == found.violating > 0
    assert violation_of(found).endswith("raises IntegrityError")

    def fails() -> None:
        sql("SELECT 1")
        raise KeyError("a")

    always = compared(fails, partial(makes, "a"))
    assert always.violating == always.schedules
    with pytest.raises(AssertionError, match="The processes also fail one after the other"):
        always.assert_safe()
    compared(fails, partial(makes, "a"), expected=KeyError).assert_safe()


def test_a_reference() -> None:
    """`like` finds what is wrong alone: the second gets the row of the first."""

    def get_or_create() -> bool:
        if not sql("SELECT 1 FROM serial_token WHERE name = 'a' FOR UPDATE"):
            sql("INSERT INTO serial_token (name) VALUES ('a') ON CONFLICT DO NOTHING")
        return True

    def create() -> bool:
        sql("INSERT INTO serial_token (name) VALUES ('a') ON CONFLICT DO NOTHING")
        return not sql("SELECT 1 FROM serial_token WHERE used = 1")

    def create_once() -> bool:
        return bool(
            sql("INSERT INTO serial_token (name) VALUES ('a') ON CONFLICT DO NOTHING RETURNING 1")
        )

    compared(get_or_create, get_or_create).assert_safe()
    compared(get_or_create, get_or_create, like=[create, create]).assert_safe()
    other = compared(get_or_create, get_or_create, like=[create_once, create_once])
    assert "process 2 returned True; one after the other it returned False" in violation_of(other)
    with pytest.raises(CannotExplore, match="one function for each process"):
        compared(get_or_create, get_or_create, like=[create])


def test_an_invariant_besides() -> None:
    found = compared(
        naive, naive, like=[naive, naive], invariant=lambda outcomes: "never", count_all=True
    )
    assert found.violating == found.schedules
    with pytest.raises(CannotExplore, match="try_again"):
        compared(naive, naive, invariant=lambda outcomes: "", try_again=bool)


@dataclasses.dataclass
class Pair:
    name: str
    numbers: list[int]


def test_values_are_compared_by_value() -> None:
    """Each returns what it has read: a lost update shows in it, whatever it is wrapped in."""

    def reads(wrap: Callable[[int], object]) -> object:
        hits = Counter.objects.get(key="a").hits
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        return wrap(hits)

    wraps: list[Callable[[int], object]] = [
        lambda hits: {"hits": (hits,)},
        lambda hits: Pair("a", [hits]),
        lambda hits: Counter(id=1, key="a", hits=hits),
        lambda hits: {hits},
        lambda hits: Counter.objects.filter(hits__gt=100 + hits),
    ]
    for wrap in wraps[:4]:
        assert compared(partial(reads, wrap), partial(reads, wrap)).violating == 12
    for wrap in (
        lambda hits: object(),
        lambda hits: [object()],
        lambda hits: Pair("a", []),
        wraps[4],
    ):
        compared(partial(reads, wrap), partial(reads, wrap)).assert_safe()


def test_model_instances_with_new_ids() -> None:
    def makes(buyer: str) -> Order:
        return Order.objects.create(buyer=buyer)

    compared(partial(makes, "one"), partial(makes, "two")).assert_safe()


def test_what_cannot_be_compared() -> None:
    with pytest.raises(CannotExplore, match="5 processes have too many serial orders"):
        compared(*[naive] * 5)
    numbers = itertools.count()

    def at_random() -> None:
        if next(numbers) % 3 == 0:
            sql("INSERT INTO serial_audit VALUES ('once')")
        sql("SELECT 1")

    with pytest.raises(CannotExplore, match="the processes end differently each time"):
        compared(at_random)


def test_a_part_of_a_result_that_chance_decides() -> None:
    def counts() -> dict[str, object]:
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        return {"token": random.random(), "hits": 1}

    found = compared(counts, counts)
    found.assert_safe()
    assert found.not_compared == (
        "'token' of what process 1 returns",
        "'token' of what process 2 returns",
    )


def test_a_clock_that_goes_on_after_the_serial_orders() -> None:
    """A clock of seconds may stand still while they run, and differ in a schedule later."""
    calls = itertools.count()

    def run() -> int:
        sql("UPDATE interleave_counter SET hits = 1")
        return next(calls) // 6

    found = explore([run, run], setup=setup)
    assert found.violating == 0
    assert next(calls) > 12
    assert found.not_compared == ("what process 1 returns", "what process 2 returns")


def test_what_is_not_compared_and_may_matter(tmp_path: Path, interleave: Interleave) -> None:
    """Two transactions of one function, a mail and a file."""
    setup()
    mail.outbox = []

    def counts_twice(name: str) -> None:
        for _ in range(2):
            sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = %s", name)
        mail.outbox.append(mail.EmailMessage("counted"))
        (tmp_path / name).write_text("counted")

    limits = interleave(partial(counts_twice, "a"), partial(counts_twice, "b")).limits
    assert f"the file {tmp_path / 'a'}, which a process writes" in limits
    assert "the text of the mails that a process sends" in limits
    between = "what a third program sees between the transactions of process {}"
    assert {between.format(1), between.format(2)} <= {*limits}
    assert not interleave(partial(sql, "SELECT 1")).limits


def test_without_django() -> None:
    pytest.importorskip("psycopg")
    from pginterleave.psycopg_adapter import PsycopgDatabase

    database = PsycopgDatabase(conninfo())

    def counts(*, lock: bool) -> int:
        look = "SELECT hits FROM interleave_counter WHERE id = 1" + " FOR UPDATE" * lock
        with database.connect() as connection:
            ((hits,),) = connection.execute(look).fetchall()
            connection.execute("UPDATE interleave_counter SET hits = %s WHERE id = 1", [hits + 1])
        return int(hits)

    wrong, right = partial(counts, lock=False), partial(counts, lock=True)
    found = explore([wrong, wrong], using=database, setup=setup)
    assert "interleave_counter.hits is 1; one after the other it is 2" in violation_of(found)
    explore([right, right], using=database, setup=setup).assert_safe()
    explore([right, right], using=database, setup=setup, like=[right, right]).assert_safe()
    assert explore([wrong, wrong], using=database, setup=setup, like=[right, right]).violating
    database.close()
