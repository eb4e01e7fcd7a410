"""The page of an exploration: a schedule as a picture and as a table."""

from typing import Any, NamedTuple

from django.utils.safestring import SafeString, mark_safe

from lab.exceptions import NotFound
from lab.exploring.explored import Ended, Explored, KeptSchedule
from lab.exploring.jobs import READ_COMMITTED
from pginterleave.picture.cells import HOLDS, SIGNS, HowItEnds, Sheet, verdict
from pginterleave.picture.conflicts import marks
from pginterleave.picture.history import prefix
from pginterleave.picture.layout import drawings, svg

# The list of schedules on a laptop. In characters: a line, the outcome, the frame of a schedule and
# the button for more. Then the number of lines.
LINE, OUTCOME, AROUND, MORE, LINES = 140, 30, 3, 10, 3


class Chosen(NamedTuple):
    """An exploration, and the schedule to show with its number from 0.

    If the schedule did not run, `ran` is the equivalent order that did, and has the number.
    """

    explored: Explored
    number: int
    schedule: KeptSchedule
    ran: str = ""


def choose(explored: Explored, order: str, *, begins: bool = False) -> Chosen:
    """Return the schedule `order`; without an order, the counterexample, or else the first one.

    `begins` asks for the first schedule that begins with `order`. Raises NotFound for an order that
    was not run.
    """
    wanted = order or explored.counterexample
    for number, (each, _) in enumerate(explored.ends):
        # A letter belongs to the digit before it.
        after = each.removeprefix(order)[:1]
        is_begun = begins and each.startswith(order) and not after.isalpha()
        if is_begun or each == wanted or not wanted:
            return Chosen(explored, number, explored.schedule(number))
    raise NotFound(f"There is no explored schedule {order[:50]!r}.")


def around(shown: Chosen) -> dict[str, Any]:
    orders, number = shown.explored.ends, shown.number
    following = orders[number + 1 :] + orders[:number]
    violating = (each.order for each in following if each.verdict.kind != HOLDS)
    return {
        "number": number + 1,
        "previous": orders[number - 1].order if number else None,
        "next": orders[number + 1].order if number + 1 < len(orders) else None,
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


def groups(orders: list[Ended], current: str) -> list[Group]:
    """Return the schedules grouped by outcome: wrong ones, refused ones, and those that hold.

    The number of listed ones is limited, so that the picture below begins at about one height.
    """
    found: dict[HowItEnds, list[str]] = {}
    for order, ends in orders:
        found.setdefault(ends, []).append(order)
    kinds = list(SIGNS)
    by_verdict = sorted(found.items(), key=lambda one: (kinds.index(one[0].kind), -len(one[1])))
    lines = max(1, LINES // len(found))
    grouped = []
    for ends, all_of_them in by_verdict:
        width = max(map(len, all_of_them)) + AROUND
        fit = max(1, (lines * LINE - OUTCOME) // width)
        if len(all_of_them) > fit:
            fit = max(1, fit - MORE // width)
        listed = all_of_them[:fit]
        if current in all_of_them[fit:]:
            listed[-1] = current
        more = [order for order in all_of_them if order not in listed]
        grouped.append(Group(ends, listed, more))
    return grouped


def shown(chosen: Chosen, hidden_after: int | None) -> dict[str, Any]:
    """Return a schedule as a picture and as the rows of a table.

    The steps after number `hidden_after` are hidden, unless it is None.
    """
    explored, schedule = chosen.explored, chosen.schedule
    taken = len(schedule.steps) if hidden_after is None else hidden_after
    hidden = "".join(str(step["process"]) for step in schedule.steps[taken:])
    sheet = sheet_of(explored, schedule, taken, hidden)
    return {
        "pictures": pictures(
            sheet, f"Schedule {schedule.order}, step by step; the table below says the same"
        ),
        "rows": table_rows(sheet),
        "verdict": sheet.verdict,
        "predict": hidden_after,
        "held": sheet.held,
        "last": schedule.whole[-1]["observed"] if schedule.steps else explored.initial,
        "halfway": len(schedule.steps) // 2,
        "raised": [
            (process, outcome)
            for process, outcome in enumerate(schedule.outcomes, start=1)
            if outcome and sheet.ended
        ],
    }


def sheet_of(explored: Explored, schedule: KeptSchedule, taken: int, hidden: str = "") -> Sheet:
    """Return the sheet of the first `taken` steps; if these are all, also of the second tries.

    `hidden` names the processes of the following steps in their order, if the page shows it.
    """
    ended = taken == len(schedule.steps)
    return Sheet(
        schedule.whole,
        schedule.whole if ended else prefix(schedule.steps, taken),
        explored.job.processes,
        explored.initial,
        verdict(schedule.violation, raises=schedule.raises, due=explored.job.race.must_hold),
        schedule.outcomes,
        hidden,
        snapshots=explored.job.isolation != READ_COMMITTED,
    )


def pictures(sheet: Sheet, described: str) -> list[SafeString]:
    return [mark_safe(svg(each, described)) for each in drawings(sheet)]  # noqa: S308 - it escapes


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
        told = "".join(sheet.told[number - 1 : number])  # empty for a hidden step
        rows.append({"number": number, "step": step, "cells": cells, "told": told})
    return rows
