"""Small programs at random: a reduced search finds what the search of all schedules finds."""

import random
from collections import Counter as Multiset
from collections.abc import Set
from contextlib import nullcontext
from functools import partial
from math import factorial, prod

import pytest
from django.db import DatabaseError, transaction

from pginterleave import Exploration, Outcome

from .counter import explored, sql

pytestmark = pytest.mark.usefixtures("counter_table")

Program = tuple[str, ...]  # names of statements, each followed by a row; "atomic" stands in front
End = tuple[object, ...]  # what the rows hold in the end, and what became of the processes

UPDATE = "UPDATE interleave_counter SET hits = "
ROW_LOCK = "SELECT hits FROM interleave_counter WHERE key = %s FOR UPDATE"
# With the row as a parameter; what was read last stands in place of {seen}.
STATEMENTS = {
    "read": "SELECT hits FROM interleave_counter WHERE key = %s",
    "lock": ROW_LOCK,
    "skip": f"{ROW_LOCK} SKIP LOCKED",
    "add": UPDATE + "hits + 1 WHERE key = %s",
    "double": UPDATE + "2 * hits WHERE key = %s",
    "write": UPDATE + "{seen} + 1 WHERE key = %s",
    "swap": UPDATE + "{seen} + 1 WHERE key = %s AND hits = {seen} RETURNING 9",
    "guard": UPDATE + "hits + 3 WHERE key = %s AND hits < 2 RETURNING 9",
    "delete": "DELETE FROM interleave_counter WHERE key = %s AND hits > 1 RETURNING 9",
    "all": UPDATE + "(SELECT sum(hits) + 1 FROM interleave_counter) WHERE key = %s",
}
MOST = 150  # schedules of the programs that are explored


def process(program: Program) -> tuple[int, ...]:
    """Run the statements, in a transaction or not; return what they returned."""
    returned = [1]
    with transaction.atomic() if "atomic" in program else nullcontext():
        for name, row in (each.split() for each in program if each != "atomic"):
            rows = sql(STATEMENTS[name].format(seen=returned[-1]), row)
            returned.extend(hits for (hits,) in rows)
    return tuple(returned)


def some_programs(chance: random.Random) -> list[Program]:
    """Return the programs of two or three processes, of which some are the same."""
    while True:
        programs: list[Program] = []
        for _ in range(chance.choice([2, 3])):
            names = chance.choices([*STATEMENTS], k=chance.randint(1, 3))
            statements = [f"{name} {chance.choice('aab')}" for name in names]
            new = (*chance.choice([(), ("atomic",)]), *statements)
            programs.append(chance.choice([new, *programs]))
        steps = [*map(steps_of, programs)]
        if MOST / 10 <= factorial(sum(steps)) / prod(map(factorial, steps)) <= MOST:
            return programs


def steps_of(program: Program) -> int:
    """Return how many steps it takes, with its COMMITs."""
    if "atomic" in program:
        return len(program)
    return sum(1 if each.startswith("read") else 2 for each in program)


def end(outcomes: list[Outcome], programs: list[Program]) -> End:
    """Return how a schedule has ended."""
    rows = sql("SELECT key, hits FROM interleave_counter ORDER BY key")
    each = (
        (program, outcome.returned, type(outcome.raised).__name__)
        for program, outcome in zip(programs, outcomes, strict=True)
    )
    return tuple(rows), *each


def exchanged(reached: End) -> End:
    """Return an end that is the same for all exchanges of processes that run the same program."""
    rows, *each = reached
    return rows, *sorted(each, key=repr)


@pytest.mark.parametrize("seed", range(8))
def test_reduced_searches_find_the_same(seed: int) -> None:
    chance = random.Random(seed)
    programs = some_programs(chance)
    processes = [partial(process, program) for program in programs]

    def explore(wrong: Set[End], ends: Multiset[End], **options: bool) -> Exploration:
        def invariant(outcomes: list[Outcome]) -> str:
            reached = end(outcomes, programs)
            ends[reached] += 1
            return "violated" if exchanged(reached) in wrong else ""

        return explored(*processes, invariant=invariant, expected=DatabaseError, **options)

    every: Multiset[End] = Multiset()
    explore(set(), every).assert_safe()
    wrong = {
        exchanged(each) for each in chance.sample(sorted(every, key=repr), len(every) // 2 + 1)
    }
    violating = sum(number for each, number in every.items() if exchanged(each) in wrong)
    counterexamples = set()
    for reduce in (False, True):
        for symmetric in (False, True) if len({*programs}) < len(programs) else (False,):
            ends: Multiset[End] = Multiset()
            found = explore(wrong, ends, reduce=reduce, symmetric=symmetric)
            counts = (found.schedules, found.violating, found.truncated)
            assert counts == (every.total(), violating, "")
            assert {*map(exchanged, ends)} == {*map(exchanged, every)}
            assert symmetric or {*ends} == {*every}
            assert found.counterexample
            counterexamples.add(found.counterexample.order)
    assert len(counterexamples) == 1
