"""What the drawing as text shows of a schedule: the columns that change, and what goes wrong."""

from pginterleave.picture.conflicts import conflicts, dependencies, marks
from pginterleave.picture.recorded import recorded_steps
from pginterleave.picture.wording import Names, changing
from pginterleave.steps import RanSchedule


def columns_that_change(schedule: RanSchedule) -> dict[int, set[str]]:
    """Return, by the number of each step, the columns that have several values in its table."""
    steps = recorded_steps(schedule)
    changed = changing(steps, Names(steps))
    return {number: changed[step["table"]] for number, step in enumerate(steps, start=1)}


def marks_of_steps(schedule: RanSchedule) -> dict[int, list[str]]:
    """Return what is wrong at the steps, such as "stale read", by their numbers."""
    steps = recorded_steps(schedule)
    if not (steps and schedule.violation):
        return {}
    return marks([*dependencies(steps), *conflicts(steps)])
