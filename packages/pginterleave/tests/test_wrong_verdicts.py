"""Programs of everyday Django, and how each is judged: what a test shares with its processes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pginterleave import CannotExplore
from pginterleave.pytest_plugin import Interleave

from .counter import Counter, hits

pytestmark = pytest.mark.usefixtures("counter_table")


class Box:
    def __init__(self, row: Counter) -> None:
        self.row = row

    def count(self) -> None:
        count(self.row)


def count(row: Counter) -> None:
    """Count with what the object holds, as a method of a model does."""
    row.hits += 1
    row.save()


def make(hits: int = 0) -> Counter:
    return Counter.objects.create(id=1, key="a", hits=hits)


def by_a_default(row: Counter) -> Any:
    def process(row: Counter = row) -> None:
        count(row)

    return process


def by_a_keyword_default(row: Counter) -> Any:
    def process(*, row: Counter = row) -> None:
        count(row)

    return process


def by_a_nested_function(row: Counter) -> Any:
    def inner() -> None:
        count(row)

    return lambda: inner()


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a closure": lambda row: lambda: count(row),
    "a partial": lambda row: partial(count, row),
    "a keyword": lambda row: partial(count, row=row),
    "a default": by_a_default,
    "a keyword default": by_a_keyword_default,
    "a nested function": by_a_nested_function,
    "a method": lambda row: Box(row).count,
    "an attribute": lambda row: (lambda box: lambda: box.count())(Box(row)),
    "a list": lambda row: (lambda rows: lambda: count(rows[0]))([row]),
    "a dict": lambda row: (lambda rows: lambda: count(rows["a"]["b"]))({"a": {"b": row}}),
    "a queryset": lambda row: (lambda rows: lambda: count(rows[0]))(Counter.objects.all()),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_object_of_the_test_is_loaded_by_each_process(
    interleave: Interleave, holder: str
) -> None:
    row = make(7)
    with pytest.raises(AssertionError, match=r"interleave_counter.hits is 8; one .* it is 9"):
        interleave(HOLDERS[holder](row))
    assert (row.hits, hits()) == (7, 7)


def test_an_object_that_setup_makes_is_loaded_by_each_process(interleave: Interleave) -> None:
    rows: dict[str, Counter] = {}

    def setup() -> None:
        rows["a"] = make()

    with pytest.raises(AssertionError, match=r"interleave_counter.hits is 1; one .* it is 2"):
        interleave(lambda: count(rows["a"]), setup=setup)


def test_a_list_that_processes_fill_is_the_tests_own(interleave: Interleave) -> None:
    made: list[Counter] = []
    make()

    def process() -> None:
        made.append(Counter.objects.get(key="a"))

    interleave(process, invariant=lambda _: None)
    assert len(made) > 2


def test_an_object_whose_row_another_process_deletes(interleave: Interleave) -> None:
    row = make()
    interleave(lambda: Counter.objects.filter(pk=row.pk).delete())
    interleave(row.delete)


def test_an_object_without_a_row_is_refused(interleave: Interleave) -> None:
    row = Counter(id=3, key="c", hits=0)
    with pytest.raises(CannotExplore, match=r"^row is a Counter that is not saved, .* make it in"):
        interleave(lambda: row.save())


def test_an_object_with_changes_is_refused(interleave: Interleave) -> None:
    row = make()
    row.hits = 5
    with pytest.raises(CannotExplore, match=r"whose hits is 5, and 0 in the database. Each"):
        interleave(row.save)


ROW: Counter | None = None


def test_an_object_in_a_variable_of_the_module_is_refused(interleave: Interleave) -> None:
    global ROW
    ROW = make()
    try:
        with pytest.raises(CannotExplore, match=r"uses ROW, a Counter in a variable of the module"):
            interleave(lambda: ROW.delete() if ROW else None)
    finally:
        ROW = None
