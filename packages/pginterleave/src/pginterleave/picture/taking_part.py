"""Which steps of a wrong schedule take part in the race: the report and the page show these."""

from collections import Counter, defaultdict
from typing import Any

from pginterleave.discovery.candidates import IGNORED_TABLES
from pginterleave.formatting import cut_to_columns
from pginterleave.picture.wording import RecordedStep, find_changing_columns
from pginterleave.steps import ENDS_OF_BLOCKS, Timeline


def find_steps_that_take_part(steps: list[RecordedStep]) -> set[int]:
    """Return the numbers, from 1, of the steps that meet another process, or fail.

    A step meets another process if it waits or is waited for, takes an advisory lock, uses a table
    that the other one writes or locks, or writes or locks one that the other one uses.
    """
    used: dict[int, set[str]] = defaultdict(set)  # tables by process
    written: dict[int, set[str]] = defaultdict(set)
    for step in steps:
        used[step["process"]] |= _list_tables(step)
        written[step["process"]] |= _list_written(step)
    released = {step["until"] for step in steps if step["waited_for"]}
    numbers = set()
    for number, step in enumerate(steps, start=1):
        others = used.keys() - {step["process"]}
        used_by_others = set[str]().union(*(used[other] for other in others))
        written_by_others = set[str]().union(*(written[other] for other in others))
        meets = _list_tables(step) & written_by_others or _list_written(step) & used_by_others
        stops = step["lock_name"] or step["waited_for"] or step["error"] or number in released
        if meets or stops:
            numbers.add(number)
    return numbers


def choose_steps(steps: list[RecordedStep]) -> list[RecordedStep]:
    """Return the steps that take part, and the ends of their transactions and the like.

    They have new numbers in `until`.
    """
    taking_part = find_steps_that_take_part(steps)
    transactions = Counter[int]()  # that have ended, by process
    kept: dict[tuple[int, int], list[int]] = defaultdict(list)  # the numbers, by transaction
    for number, step in enumerate(steps, start=1):
        process = step["process"]
        if number in taking_part or not (step["tables"] or step["writes"]):
            kept[process, transactions[process]].append(number)
        if process not in step["in_transaction"]:
            transactions[process] += 1
    of_races = [numbers for numbers in kept.values() if not taking_part.isdisjoint(numbers)]
    chosen = sorted(number for numbers in of_races for number in numbers)
    new_numbers = {number: new for new, number in enumerate(chosen, start=1)}
    return [
        steps[number - 1] | {"until": new_numbers[steps[number - 1]["until"]]} for number in chosen
    ]


def list_statements(timeline: Timeline, steps: list[RecordedStep]) -> list[dict[str, Any]]:
    """Return the statements that take part, as Race.statements; `steps` are the recorded ones.

    The COMMIT or ROLLBACK of a write is one of them if another process comes between the two.
    """
    taking_part = find_steps_that_take_part(steps)
    columns = set[str]().union(*find_changing_columns(steps).values())
    statements: list[dict[str, Any]] = []
    writers: set[int] = set()  # the processes with a listed write that is not committed
    for taken, step in zip(timeline, steps, strict=True):
        process = step["process"]
        is_late_end = False
        if step["kind"] in ("COMMIT", "ROLLBACK") and process in writers:
            writers.discard(process)
            is_late_end = statements[-1]["process"] != process
        takes_part = taken.number in taking_part and step["kind"] not in ENDS_OF_BLOCKS
        if takes_part or step["error"] or is_late_end:
            writers |= {process} if _list_written(step) else set()
            sql = cut_to_columns(step["sql"], columns)
            facts = {"process": process, "sql": sql, "result": taken.result(columns)}
            statements.append({**facts, "where": step["where"]})
    return statements


def _list_written(step: RecordedStep) -> set[str]:
    """Return the tables that a step writes, or of which it locks rows."""
    locked = [step["table"]] if step["lock"] and step["table"] else []
    return {*step["writes"], *locked} - IGNORED_TABLES


def _list_tables(step: RecordedStep) -> set[str]:
    return ({*step["tables"]} - IGNORED_TABLES) | _list_written(step)
