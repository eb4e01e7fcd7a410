"""Without an invariant: each schedule has to end as one of the serial orders does."""

import dataclasses
import itertools
import random
import re
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core import mail
from django.db import OperationalError, models, transaction
from django.http import HttpResponse, HttpResponseRedirect

from pginterleave import CannotExplore, Exploration, NotDeterministic, Options, Outcome, explore
from pginterleave.judging.times import parse_time, write_distance, write_time
from pginterleave.judging.values import make_outcome_value
from pginterleave.pytest_plugin import Interleave

from .counter import (
    Counter,
    Process,
    Unmanaged,
    atomic_only,
    compare_and_swap,
    f_expression,
    hits,
    naive,
    select_for_update,
    setup,
    sql,
    transact,
    update_returning,
    violation_of,
)

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE recipes_order (
        id serial PRIMARY KEY, buyer text, made timestamptz DEFAULT clock_timestamp());
    CREATE TABLE serial_item (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text,
        order_id int REFERENCES recipes_order ON DELETE CASCADE);
    CREATE TABLE serial_token (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text UNIQUE, used int DEFAULT 0);
    CREATE TABLE serial_node (
        id serial PRIMARY KEY, name text, parent int REFERENCES serial_node ON DELETE CASCADE);
    CREATE TABLE serial_use (token uuid REFERENCES serial_token ON DELETE CASCADE, by int);
    CREATE TABLE serial_audit (what text)
"""


class Order(Unmanaged):
    buyer = models.TextField()


def empty() -> None:
    sql("DELETE FROM serial_token; DELETE FROM recipes_order; DELETE FROM serial_audit")
    setup()


def compare(*processes: Process, **options: Any) -> Exploration:
    return explore(processes, **{"setup": empty, **options})


def note_what_is_there() -> None:
    [(number,)] = sql("SELECT count(*) FROM serial_audit")
    sql(f"INSERT INTO serial_audit VALUES ('{number}')")


def test_ignored_tables_are_not_compared() -> None:
    assert compare(note_what_is_there, note_what_is_there).violating
    options = Options(ignored_tables=frozenset(("serial_audit",)))
    assert not compare(note_what_is_there, note_what_is_there, options=options).violating


def new_order(buyer: str) -> int:
    return int(Order.objects.create(buyer=buyer).pk)


def newest_order() -> int:
    return int(sql("SELECT max(id) FROM recipes_order")[0][0])


ADD_ITEM = "INSERT INTO serial_item (name, order_id) VALUES (%s, %s)"
ADD_HIT = "UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'"


@pytest.mark.parametrize("wrong", [naive, atomic_only])
def test_a_lost_update_ends_as_no_serial_order_does(wrong: Process, interleave: Interleave) -> None:
    setup()
    with pytest.raises(AssertionError) as raised:
        interleave(wrong, count_all=True)
    message = str(raised.value)
    point = "Race: interleave_counter.hits (id = 1) is 1. One after the other, it is 2.\n\n"
    assert message.startswith(point)
    assert "12 of 14 schedules end as no serial order does. 4 ran; the others" in message
    with pytest.raises(AssertionError, match=re.escape(point)):
        interleave(wrong, replay="122211")
    interleave(wrong, replay="111222")


@pytest.mark.parametrize(
    "right", [select_for_update, f_expression, update_returning, compare_and_swap]
)
def test_right_ways_to_count_are_safe(right: Process) -> None:
    compare(right, right).assert_safe()


def test_new_ids_are_compared_by_the_rows_that_they_name() -> None:
    """The ids depend on the order of the INSERTs, and grow from schedule to schedule."""

    def buys(buyer: str) -> int:
        with transaction.atomic():
            order = new_order(buyer)
            sql(ADD_ITEM, f"{buyer}'s", order)
        return order

    found = compare(partial(buys, "one"), partial(buys, "two"))
    found.assert_safe()
    assert found.schedules == 20
    assert found.not_compared == ()


def test_a_reference_to_the_row_of_another_process_is_wrong() -> None:
    """The newest order is the other's: each row is right by itself, and the reference is not."""

    def buys(buyer: str) -> None:
        new_order(buyer)
        sql(ADD_ITEM, "an item", newest_order())

    found = compare(partial(buys, "one"), partial(buys, "two"))
    point = "serial_item.order_id refers to another row than after any serial order."
    assert violation_of(found) == point


def test_a_row_is_compared_by_rows_that_are_many_references_away() -> None:
    """Of two chains of new rows, each has another row at its end than in the serial order."""

    def make_chains(*ends: str) -> None:
        for begin, end in zip("ab", ends, strict=True):
            parent = None
            for name in (begin, *[None] * 6, end):
                insert = "INSERT INTO serial_node (name, parent) VALUES (%s, %s) RETURNING id"
                [(parent,)] = sql(insert, name, parent)

    straight, crossed = (partial(transaction.atomic(make_chains), *ends) for ends in ("ab", "ba"))
    compare(straight, like=[straight], setup=partial(sql, "DELETE FROM serial_node")).assert_safe()
    assert compare(
        crossed, like=[straight], setup=partial(sql, "DELETE FROM serial_node")
    ).violating


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (-9, "now"),  # read a moment before the schedule begins, as by setup
        (49, "now"),
        (51, "now + 1 min"),
        (-11, "now - 1 min"),
        (86400 * 30 - 9, "now + 30 days"),
        (3600 * 2 - 9, "now + 2 h"),
        (-3600 * 2 + 30, "now - 2 h"),
        (3660, "now + 61 min"),
    ],
)
def test_a_time_is_written_by_the_minute_with_a_margin_before_it(seconds: int, text: str) -> None:
    began = 1_700_000_000.0
    time = datetime.fromtimestamp(began + seconds, UTC)
    assert write_distance(time, began) == text
    for written in (str(time), f"'{time.isoformat()}'", write_time(time)):
        assert parse_time(written) == time
    assert parse_time(f"at {time}") is parse_time("2022-13-01 00:00") is parse_time(None) is None


def test_a_result_may_be_the_id_of_a_row_that_another_process_made() -> None:
    """Both return the id of one row; in the serial orders each returns its own."""

    def makes() -> int:
        new_order("same")
        return newest_order()

    assert compare(makes, makes).violating


def test_a_number_that_happens_to_be_a_new_id_is_compared() -> None:
    """Each counts the orders, of which the ids are 1 and 2."""

    def makes() -> int:
        before = int(sql("SELECT count(*) FROM recipes_order")[0][0])
        new_order("same")
        return before + 1

    restart = partial(sql, "TRUNCATE recipes_order, serial_item RESTART IDENTITY")
    assert compare(makes, makes, setup=restart).violating


def test_rows_that_setup_makes_with_other_ids_each_time_are_told_by_their_places() -> None:
    def two_orders() -> None:
        sql("DELETE FROM recipes_order")
        new_order("same")
        new_order("same")

    first = "SELECT id FROM recipes_order WHERE buyer = 'same' ORDER BY id {} LIMIT 1"
    take = "UPDATE recipes_order SET buyer = 'taken' WHERE id = ({}) RETURNING id"
    takes_first, takes_last = (
        partial(sql, take.format(first.format(order))) for order in ("ASC", "DESC")
    )
    compare(takes_first, setup=two_orders).assert_safe()
    assert compare(takes_first, like=[takes_last], setup=two_orders).violating == 1


def test_ids_by_chance_are_compared_by_the_rows_that_they_name() -> None:
    def makes(name: str) -> None:
        with transaction.atomic():
            (token,) = sql("INSERT INTO serial_token (name) VALUES (%s) RETURNING id", name)[0]
            sql("INSERT INTO serial_use VALUES (%s, 1)", token)

    found = compare(partial(makes, "a"), partial(makes, "b"))
    found.assert_safe()
    assert found.not_compared == ("serial_token.id",)

    def uses(name: str) -> None:
        sql("INSERT INTO serial_token (name) VALUES (%s)", name)
        sql("INSERT INTO serial_use SELECT id, 1 FROM serial_token WHERE name <> %s", name)

    assert compare(partial(uses, "a"), partial(uses, "b")).violating


touch = partial(sql, "UPDATE recipes_order SET made = clock_timestamp()")


def test_a_time_that_the_clock_sets_is_compared_by_its_distance(interleave: Interleave) -> None:
    """A row's time from before is no new one: a write that is missing shows."""
    sql("INSERT INTO recipes_order (buyer) VALUES ('one')")
    found = interleave(touch)
    assert (found.not_compared, found.limits) == ((), ())

    def write_back() -> None:
        (before,) = sql("SELECT made FROM recipes_order")[0]
        sql("UPDATE recipes_order SET made = %s", before)

    with pytest.raises(AssertionError, match="end as no serial order does"):
        interleave(touch, write_back, like=[touch, lambda: None], count_all=True)


@pytest.mark.parametrize(
    ("statement", "violation"),
    [
        (
            "INSERT INTO serial_audit VALUES ('met')",
            "(what = met) has 1 row. One after the other, it has no row.",
        ),
        # The rows are those from before, which every serial order leaves.
        ("UPDATE serial_audit SET what = what", ""),
    ],
)
def test_a_table_that_only_a_race_writes_is_compared(statement: str, violation: str) -> None:
    def audits() -> None:
        before = hits()
        sql(ADD_HIT)
        if hits() > before + 1:
            sql(statement)

    def setup_with_a_row() -> None:
        empty()
        sql("INSERT INTO serial_audit VALUES ('before')")

    found = compare(audits, audits, setup=setup_with_a_row)
    assert bool(found.violating) is bool(violation)
    assert violation in violation_of(found)


LOCK = "SELECT 1 FROM interleave_counter WHERE key = 'a' FOR UPDATE"


counts_without_waiting = transact(f"{LOCK} NOWAIT", ADD_HIT)


@transaction.atomic
def counts_if_free() -> bool:
    is_free = bool(sql(f"{LOCK} SKIP LOCKED"))
    if is_free:
        sql(ADD_HIT)
    return is_free


def test_who_finds_a_row_locked_runs_once_more_alone() -> None:
    waits, skips = [counts_without_waiting] * 2, [counts_if_free] * 2
    compare(*waits, expected=OperationalError).assert_safe()
    refused = compare(*waits)
    assert refused.raising == refused.violating > 0
    compare(*skips, try_again=lambda outcome: not outcome.returned).assert_safe()
    violation = violation_of(compare(*skips))
    assert violation.endswith("give try_again=lambda outcome: outcome.returned == False")


def test_a_second_run_does_not_hide_what_the_refused_run_has_left_behind() -> None:
    def leaves_a_trace() -> None:
        sql("INSERT INTO serial_audit VALUES ('tried')")
        counts_without_waiting()

    found = compare(leaves_a_trace, leaves_a_trace, expected=OperationalError)
    assert found.violating
    assert found.raising == 0


def make_token() -> None:
    sql("INSERT INTO serial_token (name) VALUES ('a')")


def test_an_exception_that_some_serial_order_raises_is_an_end_like_any_other() -> None:
    compare(make_token, make_token).assert_safe()

    def checks() -> None:
        if not sql("SELECT 1 FROM serial_token WHERE name = 'a'"):
            make_token()

    found = compare(checks, checks)
    assert found.raising == found.violating > 0
    assert violation_of(found).endswith("raises IntegrityError. One after the other, it does not.")


def test_an_exception_that_every_serial_order_raises_is_no_race() -> None:
    def fails() -> None:
        sql("SELECT 1")
        raise KeyError("a")

    found = compare(fails, make_token)
    assert found.violating == found.schedules
    with pytest.raises(AssertionError, match=r"^KeyError: 'a' .*\n\nThe functions fail one after"):
        found.assert_safe()
    compare(fails, make_token, expected=KeyError).assert_safe()


def test_like_finds_what_is_wrong_without_a_race() -> None:
    """The second gets the row of the first."""
    insert = "INSERT INTO serial_token (name) VALUES ('a') ON CONFLICT DO NOTHING"

    def get_or_create() -> bool:
        if not sql("SELECT 1 FROM serial_token WHERE name = 'a' FOR UPDATE"):
            sql(insert)
        return True

    def create() -> bool:
        sql(insert)
        return True

    def create_once() -> bool:
        return bool(sql(f"{insert} RETURNING 1"))

    pair = [get_or_create] * 2
    compare(*pair).assert_safe()
    compare(*pair, like=[create, create]).assert_safe()
    violation = violation_of(compare(*pair, like=[create_once, create_once]))
    point = "both returned True. With like=, one after the other, the second returns False.\n"
    assert violation.startswith(point)
    with pytest.raises(CannotExplore, match="one function for each process"):
        compare(*pair, like=[create])


def test_an_invariant_may_be_given_besides_like() -> None:
    found = compare(naive, naive, like=[naive, naive], invariant=lambda outcomes: "never")
    assert found.violating == found.schedules
    with pytest.raises(CannotExplore, match="try_again"):
        compare(naive, naive, invariant=lambda outcomes: "", try_again=bool)


@dataclasses.dataclass
class Pair:
    name: str
    numbers: list[int]


@pytest.mark.parametrize(
    ("wrap", "violating"),
    [
        (lambda hits: {"hits": (hits,)}, 12),
        (lambda hits: Pair("a", [hits]), 12),
        (lambda hits: Counter(id=1, key="a", hits=hits), 12),
        (lambda hits: {hits}, 12),
        (lambda hits: object(), 0),
        (lambda hits: [object()], 0),
        (lambda hits: Pair("a", []), 0),
        (lambda hits: Counter.objects.filter(hits__gt=100 + hits), 0),
    ],
)
def test_results_are_compared_by_value(wrap: Callable[[int], object], violating: int) -> None:
    """Each returns what it has read: a stale read shows in it, whatever it is wrapped in."""

    def reads() -> object:
        before = hits()
        sql(ADD_HIT)
        return wrap(before)

    assert compare(reads, reads).violating == violating


NOON = datetime(2022, 4, 29, 12, tzinfo=UTC)


class Plain:
    """Has no repr of its own."""

    def __init__(self, value: object) -> None:
        self.value = value


class Refused(Exception):
    def __init__(self, constraint: str) -> None:
        self.diag = SimpleNamespace(constraint_name=constraint)


def test_which_results_are_equal() -> None:
    answers = [HttpResponse("a"), HttpResponse("b"), HttpResponse("a", status=409)]
    results: list[object] = [
        *answers,
        *map(HttpResponseRedirect, ["/a/", "/b/"]),
        True,
        1,
        "1",
        1.0,
        b"1",
        None,
    ]
    results += [
        [1],
        (1,),
        {1},
        frozenset({1}),
        [[[[[1]]]]],
        [[[[[2]]]]],
        {"a": 1},
        {"a": 2},
        {"b": 1},
    ]
    results += [
        Pair("a", [1]),
        Pair("a", [2]),
        NOON,
        NOON + timedelta(seconds=1),
        object(),
        Plain(1),
    ]
    results += [Plain(2), Plain([1])]
    outcomes = [*(Outcome(returned=result) for result in results)]
    outcomes += [Outcome(raised=KeyError()), Outcome(raised=ValueError())]
    outcomes += [Outcome(raised=Refused(constraint)) for constraint in "ab"]
    assert len(set(map(make_outcome_value, outcomes))) == len(outcomes)
    form = '<input name="csrfmiddlewaretoken" value="{}">'
    for same in (
        [HttpResponse(form.format(n)) for n in "ab"],
        [{"b": 1, "a": 2}, {"a": 2, "b": 1}, OrderedDict(b=1, a=2)],
        [{8, 0}, {0, 8}],  # which are listed in these orders
        [NOON, NOON.astimezone(timezone(timedelta(hours=2)))],
        [object(), object()],
        [[Plain(1)], [Plain(1)]],
    ):
        assert len({make_outcome_value(Outcome(returned=result)) for result in same}) == 1


def test_model_instances_with_new_ids_are_compared() -> None:
    pair = [partial(Order.objects.create, buyer=buyer) for buyer in ("one", "two")]
    compare(*pair).assert_safe()


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(CannotExplore, match="5 processes have too many serial orders"):
        compare(*[naive] * 5)
    numbers = itertools.count()

    def at_random() -> None:
        if next(numbers) % 3 == 0:
            sql("INSERT INTO serial_audit VALUES ('once')")
        sql("SELECT 1")

    with pytest.raises(
        NotDeterministic, match=r"serial_audit \(what = once\) has 1 row first, and"
    ):
        compare(at_random)


def test_the_part_of_a_result_that_chance_decides_is_not_compared() -> None:
    def counts() -> dict[str, object]:
        sql(ADD_HIT)
        return {"token": random.random(), "hits": 1}

    found = compare(counts, counts)
    found.assert_safe()
    assert found.not_compared == (
        "'token' of what process 1 returns",
        "'token' of what process 2 returns",
    )


def test_a_clock_may_stand_still_while_the_serial_orders_run() -> None:
    """One of seconds differs in a schedule later."""
    calls = itertools.count()

    def run() -> int:
        sql("UPDATE interleave_counter SET hits = 1")
        return next(calls) // 6

    found = explore([run, run], setup=setup)
    assert found.violating == 0
    assert next(calls) > 12
    assert found.not_compared == ("what process 1 returns", "what process 2 returns")


def test_what_is_not_compared_is_a_limit(tmp_path: Path, interleave: Interleave) -> None:
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
