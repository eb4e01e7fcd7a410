"""The page of an exploration: what is read for it, and a schedule as a picture and as a table."""

from typing import Any, NamedTuple

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import JSONObject

from lab.models import RecordedSchedule, Recording
from lab.pages.picture.cells import Sheet
from lab.pages.picture.conflicts import Conflict, conflicts, marks
from lab.pages.picture.grid import DENSE, NARROW, TALL, WIDE
from lab.pages.picture.layout import Drawing, draw
from lab.pages.picture.spans import prefix
from lab.recording.jobs import READ_COMMITTED, Job

HEADS = ("flow", "wait", "bad")  # the kinds of arrowheads in a picture
FIELDS = ("number", "order", "violation", "steps", "outcomes")
# Of the list of schedules on a laptop, in characters: how long a line is, and what the outcome, the
# frame of each schedule and the offer to show more take of it. And how many lines there are.
LINE, OUTCOME, AROUND, MORE, LINES = 140, 30, 3, 10, 3


class RecordedExploration(NamedTuple):
    """A recording, each of its schedules as (order, violation), and the schedule to show.

    Where that one is made of an equivalent one, `ran` is the order of this.
    """

    recording: Recording
    orders: list[tuple[str, str]]
    schedule: RecordedSchedule
    ran: str = ""


def read(job: Job, order: str, *, begins: bool = False) -> RecordedExploration | None:
    """Return what was recorded of `job`, with the schedule `order`; None when nothing was.

    Without an order, the schedule is the counterexample, or else the first one. `begins` asks for
    the first schedule that begins with `order`. Raises ValueError for an order that was not run.

    All of it is one statement: between two of them, a new recording could take the place of this
    one, and the schedules of this one would be gone.
    """
    unknown = ValueError(f"There is no recorded schedule {order[:50]!r}.")
    if order and not order.isalnum():  # it may hold a NUL, which no statement can
        raise unknown
    schedules = RecordedSchedule.objects.filter(recording=OuterRef("pk")).order_by()
    listed = JSONBAgg(JSONObject(order="order", violation="violation"), order_by="number")
    wanted = Q(order=order) if order else Q(order=OuterRef("counterexample")) | Q(number=0)
    if begins:
        # A letter belongs to the digit before it.
        chosen = schedules.filter(order__regex=f"^{order}(?![a-z])").order_by("number")[:1]
    else:
        chosen = schedules.filter(wanted).order_by("-number")[:1]
    recording = (
        Recording.objects.filter(**job.where())
        .annotate(
            listed=Subquery(schedules.values("recording").annotate(all=listed).values("all")),
            chosen=Subquery(chosen.values(json=JSONObject(**{name: name for name in FIELDS}))),
        )
        .first()
    )
    if recording is None:
        return None
    if recording.chosen is None:
        raise unknown
    orders = [(each["order"], each["violation"]) for each in recording.listed]
    return RecordedExploration(recording, orders, RecordedSchedule(**recording.chosen))


def around(shown: RecordedExploration) -> dict[str, Any]:
    """Return the schedules before and after the one shown, and the next that is violating."""
    orders, number = shown.orders, shown.schedule.number
    following = orders[number + 1 :] + orders[:number]
    return {
        "number": number + 1,
        "previous": orders[number - 1][0] if number else None,
        "next": orders[number + 1][0] if number + 1 < len(orders) else None,
        "next_violating": next((order for order, violation in following if violation), None),
    }


class Group(NamedTuple):
    """The schedules that end alike: those listed at first, among them the one shown, and `more`."""

    violation: str
    listed: list[str]
    more: list[str]

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.listed) + len(self.more)

    @property
    def outcome(self) -> str:
        """How they end, in words."""
        return self.violation or "the invariant holds"


def groups(orders: list[tuple[str, str]], current: str) -> list[Group]:
    """Return the schedules grouped by outcome, those that violate the invariant first.

    So many are listed at first that the picture below begins at about the same height everywhere.
    """
    found: dict[str, list[str]] = {}
    for order, violation in orders:
        found.setdefault(violation, []).append(order)
    by_violation = sorted(found.items(), key=lambda item: (not item[0], -len(item[1])))
    lines = max(1, LINES // len(found))
    grouped = []
    for violation, all_of_them in by_violation:
        width = max(map(len, all_of_them)) + AROUND
        fit = max(1, (lines * LINE - OUTCOME) // width)
        if len(all_of_them) > fit:
            fit = max(1, fit - MORE // width)
        listed = all_of_them[:fit]
        if current in all_of_them[fit:]:
            listed[-1] = current
        more = [order for order in all_of_them if order not in listed]
        grouped.append(Group(violation, listed, more))
    return grouped


def shown(kept: RecordedExploration, hidden_after: int | None) -> dict[str, Any]:
    """Return a schedule as a picture and as the rows of a table.

    The steps after number `hidden_after` are hidden, unless it is None.
    """
    recording, schedule = kept.recording, kept.schedule
    complete = hidden_after is None
    found = (
        conflicts(schedule.steps, snapshots=recording.isolation != READ_COMMITTED)
        if schedule.violation and complete
        else []
    )
    taken = len(schedule.steps) if hidden_after is None else hidden_after
    known = schedule.steps[:taken]
    hidden = "".join(str(step["process"]) for step in schedule.steps[taken:])
    return {
        "drawings": drawings(recording, schedule, taken, found, hidden=hidden),
        "heads": HEADS,
        "described": f"Schedule {schedule.order}, step by step; the table below tells the same",
        "rows": table_rows(schedule, recording.processes, taken, marks(found)),
        "predict": hidden_after,
        "held": known[-1]["observed"] if known else recording.initial,
        "last": schedule.steps[-1]["observed"] if schedule.steps else recording.initial,
        "halfway": len(schedule.steps) // 2,
        "raised": [
            (process, outcome)
            for process, outcome in enumerate(schedule.outcomes, start=1)
            if outcome and complete
        ],
    }


def drawings(
    recording: Recording,
    schedule: RecordedSchedule,
    taken: int,
    found: list[Conflict],
    hidden: str = "",
) -> list[Drawing]:
    """Return the picture of the first steps of a schedule, in both sizes.

    How the processes end is shown with the last step. `hidden` are the processes of the steps that
    are to come, in their order, where that is no secret.
    """
    steps = schedule.steps
    outcomes = schedule.outcomes if taken == len(steps) else []
    sheet = Sheet(
        steps, prefix(steps, taken), recording.processes, recording.initial, found, outcomes, hidden
    )
    wide = draw(sheet, WIDE)
    return [wide if wide.height < TALL else draw(sheet, DENSE), draw(sheet, NARROW)]


def table_rows(
    schedule: RecordedSchedule, processes: int, known: int, marked: dict[int, list[str]]
) -> list[dict[str, Any]]:
    """Return the rows of the timeline: for each step a cell for each process."""
    rows = []
    for number, step in enumerate(schedule.steps, start=1):
        cells: list[dict[str, Any]] = [{} for _ in range(processes)]
        for earlier, other in enumerate(schedule.steps[:number], start=1):
            cell = cells[other["process"] - 1]
            if earlier == number:
                cell |= {"step": step, "marks": marked.get(number, [])}
                cell["waits"] = number < step["until"] or step["waited_for"]
            elif other["until"] == number:
                cell["back"] = {"step": other, "number": earlier}
            elif other["until"] > number:
                cell["waiting"] = True
        rows.append({"number": number, "step": step, "cells": cells, "hidden": number > known})
    return rows
