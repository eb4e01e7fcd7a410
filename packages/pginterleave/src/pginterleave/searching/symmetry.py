"""Which processes are the same, so that exchanging them does not change a schedule."""

import functools
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from pginterleave.explorer_errors import CannotExplore, ImpossibleSchedule, NotDeterministic
from pginterleave.results import Schedule

PLAIN = (type(None), bool, bytes, int, str)  # equal values of these types are interchangeable


def find_alike(processes: Sequence[Callable[[], object]]) -> list[tuple[int, ...]]:
    """Return the numbers of the processes that are the same, a tuple for each set of them.

    Raises CannotExplore if no two are the same.
    """
    sets: list[list[int]] = []
    for number, process in enumerate(processes, start=1):
        for each in sets:
            if _is_same(processes[each[0] - 1], process):
                each.append(number)
                break
        else:
            sets.append([number])
    alike = [tuple(each) for each in sets if len(each) > 1]
    if not alike:
        raise CannotExplore(
            "symmetric=True, but no two processes are the same: give the same function twice, or "
            "functools.partial of the same function with the same arguments. Two lambdas or "
            "closures are never the same, because they may close over different values."
        )
    return alike


def _is_same(first: Any, second: Any) -> bool:
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, PLAIN):
        return bool(first == second)
    if type(first) is tuple:
        return len(first) == len(second) and all(map(_is_same, first, second))
    if type(first) is functools.partial:
        return (
            _is_same(first.func, second.func)
            and _is_same(first.args, second.args)
            and first.keywords.keys() == second.keywords.keys()
            and all(_is_same(value, second.keywords[key]) for key, value in first.keywords.items())
        )
    if type(first) is MethodType:
        return first.__self__ is second.__self__ and first.__func__ is second.__func__
    return False


class Check:
    """Runs some schedules again with the processes exchanged, to check that they are the same.

    These are the first, the second, the fourth and so on, and the first violating schedule.
    """

    def __init__(self, alike: Sequence[tuple[int, ...]]) -> None:
        self.kept: list[Schedule] = []
        self.seen = 0
        self.violating = False
        # Each process takes the place of the next: to exchange two would leave out the others.
        rotated = ((each, (*each[1:], each[0])) for each in alike)
        pairs = ((str(a), str(b)) for sets in rotated for a, b in zip(*sets, strict=True))
        exchanged = dict(pairs)
        letters = {chr(ord("`") + int(a)): chr(ord("`") + int(b)) for a, b in exchanged.items()}
        self.exchange = str.maketrans(exchanged | letters)

    def note(self, schedule: Schedule) -> None:
        if not self.exchange:
            return
        self.seen += 1
        first_violating = bool(schedule.violation) and not self.violating
        if first_violating or self.seen & (self.seen - 1) == 0:
            self.kept.append(schedule)
        self.violating = self.violating or first_violating

    def run(self, run: Callable[[str], Schedule]) -> None:
        """Run the kept schedules with the processes exchanged.

        Raises NotDeterministic if a schedule has another result.
        """
        for schedule in self.kept:
            order = schedule.order.translate(self.exchange)
            try:
                other = run(order)
                same = _what_happened(schedule) == _what_happened(other)
            except ImpossibleSchedule:
                same = False
            if not same:
                raise NotDeterministic(
                    f"The processes are not symmetric: {schedule.order} and {order}, in which they "
                    "are exchanged, have different results. Explore without symmetric=True if "
                    "the processes, setup or the invariant tell them apart."
                )


def _what_happened(schedule: Schedule) -> tuple[object, ...]:
    steps = [(step.kind, step.sql, step.error, step.until) for step in schedule.timeline]
    return bool(schedule.violation), steps
