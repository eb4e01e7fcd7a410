"""The visitor as the scheduler: recorded schedules as a tree, taken one step at a time."""

import re
from string import ascii_lowercase
from typing import Any, NamedTuple

from lab.pages.schedules import Chosen, begins_with, pictures_of, sheet_of
from lab.recordings.recording import RecordedSchedule
from pginterleave.picture.history import prefix, waits


class Choice(NamedTuple):
    """A process at a branch of the tree: `order` has its next step, or is "" if it cannot go.

    `state` says why it cannot go, or which process PostgreSQL ends if its step closes a deadlock.
    `key` is its key on the keyboard: the process, or the letter of the one that is ended instead.
    """

    process: int
    key: str
    order: str
    state: str


def split_steps(order: str) -> list[str]:
    """Return the steps of an order: "2" is a step of process 2, and "2a" ends process 1 (a).

    A step with a letter closes a deadlock. Without the letter, its own process is ended.
    """
    return re.findall(r"\d[a-z]?", order)


def find_choices(chosen: Chosen, taken: str) -> list[Choice]:
    """Return for each process whether it can go next after the steps `taken`, or why it cannot."""
    number, choices = len(split_steps(taken)), list[Choice]()
    recording, orders = chosen.recording, [ended.order for ended in chosen.recording.ends]
    begun = prefix(chosen.schedule.steps, number)
    waiting = [wait for wait in waits(begun) if wait.last > number]
    for process in range(1, recording.cell.processes + 1):
        victims = {f"{process}": process}  # if the step closes a deadlock
        for wait in waiting:
            victims[f"{process}{ascii_lowercase[wait.process - 1]}"] = wait.process
        steps = [
            step for step in victims if any(begins_with(order, taken + step) for order in orders)
        ]
        for step in steps:
            deadlock = f"closes a deadlock that ends process {victims[step]}"
            state = deadlock if len(steps) > 1 else ""
            choices.append(Choice(process, step[-1], taken + step, state))
        if not steps:
            blocked = next((wait for wait in waiting if wait.process == process), None)
            is_left = f"{process}" in chosen.schedule.order[len(taken) :]
            state = "was not recorded from here" if is_left else "has ended"
            if blocked:
                state = f"waits for process {' and '.join(map(str, blocked.waited_for))}"
            choices.append(Choice(process, "", "", state))
    return choices


def branch(chosen: Chosen, taken: str) -> dict[str, Any]:
    """Return what the page shows after the steps `taken`; after the last one, also the verdict."""
    recording, schedule, number = chosen.recording, chosen.schedule, len(split_steps(taken))
    sheet = sheet_of(recording, schedule, number)
    return {
        **pictures_of(sheet, f"The steps taken so far: {taken or 'none'}"),
        "taken": taken,
        "before": "".join(split_steps(taken)[:-1]),
        "ended": sheet.ended,
        "verdict": sheet.verdict,
        "told": " ".join(sheet.sentences[max(0, number - 1) :]),
        "choices": [] if sheet.ended else find_choices(chosen, taken),
        "lines": current_lines(schedule, number),
        "held": sheet.held,
    }


def current_lines(schedule: RecordedSchedule, taken: int) -> dict[int, str]:
    """Return which processes are at which line of the source after the first `taken` steps."""
    at = {step["process"]: step["line"] for step in schedule.steps[:taken] if step["line"]}
    lines: dict[int, list[int]] = {}
    for process, line in sorted(at.items()):
        lines.setdefault(line, []).append(process)
    return {line: " ".join(f"P{process}" for process in there) for line, there in lines.items()}
