"""How a schedule is written: the choice of each step, and the positions of the processes.

A choice is the number of the process that takes the next step. If the step closes a deadlock whose
victim is another process, ten times the victim's number is added. The process is written as a
digit, and such a victim as a letter: in `2a` process 2 takes the step, and process 1 is the victim.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple


class Position(NamedTuple):
    """Where a process is: before its next step, which may wait for other processes."""

    kind: str
    sql: str
    blockers: tuple[int, ...] = ()


ENDED = Position(kind="ended", sql="")
Positions = tuple[Position, ...]  # of each process
Order = tuple[int, ...]  # the choices of a schedule, or of its first steps
LETTERS = ("", *"abcdefghi")  # of the victims, by their numbers


def process_of(choice: int) -> int:
    """Return the number of the process that takes the step: the last digit of a choice."""
    return choice % 10


def victim_of(choice: int) -> int:
    """Return the number of the victim that a choice plans, or 0: the digit before the last."""
    return choice // 10


def make_choice(process: int, victim: int) -> int:
    return 10 * victim + process


def write_order(choices: Sequence[int]) -> str:
    """Write the choices of a schedule, such as 1 and 12, as `12a`."""
    return "".join(f"{process_of(choice)}{LETTERS[victim_of(choice)]}" for choice in choices)


def parse_order(order: str) -> list[int]:
    """Return the choices of a schedule such as `12a`; other characters are ignored."""
    choices = re.findall(r"([1-9])([a-i]?)", order)
    return [make_choice(int(digit), LETTERS.index(letter)) for digit, letter in choices]


def find_waits_of_victims(choices: Sequence[int]) -> dict[int, int]:
    """Return where the waits of planned victims begin and end, as indexes of steps."""
    ends_of_waits = {}  # by their begins
    for end, choice in enumerate(choices):
        victim = victim_of(choice)
        steps_of_victim = [step for step in range(end) if process_of(choices[step]) == victim]
        if steps_of_victim:
            ends_of_waits[steps_of_victim[-1]] = end
    return ends_of_waits
