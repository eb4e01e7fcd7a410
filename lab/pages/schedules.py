"""A schedule of a cell as a picture and as a table, and all schedules as a list."""

from typing import Any, NamedTuple

from django.utils.safestring import mark_safe

from lab.exceptions import NotFound
from lab.recordings.cells import READ_COMMITTED
from lab.recordings.recording import Ended, RecordedSchedule, Recording
from pginterleave.picture.cells import HOLDS, SIGNS, HowItEnds, Sheet, verdict
from pginterleave.picture.conflicts import marks
from pginterleave.picture.history import NEW_ROW, locks, prefix, waits
from pginterleave.picture.layout import drawings, svg
from pginterleave.picture.wording import Step, words

# The list of schedules on a laptop. In characters: a line, the outcome, the frame of a schedule and
# the button for more. Then the number of lines.
LINE, OUTCOME, FRAME, MORE, MAX_LINES = 140, 30, 3, 10, 3


class Chosen(NamedTuple):
    """A recording, and the schedule to show with its number from 0."""

    recording: Recording
    number: int
    schedule: RecordedSchedule


def choose(recording: Recording, order: str, *, begins: bool = False) -> Chosen:
    """Return the schedule `order`; without an order, the counterexample, or else the first one.

    `begins` asks for the first schedule that begins with `order`. Raises NotFound for an order that
    is not recorded.
    """
    orders = [ended.order for ended in recording.ends]
    wanted = order if order or begins else recording.counterexample
    for number, recorded in enumerate(orders):
        if recorded == wanted or (begins and begins_with(recorded, wanted)):
            return Chosen(recording, number, recording.schedule(number))
    if order:
        raise NotFound(f"There is no recorded schedule {order[:50]!r}.")
    return Chosen(recording, 0, recording.schedule(0))


def begins_with(order: str, taken: str) -> bool:
    """Return whether an order begins with the steps `taken`.

    A letter belongs to the digit before it: "2" is another step than "2a".
    """
    return order.startswith(taken) and not order.removeprefix(taken)[:1].isalpha()


def neighbours(chosen: Chosen) -> dict[str, Any]:
    ends, number = chosen.recording.ends, chosen.number
    following = ends[number + 1 :] + ends[:number]
    violating = (ended.order for ended in following if ended.verdict.kind != HOLDS)
    return {
        "number": number + 1,
        "previous": ends[number - 1].order if number else None,
        "next": ends[number + 1].order if number + 1 < len(ends) else None,
        "next_violating": next(violating, None),
    }


class Group(NamedTuple):
    """The schedules with one outcome: `listed` ones, including the one shown, and `more`."""

    verdict: HowItEnds
    listed: list[str]
    more: list[str]

    @property
    def size(self) -> int:
        return len(self.listed) + len(self.more)


def group_by_outcome(ends: list[Ended], current: str) -> list[Group]:
    """Return the schedules grouped by outcome: wrong ones, refused ones, and those that hold.

    The number of listed ones is limited, so that the picture below begins at about one height.
    """
    orders_of: dict[HowItEnds, list[str]] = {}
    for order, outcome in ends:
        orders_of.setdefault(outcome, []).append(order)
    kinds = list(SIGNS)
    lines = max(1, MAX_LINES // len(orders_of))
    groups = []
    for outcome, orders in orders_of.items():
        width = max(map(len, orders)) + FRAME
        fitting = max(1, (lines * LINE - OUTCOME) // width)
        if len(orders) > fitting:
            fitting = max(1, fitting - MORE // width)
        listed = orders[:fitting]
        if current in orders[fitting:]:
            listed[-1] = current
        more = [order for order in orders if order not in listed]
        groups.append(Group(outcome, listed, more))
    return sorted(groups, key=lambda group: (kinds.index(group.verdict.kind), -group.size))


def shown(chosen: Chosen, hidden_after: int | None) -> dict[str, Any]:
    """Return a schedule as a picture and as the rows of a table.

    The steps after number `hidden_after` are hidden, unless it is None.
    """
    recording, schedule = chosen.recording, chosen.schedule
    taken = len(schedule.steps) if hidden_after is None else hidden_after
    hidden = "".join(str(step["process"]) for step in schedule.steps[taken:])
    sheet = sheet_of(recording, schedule, taken, hidden)
    return {
        **pictures_of(
            sheet, f"Schedule {schedule.order}, step by step; the table below says the same"
        ),
        "rows": table_rows(sheet),
        "verdict": sheet.verdict,
        "predict": hidden_after,
        "held": sheet.held,
        "last": schedule.whole[-1]["observed"] if schedule.whole else recording.initial,
        "halfway": len(schedule.steps) // 2,
        "raised": [
            (process, outcome)
            for process, outcome in enumerate(schedule.outcomes, start=1)
            if outcome and sheet.ended
        ],
    }


def sheet_of(
    recording: Recording, schedule: RecordedSchedule, taken: int, hidden: str = ""
) -> Sheet:
    """Return the sheet of the first `taken` steps; if these are all, also of the second tries.

    `hidden` names the processes of the following steps in their order, if the page shows it.
    """
    ended = taken == len(schedule.steps)
    cell = recording.cell
    return Sheet(
        schedule.whole,
        schedule.whole if ended else prefix(schedule.steps, taken),
        cell.processes,
        recording.initial,
        verdict(schedule.violation, raises=schedule.raises, due=cell.race.invariant),
        schedule.outcomes,
        hidden,
        snapshots=cell.level != READ_COMMITTED,
    )


def pictures_of(sheet: Sheet, described: str) -> dict[str, Any]:
    """Return the pictures of a sheet, wide and narrow, and which signs their legend explains."""
    return {
        "pictures": [
            mark_safe(svg(drawing, described))  # noqa: S308 - it escapes
            for drawing in drawings(sheet)
        ],
        "has_transaction": bool(sheet.transactions),
        "has_lock": bool(sheet.locks),
        "has_mode": any(lock.mode != NEW_ROW for lock in sheet.locks),
    }


def moments(steps: list[Step]) -> list[dict[str, Any]]:
    """Return the locks that are held and waited for after each step of a schedule.

    The first in the `queue` waits longest.
    """
    return [
        {
            "number": number,
            "process": step["process"],
            "said": said.sent if step["waited_for"] else str(said),
            "held": [lock for lock in locks(steps) if lock.first <= number < lock.last],
            "queue": [wait for wait in waits(steps) if wait.first <= number < wait.last],
        }
        for number, (step, said) in enumerate(zip(steps, words(steps), strict=True), start=1)
    ]


def table_rows(sheet: Sheet) -> list[dict[str, Any]]:
    """Return the rows of the timeline: for each step a cell for each process."""
    rows, marked = [], marks(sheet.conflicts)
    for number, step in enumerate(sheet.whole, start=1):
        cells: list[dict[str, Any]] = [{} for _ in range(sheet.processes)]
        for earlier, other in enumerate(sheet.whole[:number], start=1):
            cell = cells[other["process"] - 1]
            if earlier == number:
                cell |= {"step": step, "marks": marked.get(number, [])}
                cell["waits"] = number < step["until"] or step["waited_for"]
            elif other["until"] == number:
                cell["back"] = {"step": other, "number": earlier}
            elif other["until"] > number:
                cell["waiting"] = True
        told = "".join(sheet.sentences[number - 1 : number])  # empty for a hidden step
        rows.append({"number": number, "step": step, "cells": cells, "told": told})
    return rows
