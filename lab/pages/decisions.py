"""The visitor as the scheduler: the recorded schedules as a tree, walked one step at a time."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.models import RecordedSchedule, Recording
from lab.pages.equivalence import begun
from lab.pages.picture.conflicts import Conflict, conflicts
from lab.pages.picture.spans import prefix, waits
from lab.pages.schedules import HEADS, RecordedExploration, drawings, read
from lab.recording.jobs import LEVELS, READ_COMMITTED, Job

SERIALIZABLE = LEVELS[-1]
MOST = 500  # schedules among which an equivalent one is looked for, at each step of the visitor
# Where partial-order reduction has left schedules out, and the recording does not tell which.
EQUIVALENT = "can go too, which leads to the same as an order in which it goes earlier or later"


class Choice(NamedTuple):
    """A process at a branch of the tree: `order` is what is taken when it goes next, or "".

    Where it cannot go, `state` says why.
    """

    process: int
    order: str
    state: str


def reach(job: Job, taken: str) -> RecordedExploration | None:
    """Return what was recorded of `job`, with a schedule that begins with `taken`.

    It is one that ran, or equivalent to one. Returns None when nothing was recorded; raises
    ValueError when no order begins so.
    """
    try:
        return read(job, taken, begins=True)
    except ValueError:
        kept = read(job, "", begins=True) if taken.isdecimal() else None
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
    for schedule in recording.recorded.all()[:MOST]:
        if steps := begun(schedule.steps, taken, recording.initial, serializable=serializable):
            ran, order = schedule.order, "".join(str(each["process"]) for each in steps)
            schedule.steps, schedule.order = steps, order
            yield schedule, ran


def choices(kept: RecordedExploration, taken: str) -> list[Choice]:
    """Return who may go next after the steps `taken`, and what keeps the others from it."""
    steps = kept.schedule.steps
    found = []
    for process in range(1, kept.recording.processes + 1):
        order = f"{taken}{process}"
        left = str(process) in kept.schedule.order[len(taken) :]
        blocked = [
            each
            for each in waits(prefix(steps, len(taken)))
            if each.process == process and each.last > len(taken)
        ]
        if any(each.startswith(order) for each, _ in kept.orders) or any(
            equivalents(kept.recording, order)
        ):
            found.append(Choice(process, order, ""))
        elif blocked:
            for_whom = " and ".join(map(str, blocked[0].waited_for))
            found.append(Choice(process, "", f"waits for process {for_whom}"))
        else:
            unexplored = "was not explored from here" if kept.recording.truncated else EQUIVALENT
            found.append(Choice(process, "", unexplored if left else "has ended"))
    return found


def branch(kept: RecordedExploration, taken: str) -> dict[str, Any]:
    """Return what the page shows after the steps `taken`; all is told when there are no more."""
    recording, schedule = kept.recording, kept.schedule
    ended, found = len(taken) == len(schedule.order), list[Conflict]()
    if ended and schedule.violation:
        found = conflicts(schedule.steps, snapshots=recording.isolation != READ_COMMITTED)
    return {
        "taken": taken,
        "ran": kept.ran or schedule.order,
        "before": taken[:-1],
        "ended": ended,
        "choices": [] if ended else choices(kept, taken),
        "drawings": drawings(recording, schedule, len(taken), found),
        "heads": HEADS,
        "described": f"The steps taken so far: {taken or 'none'}",
        "lines": current_lines(schedule, len(taken)),
        "held": schedule.steps[len(taken) - 1]["observed"] if taken else recording.initial,
        "waiting": [
            each for each in waits(prefix(schedule.steps, len(taken))) if each.last > len(taken)
        ],
    }


def current_lines(schedule: RecordedSchedule, taken: int) -> dict[int, str]:
    """Return the lines that the processes have come to, each with the processes that are there."""
    at = {step["process"]: step["line"] for step in schedule.steps[:taken] if step["line"]}
    lines: dict[int, list[int]] = {}
    for process, line in sorted(at.items()):
        lines.setdefault(line, []).append(process)
    return {line: " ".join(f"P{process}" for process in there) for line, there in lines.items()}
