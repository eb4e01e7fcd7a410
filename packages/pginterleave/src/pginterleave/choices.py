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


ENDED = Position("ended", "")
Positions = tuple[Position, ...]  # of each process
Order = tuple[int, ...]  # the choices of a schedule, or of its first steps
LETTERS = ("", *"abcdefghi")  # of the victims, by their numbers


def process_of(choice: int) -> int:
    return choice % 10


def victim_of(choice: int) -> int:
    """Return the number of the planned victim, or 0."""
    return choice // 10


def with_victim(process: int, victim: int) -> int:
    return 10 * victim + process


def write_order(choices: Sequence[int]) -> str:
    return "".join(f"{process_of(choice)}{LETTERS[victim_of(choice)]}" for choice in choices)


def parse_order(order: str) -> list[int]:
    """Return the choices of a schedule; other characters are ignored."""
    choices = re.findall(r"([1-9])([a-i]?)", order)
    return [with_victim(int(digit), LETTERS.index(letter)) for digit, letter in choices]


def find_waits_of_victims(choices: Sequence[int]) -> dict[int, int]:
    """Return, by the step at which a victim waits, the step that closes its deadlock; from 0."""
    waits = {}
    for closing, choice in enumerate(choices):
        earlier = [i for i in range(closing) if process_of(choices[i]) == victim_of(choice)]
        if victim_of(choice) and earlier:
            waits[earlier[-1]] = closing
    return waits
