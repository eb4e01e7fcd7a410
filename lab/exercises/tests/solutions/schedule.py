"""Solutions of the exercise `schedule`."""

from typing import Any


def process_3_looks_before_process_1_writes():
    return "12222111331133"


def all_in_turn():
    return "123" * 4


def none_at_all():
    pass


RIGHT: list[Any] = [process_3_looks_before_process_1_writes]
WRONG: dict[Any, str] = {
    all_in_turn: "and no process has noticed a write",
    none_at_all: "'None' is not a schedule of this race",
}
