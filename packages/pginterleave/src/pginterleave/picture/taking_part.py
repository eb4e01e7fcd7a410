"""Which steps of a wrong schedule of two processes take part in the race.

The others are about tables that only one process uses, that none changes, or that are ignored.
"""

from collections import defaultdict
from collections.abc import Set

from pginterleave.picture.history import History
from pginterleave.picture.wording import RecordedStep


def find_steps_that_take_part(steps: list[RecordedStep], ignored_tables: Set[str]) -> set[int]:
    """Return the numbers, from 1, of the steps that meet the other process, or fail.

    A step meets the other process if it waits or is waited for, takes an advisory lock, uses a
    table that the other one writes or locks, or writes or locks one that the other one uses.
    """
    used: dict[int, set[str]] = defaultdict(set)  # tables by process
    written: dict[int, set[str]] = defaultdict(set)
    for step in steps:
        written[step["process"]] |= list_written(step) - ignored_tables
        used[step["process"]] |= (list_written(step) | {*step["tables"]}) - ignored_tables
    released = {step["until"] for step in steps if step["waited_for"]}
    numbers = set()
    for number, step in enumerate(steps, start=1):
        other = 3 - step["process"]  # of processes 1 and 2
        meets = written[other].intersection(step["tables"]) or used[other] & list_written(step)
        stops = step["lock_name"] or step["waited_for"] or step["error"] or number in released
        if meets or stops:
            numbers.add(number)
    return numbers


def choose_steps(steps: list[RecordedStep], ignored_tables: Set[str]) -> list[RecordedStep]:
    """Return the steps that take part, and the ends of their transactions and the like.

    They have new numbers in `until`.
    """
    taking_part = find_steps_that_take_part(steps, ignored_tables)
    chosen = set[int]()
    for transaction in History(steps).split_into_transactions():
        numbers = {step["number"] for step in transaction}
        if not numbers.isdisjoint(taking_part):
            uses_table = {
                step["number"] for step in transaction if step["tables"] or step["writes"]
            }
            chosen |= (numbers & taking_part) | (numbers - uses_table)
    new_numbers = {number: new for new, number in enumerate(sorted(chosen), start=1)}
    return [
        steps[number - 1] | {"until": new_numbers[steps[number - 1]["until"]]}
        for number in new_numbers
    ]


def list_written(step: RecordedStep) -> set[str]:
    """Return the tables that a step writes, or of which it locks rows."""
    locked = [step["table"]] if step["lock"] and step["table"] else []
    return {*step["writes"], *locked}
