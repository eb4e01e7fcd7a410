"""The visitor as the scheduler, who chooses the next step among those that are recorded."""

import dataclasses
import re
from string import ascii_lowercase
from typing import Any, NamedTuple

from lab.pages.schedules import ChosenSchedule, begins_with, make_picture
from lab.recordings.cells import Cell
from lab.recordings.recording import RecordedSchedule, read_counts, read_recording
from pginterleave.formatting import format_processes
from pginterleave.picture.context import draw_pictures
from pginterleave.picture.history import Wait, cut_steps, find_waits


class Choice(NamedTuple):
    """A process that can go next; one that cannot has an empty `order` and `key`.

    `order` has all steps up to the chosen one. `key` is on the keyboard: the digit of the process,
    or the letter of the step. `state` says why the process cannot go, or which process PostgreSQL
    ends if the step closes a deadlock.
    """

    process: int
    state: str
    order: str = ""
    key: str = ""


def split_steps(order: str) -> list[str]:
    """Return the steps of an order, such as "2" and "2a".

    "2" is a step of process 2. With a letter it closes a deadlock, and "a" ends process 1.
    """
    return re.findall(r"\d[a-z]?", order)


def find_choices(chosen: ChosenSchedule, taken: str) -> list[Choice]:
    """Return the choices after the steps `taken`, in the order of the processes."""
    count = len(split_steps(taken))
    steps = cut_steps(chosen.schedule.steps, count)
    waiting = [wait for wait in find_waits(steps) if wait.last > count]  # not over yet
    choices: list[Choice] = []
    for process in range(1, chosen.recording.cell.processes + 1):
        choices += find_choices_of_process(chosen, taken, process, waiting)
    return choices


def find_choices_of_process(
    chosen: ChosenSchedule, taken: str, process: int, waiting: list[Wait]
) -> list[Choice]:
    """Return a choice for each recorded step of a process, or one that says why it cannot go.

    A step that closes a deadlock may be recorded several times, each with another victim.
    """
    orders = [end.order for end in chosen.recording.ends]
    # If a step closes a deadlock, PostgreSQL ends this process: its own, or that of the letter.
    victims = {f"{process}": process}
    for wait in waiting:
        victims[f"{process}{ascii_lowercase[wait.process - 1]}"] = wait.process
    steps = [step for step in victims if any(begins_with(order, taken + step) for order in orders)]
    if not steps:
        return [Choice(process, explain_halt(chosen, taken, process, waiting))]
    choices = []
    for step in steps:
        state = f"closes a deadlock that ends process {victims[step]}" if len(steps) > 1 else ""
        choices.append(Choice(process, state, order=taken + step, key=step[-1]))
    return choices


def explain_halt(chosen: ChosenSchedule, taken: str, process: int, waiting: list[Wait]) -> str:
    """Return why a process cannot go after the steps `taken`."""
    for wait in waiting:
        if wait.process == process:
            return f"waits for {format_processes(wait.waited_for)}"
    has_more_steps = f"{process}" in chosen.schedule.order[len(taken) :]
    return "was not recorded from here" if has_more_steps else "has ended"


def make_choice_context(chosen: ChosenSchedule, taken: str) -> dict[str, Any]:
    """Return the context of the page after the steps `taken`.

    It has the `choices` of the next step, or after the last step the verdict. If the strategy is
    wrong, `repaired` is then a right one to take the same steps with.
    """
    schedule = chosen.schedule
    steps = split_steps(taken)
    picture = make_picture(chosen.recording, schedule, len(steps))
    choices = [] if picture.is_whole else find_choices(chosen, taken)
    return {
        **draw_pictures(picture, f"The steps taken so far: {taken or 'none'}"),
        "taken": taken,
        "before": "".join(steps[:-1]),
        "ended": picture.is_whole,
        "verdict": picture.verdict,
        # Of the last step; at the end, also of the processes that then try again.
        "sentences": " ".join(picture.sentences[len(steps) - 1 :]),
        "choices": choices,
        "repaired": find_repaired(chosen.recording.cell, steps) if picture.is_whole else None,
        "last_value": picture.last_value,  # of the rows, after the steps `taken`
    }


def find_focus(choices: list[Choice], taken: str, *, went_back: bool) -> str:
    """Return what has the focus after a step: the order of a choice, "back" or "repaired".

    It is the link that the visitor used, so that Enter takes the next step of the same process.
    """
    steps = split_steps(taken)
    if went_back and steps:
        return "back"
    orders = [choice.order for choice in choices if choice.order]
    if not orders:
        return "repaired"
    same = "".join([*steps, steps[-1][0]]) if steps else ""
    return same if same in orders else orders[0]


class Repaired(NamedTuple):
    """A right strategy instead of a wrong one, and the steps that its scheduler begins with."""

    cell: Cell
    order: str


def find_repaired(cell: Cell, steps: list[str]) -> Repaired | None:
    """Return the first strategy that no schedule of the race breaks, if one breaks the cell's.

    The order has as many of the `steps` as one of its recorded schedules begins with.
    """
    counts = read_counts(cell.race)
    if not counts[cell.key].violating:
        return None
    for strategy in cell.race.strategies.values():
        other = dataclasses.replace(cell, strategy=strategy)
        count = counts.get(other.key)
        if count and not count.violating and not count.truncated:
            orders = [end.order for end in read_recording(other).ends]
            beginnings = ["".join(steps[:number]) for number in range(len(steps), -1, -1)]
            order = next(b for b in beginnings if any(begins_with(order, b) for order in orders))
            return Repaired(other, order)
    return None


def find_current_lines(schedule: RecordedSchedule, taken: str) -> dict[int, str]:
    """Return the processes at each line of the source after the steps `taken`, as "P1 P2"."""
    steps = schedule.steps[: len(split_steps(taken))]
    line_by_process = {step["process"]: step["line"] for step in steps if step["line"]}
    lines: dict[int, str] = {}
    for process, line in sorted(line_by_process.items()):
        lines[line] = f"{lines.get(line, '')} P{process}".strip()
    return lines
