"""The visitor as the scheduler: explored schedules as a tree, taken one step at a time."""

import re
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any, NamedTuple

from lab.exceptions import NotFound
from lab.exploring.explored import Explored, KeptSchedule
from lab.exploring.jobs import SERIALIZABLE
from lab.pages.equivalence import begun
from lab.pages.schedules import Chosen, choose, pictures, sheet_of
from pginterleave.picture.history import prefix, waits

MOST = 500  # the schedules that are searched for an equivalent one, at each step of the visitor
# Said if partial-order reduction left schedules out, and the exploration does not tell which.
EQUIVALENT = "can go too, with the same result as if it went earlier or later"


class Choice(NamedTuple):
    """A process at a branch of the tree: `order` has its next step, or is "" if it cannot go.

    `state` says why it cannot go, or which process PostgreSQL ends if its step closes a deadlock.
    `key` is its key on the keyboard: the process, or the letter of the one that is ended instead.
    """

    process: int
    key: str
    order: str
    state: str


def reach(explored: Explored, taken: str) -> Chosen:
    """Return a schedule that begins with `taken`: it ran, or is equivalent to one that ran.

    Raises NotFound if no order begins with `taken`.
    """
    try:
        return choose(explored, taken, begins=True)
    except NotFound:
        is_order = "".join(each_step(taken)) == taken
        if is_order and (found := next(equivalents(explored, taken), None)):
            return found
        raise


def equivalents(explored: Explored, taken: str) -> Iterator[Chosen]:
    """Yield schedules in an order that begins with `taken`, equivalent to an order that ran.

    Yields none if every schedule ran, or if a limit ended the search.
    """
    serializable = explored.job.isolation == SERIALIZABLE
    if explored.truncated or not explored.ran < explored.schedules:
        return
    wanted = each_step(taken)
    for number in range(min(MOST, explored.ran)):
        schedule = explored.schedule(number)
        named = zip(schedule.steps, each_step(schedule.order), strict=True)
        steps = [{**step, "name": name} for step, name in named]
        if found := begun(steps, wanted, explored.initial, serializable=serializable):
            ran, order = schedule.order, "".join(step["name"] for step in found)
            schedule.steps, schedule.order = found, order
            yield Chosen(explored, number, schedule, ran)


def each_step(order: str) -> list[str]:
    """Return the steps of an order: "2" is a step of process 2, and "2a" ends process 1 (a).

    A step with a letter closes a deadlock. Without the letter, its own process is ended.
    """
    return re.findall(r"\d[a-z]?", order)


def choices(chosen: Chosen, taken: str) -> list[Choice]:
    """Return for each process whether it can go next after the steps `taken`, or why it cannot."""
    number, found = len(each_step(taken)), list[Choice]()
    waiting = [each for each in waits(prefix(chosen.schedule.steps, number)) if each.last > number]
    for process in range(1, chosen.explored.job.processes + 1):
        ended = {f"{process}": process}
        ended |= {f"{process}{ascii_lowercase[each.process - 1]}": each.process for each in waiting}
        ways = [name for name in ended if leads_on(chosen.explored, taken + name)]
        blocked = next((each for each in waiting if each.process == process), None)
        for name in ways:
            deadlock = f"closes a deadlock that ends process {ended[name]}"
            state = deadlock if len(ways) > 1 else ""
            found.append(Choice(process, name[-1], taken + name, state))
        if not ways and blocked:
            holders = " and ".join(map(str, blocked.waited_for))
            found.append(Choice(process, "", "", f"waits for process {holders}"))
        elif not ways:
            left = f"{process}" in chosen.schedule.order[len(taken) :]
            unexplored = "was not explored from here" if chosen.explored.truncated else EQUIVALENT
            found.append(Choice(process, "", "", unexplored if left else "has ended"))
    return found


def leads_on(explored: Explored, taken: str) -> bool:
    """Return whether an order that begins with `taken` ran, or is equivalent to one that ran."""
    wanted = each_step(taken)
    if not any(wanted[-1] in each.order for each in explored.ends):
        return False
    return any(each_step(each.order)[: len(wanted)] == wanted for each in explored.ends) or any(
        equivalents(explored, taken)
    )


def branch(chosen: Chosen, taken: str) -> dict[str, Any]:
    """Return what the page shows after the steps `taken`; after the last one, also the verdict."""
    explored, schedule, number = chosen.explored, chosen.schedule, len(each_step(taken))
    sheet = sheet_of(explored, schedule, number)
    return {
        "taken": taken,
        "ran": chosen.ran or schedule.order,
        "before": "".join(each_step(taken)[:-1]),
        "ended": sheet.ended,
        "verdict": sheet.verdict,
        "told": " ".join(sheet.told[max(0, number - 1) :]),
        "choices": [] if sheet.ended else choices(chosen, taken),
        "pictures": pictures(sheet, f"The steps taken so far: {taken or 'none'}"),
        "lines": current_lines(schedule, number),
        "held": sheet.held,
    }


def current_lines(schedule: KeptSchedule, taken: int) -> dict[int, str]:
    at = {step["process"]: step["line"] for step in schedule.steps[:taken] if step["line"]}
    lines: dict[int, list[int]] = {}
    for process, line in sorted(at.items()):
        lines.setdefault(line, []).append(process)
    return {line: " ".join(f"P{process}" for process in there) for line, there in lines.items()}
