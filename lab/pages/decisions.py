"""The visitor as the scheduler: the recorded schedules as a tree, walked one step at a time."""

import re
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any, NamedTuple

from lab.exceptions import NotFound
from lab.models import RecordedSchedule, Recording
from lab.pages.equivalence import begun
from lab.pages.schedules import RecordedExploration, pictures, read, sheet_of
from lab.recording.jobs import SERIALIZABLE, Job
from pginterleave.picture.history import prefix, waits

MOST = 500  # schedules among which an equivalent one is looked for, at each step of the visitor
# Where partial-order reduction has left schedules out, and the recording does not tell which.
EQUIVALENT = "can go too, which leads to the same as an order in which it goes earlier or later"


class Choice(NamedTuple):
    """A process at a branch of the tree: `order` is what is taken when it goes next, or "".

    `state` says why it cannot go, or whom PostgreSQL ends as its step closes a deadlock. `key` is
    what chooses it on a keyboard: the process, or the letter of the one that is ended instead.
    """

    process: int
    key: str
    order: str
    state: str


def reach(job: Job, taken: str) -> RecordedExploration | None:
    """Return what was recorded of `job`, with a schedule that begins with `taken`.

    It is one that ran, or equivalent to one. Returns None when nothing was recorded; raises
    NotFound when no order begins so.
    """
    try:
        return read(job, taken, begins=True)
    except NotFound:
        kept = read(job, "", begins=True) if "".join(each_step(taken)) == taken else None
        found = kept and next(equivalents(kept.recording, taken), None)
        if not kept or not found:
            raise
        schedule, ran = found
        return kept._replace(schedule=schedule, ran=ran)


def equivalents(recording: Recording, taken: str) -> Iterator[tuple[RecordedSchedule, str]]:
    """Yield schedules in an order that begins with `taken`, and the equivalent order that ran.

    There are none where every schedule ran, or a limit ended the search.
    """
    serializable = recording.isolation == SERIALIZABLE
    if recording.truncated or not recording.explored < recording.schedules:
        return
    wanted = each_step(taken)
    for schedule in recording.recorded.all()[:MOST]:
        named = zip(schedule.steps, each_step(schedule.order), strict=True)
        recorded = [{**step, "name": name} for step, name in named]
        if steps := begun(recorded, wanted, recording.initial, serializable=serializable):
            ran, order = schedule.order, "".join(step["name"] for step in steps)
            schedule.steps, schedule.order = steps, order
            yield schedule, ran


def each_step(order: str) -> list[str]:
    """Return the steps of an order: "2" is process 2, and in "2a" process 1 (a) is ended by it.

    That is the step that closes a deadlock; without a letter, the process that takes it is ended.
    """
    return re.findall(r"\d[a-z]?", order)


def choices(kept: RecordedExploration, taken: str) -> list[Choice]:
    """Return for each process whether it may go next after the steps `taken`, or why it cannot."""
    number, found = len(each_step(taken)), list[Choice]()
    waiting = [each for each in waits(prefix(kept.schedule.steps, number)) if each.last > number]
    for process in range(1, kept.recording.processes + 1):
        ended = {f"{process}": process}
        ended |= {f"{process}{ascii_lowercase[each.process - 1]}": each.process for each in waiting}
        ways = [name for name in ended if leads_on(kept, taken + name)]
        blocked = next((each for each in waiting if each.process == process), None)
        for name in ways:
            deadlock = f"closes a deadlock that ends process {ended[name]}"
            state = deadlock if len(ways) > 1 else ""
            found.append(Choice(process, name[-1], taken + name, state))
        if not ways and blocked:
            for_whom = " and ".join(map(str, blocked.waited_for))
            found.append(Choice(process, "", "", f"waits for process {for_whom}"))
        elif not ways:
            left = f"{process}" in kept.schedule.order[len(taken) :]
            unexplored = "was not explored from here" if kept.recording.truncated else EQUIVALENT
            found.append(Choice(process, "", "", unexplored if left else "has ended"))
    return found


def leads_on(kept: RecordedExploration, taken: str) -> bool:
    """Return whether an order that ran begins with `taken`, or is equivalent to one that does."""
    wanted = each_step(taken)
    if not any(wanted[-1] in each.order for each in kept.orders):
        return False
    return any(each_step(each.order)[: len(wanted)] == wanted for each in kept.orders) or any(
        equivalents(kept.recording, taken)
    )


def branch(kept: RecordedExploration, taken: str) -> dict[str, Any]:
    """Return what the page shows after the steps `taken`; all is told when there are no more."""
    recording, schedule, number = kept.recording, kept.schedule, len(each_step(taken))
    sheet = sheet_of(recording, schedule, number)
    return {
        "taken": taken,
        "ran": kept.ran or schedule.order,
        "before": "".join(each_step(taken)[:-1]),
        "ended": sheet.ended,
        "verdict": sheet.verdict,
        "told": " ".join(sheet.told[max(0, number - 1) :]),
        "choices": [] if sheet.ended else choices(kept, taken),
        "pictures": pictures(sheet, f"The steps taken so far: {taken or 'none'}"),
        "lines": current_lines(schedule, number),
        "held": sheet.held,
    }


def current_lines(schedule: RecordedSchedule, taken: int) -> dict[int, str]:
    at = {step["process"]: step["line"] for step in schedule.steps[:taken] if step["line"]}
    lines: dict[int, list[int]] = {}
    for process, line in sorted(at.items()):
        lines.setdefault(line, []).append(process)
    return {line: " ".join(f"P{process}" for process in there) for line, there in lines.items()}
