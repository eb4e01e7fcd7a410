"""What a failure says: the point in the first line, then what differs, the drawing, the search."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache.backends.locmem import LocMemCache
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.middleware.csrf import get_token

from pginterleave import NotDeterministic
from pginterleave.judging.differences import Difference, cut_texts, write_table
from pginterleave.pytest_plugin import Interleave

from . import counter
from .counter import Process, hits, sql, transact
from .shop import Item
from .test_example import buy_checking_first

pytestmark = pytest.mark.usefixtures("tables", "item_table")

TABLES = "CREATE TABLE message_log (id serial PRIMARY KEY, text text, size int)"


@pytest.fixture(autouse=True)
def rows(tables: None, item_table: None) -> None:
    counter.setup()
    Item.objects.create(name="lamp", stock=1)


def log_once() -> None:
    if not sql("SELECT 1 FROM message_log WHERE text = 'x'"):
        sql("INSERT INTO message_log (text) VALUES ('x')")


def take_both_rows(first: str, second: str) -> Process:
    add = "UPDATE interleave_counter SET hits = hits + 1 WHERE key = '{}'"
    return transact(add.format(first), add.format(second))


def restock() -> None:
    lamp = Item.objects.get(name="lamp")
    lamp.stock += 10
    lamp.save()


def buy_and_count() -> dict[str, object]:
    return {"bought": buy_checking_first(), "kinds": ["lamp"]}


def list_counters() -> list[str]:
    """Return a text for each counter, and one more if somebody has counted before."""
    texts = ["a counter with a long description"] * 5
    before = hits()
    sql("UPDATE interleave_counter SET hits = %s WHERE key = 'a'", before + 1)
    return texts + ["counted"] * before


def answer_page() -> HttpResponse:
    """Answer 200 in any case, with a form of which Django masks the token anew each time."""
    text = "Thank you" if buy_checking_first() else "Sold out"
    form = f'<input type="hidden" name="csrfmiddlewaretoken" value="{get_token(HttpRequest())}">'
    return HttpResponse(f"{form}<p>{text} for now</p>")


def redirect() -> HttpResponse:
    return HttpResponseRedirect("/thanks/" if buy_checking_first() else "/sold-out/")


SECOND = "One after the other, the second returns"


@pytest.mark.parametrize(
    ("functions", "options", "beginning"),
    [
        ([buy_checking_first], {}, f"Race: both returned True. {SECOND} False."),
        (
            [buy_checking_first],
            {"processes": 3},
            f"Race: processes 1 and 2 returned True. {SECOND} False.",
        ),
        (
            [buy_and_count],
            {},
            f"Race: both returned 'bought' = True. {SECOND} 'bought' = False.",
        ),
        (
            [lambda: [buy_checking_first()]],
            {},
            f"Race: both returned [0] = True. {SECOND} [0] = False.",
        ),
        (
            [list_counters],
            {},
            "Race: both returned no more. One after the other, the second returns [5] = 'cou",
        ),
        ([redirect], {}, f"Race: both returned Location = '/thanks/'. {SECOND} Location = '/s"),
        (
            [answer_page],
            {},
            'Race: both returned content = …value=""><p>Thank you for now</p>\'. '
            f'{SECOND} content = …value=""><p>Sold out for now</p>\'.',
        ),
        (
            [restock],
            {},
            "Race: shop_item.stock (name = lamp) is 11. One after the other, it is 21.\n\n"
            "                               here  in the order 1, 2\n"
            "shop_item.stock (name = lamp)  11    21\n\n"
            "   process 1",
        ),
        (
            [log_once],
            {},
            "Race: message_log (text = x, size = NULL) has 2 rows. One after the other, it has 1 ",
        ),
        (
            [take_both_rows("a", "b"), take_both_rows("b", "a")],
            {},
            "Race: process 1 raises OperationalError: deadlock detected. One after the other, it "
            "does not.\n\n   process 1",
        ),
        (
            [take_both_rows("a", "b"), take_both_rows("b", "a")],
            {"invariant": counter.anything},
            "Race: process 1 raises OperationalError: deadlock detected\n\n   process 1",
        ),
        (
            [counter.naive],
            {"invariant": lambda outcomes: "" if hits() == 2 else "an update was lost"},
            "Race: an update was lost\n\n   process 1",
        ),
        (
            [counter.naive],
            {"invariant": counter.expect_hits(3)},
            "hits = 2\n\nThe functions fail one after the other, too: there is no race. Check",
        ),
        (
            [lambda code: None],
            {},
            "TypeError: <lambda>() missing 1 required positional argument: 'code'\n\n"
            "The functions fail one after the other, too: there is no race. A function gets no "
            "arguments: give those it needs by partial(function, …).\n\nNothing was sent.",
        ),
        (
            [buy_checking_first],
            {"like": lambda: buy_checking_first() and None, "processes": 1},
            "returned True. With like=, one after the other, it returns None.",
        ),
    ],
)
def test_a_failure_begins_with_the_point(
    interleave: Interleave,
    functions: list[Callable[..., object]],
    options: dict[str, Any],
    beginning: str,
) -> None:
    with pytest.raises(AssertionError) as raised:
        interleave(*functions, **options)
    message = str(raised.value)
    assert message.removeprefix("process 1 ").startswith(beginning), message


def test_the_search_and_the_limits_come_last(interleave: Interleave) -> None:
    with pytest.raises(AssertionError) as raised:
        interleave(log_once)
    *_, found, _, command = str(raised.value).split("\n\n")
    assert found == (
        "This is the schedule 112221, the shortest so far. 1 of the first 3 schedules ends as no "
        "serial order does. The search stopped there."
    )
    assert command.endswith("--interleave-replay 112221")


def test_who_is_refused_is_asked_whether_that_is_right(interleave: Interleave) -> None:
    take = transact("SELECT 1 FROM interleave_counter WHERE id = 1 FOR UPDATE NOWAIT")
    with pytest.raises(AssertionError) as raised:
        interleave(take)
    _, hint, *_ = str(raised.value).split("\n\n")
    assert hint == "If process 2 may be refused as busy, give expected=OperationalError"
    interleave(take, expected=OperationalError)


def test_a_throttle_shows_both_ends_and_its_cache(interleave: Interleave) -> None:
    cache = LocMemCache("throttle", {})

    def answer() -> HttpResponse:
        cache.add("requests", 0)
        if cache.incr("requests") > 5:
            return HttpResponse("slow down", status=429)
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        return HttpResponse("ok")

    with pytest.raises(NotDeterministic) as raised:
        interleave(answer)
    message = str(raised.value)
    assert message.startswith(
        "Run twice in the order 1, 2, the functions end differently: process 1 returned "
        "status_code = 200 first, and then returned status_code = 429.\n\n"
    )
    assert "\ninterleave_counter.hits (id = 1)  2                           0\n" in message
    assert message.endswith(
        "They have used Django's cache in local memory, which nothing puts back."
    )
    interleave(answer, setup=cache.clear)


def test_a_process_that_changes_shows_its_statements_as_a_drawing_does(
    interleave: Interleave,
) -> None:
    calls = itertools.count()

    def look() -> None:
        hits()
        sql("SELECT 1" if next(calls) % 2 else "SELECT 2")
        counter.naive()

    with pytest.raises(NotDeterministic) as raised:
        interleave(look, counter.naive, invariant=counter.anything)
    assert str(raised.value).startswith("In the same schedule, process 1 does not do the same each")
    assert re.search(r"'SELECT [12]' (now|the first)", str(raised.value))
    assert '"' not in str(raised.value)


def test_a_long_text_is_cut_around_what_differs_and_a_long_table_at_its_end() -> None:
    begin, end = "a" * 100, "z" * 100
    assert cut_texts(f"{begin}1{end}", f"{begin}2{end}") == (
        f"…{'a' * 12}1{'z' * 35}…",
        f"…{'a' * 12}2{'z' * 35}…",
    )
    assert cut_texts("", "a") == ("''", "a")
    differences = [Difference(f"row {number}", "1", "2") for number in range(20)]
    assert write_table(differences, "here", "there").endswith("row 11  1     2\nand 8 more")
