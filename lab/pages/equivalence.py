"""Orders that were not run, derived from equivalent orders that ran.

A schedule that partial-order reduction left out differs from one that ran only in the order of
adjacent independent steps. Fewer steps count as independent here than in the explorer: a step
depends on every other one unless the recording shows that it does not.
"""

import re
from itertools import combinations

from pginterleave.picture.wording import WRITES, Step

CLOCKS = {"statement_timestamp", "clock_timestamp", "now"}  # functions that a read may call
LOCAL = ("SAVEPOINT", "RELEASE")  # they end no wait, as locks last until the transaction ends


def independent(one: Step, two: Step, *, serializable: bool) -> bool:
    """Return whether the order of two steps of two processes makes no difference."""
    if one["kind"] in LOCAL or two["kind"] in LOCAL:
        return True
    if any(step["error"] or step["waited_for"] for step in (one, two)):
        return False
    kinds = [step["kind"] for step in (one, two)]
    reads = [kind == "SELECT" for kind in kinds]
    return (
        not serializable
        and any(reads)
        and all(kind == "SELECT" or kind in WRITES for kind in kinds)
        and all(_only_reads(step) or _uncommitted(step) for step in (one, two))
    )


def _only_reads(step: Step) -> bool:
    calls = {name.lower() for name in re.findall(r"(\w+)\(", step["sql"])}
    return step["kind"] == "SELECT" and not step["lock"] and calls <= CLOCKS


def _uncommitted(step: Step) -> bool:
    return step["kind"] in WRITES and step["process"] in step["in_transaction"]


def begun(
    steps: list[Step], taken: list[str], initial: str, *, serializable: bool
) -> list[Step] | None:
    """Return the steps in an equivalent order that begins with `taken`; None if there is none.

    The `name` of a step is its text in `taken`. `initial` is what the rows contain at first.
    `serializable` says whether all transactions are.
    """
    places = _places(steps, taken)
    if places is None:
        return None
    order = [*places, *(number for number in range(len(steps)) if number not in places)]
    position = {number: place for place, number in enumerate(order)}
    for first, second in combinations(range(len(steps)), 2):
        one, two = steps[first], steps[second]
        if position[first] > position[second] and not independent(
            one, two, serializable=serializable
        ):
            return None
    return _in_order(steps, order, initial)


def _places(steps: list[Step], taken: list[str]) -> list[int] | None:
    """Return the position in `steps` of each of `taken`; None if a process takes no such step."""
    found = list[int]()
    for name in taken:
        own = (n for n, step in enumerate(steps) if n not in found and step["name"][0] == name[0])
        place = next(own, None)
        if place is None or steps[place]["name"] != name:
            return None
        found.append(place)
    return found


def _in_order(steps: list[Step], order: list[int], initial: str) -> list[Step]:
    """Return the steps in another order, with the numbers and rows that follow from it."""
    changes = {
        number
        for number, step in enumerate(steps)
        if step["observed"] != (steps[number - 1]["observed"] if number else initial)
    }
    found, held, inside = list[Step](), initial, dict[int, bool]()
    for number in order:
        step = steps[number]
        held = step["observed"] if number in changes else held
        let_go = [each for each in steps[:number] if each["until"] == number + 1]
        for each in (step, *let_go):
            inside[each["process"]] = each["process"] in step["in_transaction"]
        until = order.index(step["until"] - 1) + 1
        now = sorted(process for process, is_in in inside.items() if is_in)
        found.append({**step, "until": until, "observed": held, "in_transaction": now})
    return found
