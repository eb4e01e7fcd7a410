"""The page of an exploration: what is read for it, and the steps of a schedule as a table."""

from typing import Any, NamedTuple

from django.contrib.postgres.aggregates import JSONBAgg
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import JSONObject

from lab.models import RecordedSchedule, Recording
from lab.pages.marks import can_mark, marks
from lab.recording.jobs import Job

FIELDS = ("number", "order", "violation", "steps", "outcomes")


class RecordedExploration(NamedTuple):
    """A recording, each of its schedules as (order, violation), and the schedule to show."""

    recording: Recording
    orders: list[tuple[str, str]]
    schedule: RecordedSchedule


def read(job: Job, order: str) -> RecordedExploration | None:
    """Return what was recorded of `job`, with the schedule `order`; None when nothing was.

    Without an order, the schedule is the counterexample, or else the first one. Raises ValueError
    for an order that was not run.

    All of it is one statement: between two of them, a new recording could take the place of this
    one, and the schedules of this one would be gone.
    """
    unknown = ValueError(f"There is no recorded schedule {order[:50]!r}.")
    if order and not order.isdecimal():  # it may hold a NUL, which no statement can
        raise unknown
    schedules = RecordedSchedule.objects.filter(recording=OuterRef("pk")).order_by()
    listed = JSONBAgg(JSONObject(order="order", violation="violation"), order_by="number")
    wanted = Q(order=order) if order else Q(order=OuterRef("counterexample")) | Q(number=0)
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


def steps(schedule: RecordedSchedule, processes: int, hidden_after: int | None) -> dict[str, Any]:
    """Return the rows of the timeline: for each step a cell for each process.

    The steps after number `hidden_after` are hidden, unless it is None.
    """
    # A mark would give away what the visitor is asked.
    wanted = schedule.violation and hidden_after is None
    marked = marks(schedule.steps) if wanted and can_mark(schedule.steps) else {}
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
        hidden = hidden_after is not None and number > hidden_after
        rows.append({"number": number, "step": step, "cells": cells, "hidden": hidden})
    known = schedule.steps[:hidden_after]
    return {
        "rows": rows,
        "unmarked": wanted and not can_mark(schedule.steps),
        "predict": hidden_after,
        "held": known[-1]["observed"] if known else "",
        "last": schedule.steps[-1]["observed"],
        "halfway": len(schedule.steps) // 2,
    }
