"""The search without a database, and what its result says: no step waits."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from math import comb
from typing import Any

import pytest

from pginterleave import Exploration, NotProven
from pginterleave.choices import ENDED, Position
from pginterleave.searching.runs import rate_simplicity
from pginterleave.searching.search import Search
from pginterleave.searching.state_graph import Ending
from pginterleave.sql.dependent_steps import GLOBAL, LOCAL, Effect, are_dependent
from pginterleave.sql.rows_touched import EVERYWHERE, RowSet

Programs = list[list[Effect]]  # the effects of the steps of each process
WRITE = Effect("write", EVERYWHERE, EVERYWHERE)
ROW, OTHER_ROW = ((RowSet("item", "id", value),) for value in "12")
EFFECTS = [LOCAL, Effect("read", EVERYWHERE), WRITE, GLOBAL]


def run(
    search: Search, programs: Programs, violates: Callable[[str], bool], max_runs: int = 100_000
) -> list[str]:
    """Run the schedules that the search chooses; return the orders that it counts as new."""
    orders: list[str] = []
    for _ in range(max_runs):
        search.rewind()
        order = ""
        while True:
            at = [order.count(str(number)) for number in range(1, len(programs) + 1)]
            ready = {
                number: effects[at[number - 1]]
                for number, effects in enumerate(programs, start=1)
                if at[number - 1] < len(effects)
            }
            if not ready:
                break
            positions = tuple(
                Position("step", str(done)) if number in ready else ENDED
                for number, done in enumerate(at, start=1)
            )
            order += str(search.choose(ready, positions, False))
        ending = Ending.VIOLATED if violates(order) else Ending.HOLDS
        if search.finish_schedule(ending, affected_others=False):
            orders.append(order)
        if not search.advance():
            break
    return orders


def list_orders(programs: Programs) -> list[str]:
    steps = {str(number): len(each) for number, each in enumerate(programs, start=1)}
    orders = [""]
    for _ in range(sum(steps.values())):
        orders = [old + new for old in orders for new in steps if old.count(new) < steps[new]]
    return orders


def count_preemptions(order: str) -> int:
    pairs = enumerate(itertools.pairwise(order), start=1)
    return sum(first != second and first in order[at:] for at, (first, second) in pairs)


def find_equivalents(order: str, programs: Programs) -> set[str]:
    """Return the orders that result from exchanges of adjacent independent steps."""
    known, new = set(), {order}
    while new:
        known |= new
        near = set()
        for each in new:
            for at, (first, second) in enumerate(itertools.pairwise(each)):
                effects = (
                    programs[int(first) - 1][each[:at].count(first)],
                    programs[int(second) - 1][each[:at].count(second)],
                )
                if first != second and not are_dependent(*effects):
                    near.add(each[:at] + second + first + each[at + 2 :])
        new = near - known
    return known


@pytest.mark.parametrize("seed", range(8))
def test_the_counts_are_those_of_all_orders(seed: int) -> None:
    """The steps have random dependencies, and the search may be reduced."""
    chance = random.Random(seed)
    programs = [chance.choices(EFFECTS, k=chance.randint(1, 3)) for _ in range(3)]
    every = list_orders(programs)
    wrong = find_equivalents(chance.choice(every), programs) | find_equivalents(every[-1], programs)
    for reduces in (False, True):
        search = Search(reduces=reduces)
        orders = run(search, programs, wrong.__contains__)
        right = len(every) - len(wrong)
        counted = Counter({Ending.HOLDS: right, Ending.VIOLATED: len(wrong)})
        assert search.count_endings() == counted
        assert len(orders) == len({*orders})
        if not reduces:
            assert sorted(orders) == every
            numbers = [count_preemptions(order) for order in orders]
            assert numbers == sorted(numbers)
        assert search.find_shortest_violation() == min(wrong, key=rate_simplicity)
        assert search.graph.share_done == pytest.approx(1)


@pytest.mark.parametrize(
    ("effect", "dependent"),
    [
        (Effect("read", ROW), True),  # a SELECT sees the writes of a transaction from its end on
        (Effect("write", ROW, ROW), True),
        (Effect("read", OTHER_ROW), False),
        (Effect("write", OTHER_ROW, OTHER_ROW), False),
    ],
)
def test_the_end_of_a_transaction_depends_on_who_reads_or_writes_its_rows(
    effect: Effect, dependent: bool
) -> None:
    end = Effect("end", writes=ROW)
    assert are_dependent(end, effect) is are_dependent(effect, end) is dependent


def test_a_search_that_is_cut_has_seen_the_schedules_with_the_fewest_preemptions() -> None:
    """Of 24,310 schedules of 9 and 8 steps, one with two preemptions shows the race."""
    programs: Programs = [[GLOBAL] * 9, [GLOBAL] * 8]
    assert comb(17, 8) == 24_310
    search = Search()
    orders = run(search, programs, lambda order: order.startswith("1111112222222211"), 1_000)
    assert len(orders) == 1_000
    assert search.count_endings() == Counter({Ending.HOLDS: 999, Ending.VIOLATED: 1})
    assert search.describe_covered() == "Every schedule with at most 3 preemptions was counted"
    everyone = [each for each in list_orders([[GLOBAL] * 4] * 2) if count_preemptions(each) <= 3]
    search = Search()
    assert {*everyone} == {*run(search, [[GLOBAL] * 4] * 2, lambda _: False, len(everyone))}


@pytest.mark.parametrize("bound", [0, 1, 2])
def test_a_bound_leaves_out_exactly_the_schedules_with_more_preemptions(bound: int) -> None:
    programs: Programs = [[GLOBAL] * 4] * 2
    search = Search(max_preemptions=bound)
    within = [order for order in list_orders(programs) if count_preemptions(order) <= bound]
    assert sorted(run(search, programs, lambda _: False)) == within
    assert search.counted_preemptions == bound
    [limit] = search.list_limits()
    assert limit.startswith(f"schedules with more than {bound} preemption")


def test_a_bound_that_no_schedule_exceeds_is_no_limit() -> None:
    search = Search(max_preemptions=5)
    assert len(run(search, [[GLOBAL] * 2] * 2, lambda _: False)) == comb(4, 2)
    assert search.list_limits() == []


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "0 of 5 schedules violate the invariant."),
        ({"violating": 1}, "1 of 5 schedules violates the invariant."),
        ({"violating": 2, "raising": 2}, "In 2 of 5 schedules a process raises an unexpected"),
        ({"serial": True}, "All 5 schedules end as a serial order does."),
        ({"serial": True, "violating": 1}, "1 of 5 schedules ends as no serial order does."),
        (
            {"serial": True, "violating": 3, "raising": 1},
            "2 of 5 schedules end as no serial order does, and in 1 a process raises an unexpected",
        ),
        (
            {"truncated": "late", "left": 2000, "seconds": 4.0, "covered": "Some"},
            "0 of the first 5 schedules violate the invariant. 2 ran; the others are equivalent, "
            "if no memory is shared. The search was truncated: late. About 2,000 or more are left "
            "to run, in some 4,000 s. Some.",
        ),
        ({"unobserved": ("a", "b")}, "Statements were sent past the explorer, by a and b."),
        ({"unseen_commits": ("a", "b")}, "commits within one step into a transaction: a; b."),
        ({"unexplored": ("a", "b")}, "By chance PostgreSQL decides a; b."),
    ],
)
def test_a_result_says_what_was_found_and_what_it_does_not_prove(
    facts: dict[str, Any], text: str
) -> None:
    counts: dict[str, Any] = {"orders": ("12", "21"), "schedules": 5, "violating": 0}
    found = Exploration(**{**counts, "truncated": "", "limits": ("a file", "a lock"), **facts})
    assert text in str(found)
    assert str(found).endswith(" Not checked: a file; a lock.")
    assert found.decided is found.complete is (facts.keys() <= {"violating", "raising", "serial"})
    proves = found.decided and not found.violating
    assert ("What Python does between two statements is not interleaved" in str(found)) is proves
    if not found.decided:
        with pytest.raises(
            NotProven, match=r"^Not proven: .*\n\nNot checked:\n- a file\n- a lock$"
        ):
            found.assert_safe()
