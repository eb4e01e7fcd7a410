"""The steps of a schedule as plain data, which can be kept and drawn later."""

from typing import Any

from pginterleave.formatting import place
from pginterleave.picture.column_values import column_values
from pginterleave.results import Schedule
from pginterleave.steps import Step


def recorded_step(step: Step) -> dict[str, Any]:
    """Return what a picture shows of a step, apart from what others do meanwhile.

    It has `process`, `sql` (for a reader), `until`, `waited_for`, `result`, `error` and `message`
    (both can be empty), `pivot` (whether PostgreSQL ended it as that of a write skew), `rows` (how
    many it returned or changed), `where` (the file and line that sent it), and what
    column_values() returns.
    """
    return {
        "process": step.process,
        "sql": step.statement(),
        "until": step.until,
        "waited_for": step.waited_for,
        "result": step.result(),
        "error": step.error,
        "message": step.message,
        "pivot": "as a pivot" in step.detail,
        "rows": step.rowcount,
        "where": place(step.filename, step.lineno) if step.filename else "",
        **column_values(step),
    }


def recorded_steps(schedule: Schedule) -> list[dict[str, Any]]:
    """Return the steps of a schedule, with the processes that are `in_transaction` after each."""
    recorded, inside = [], dict[int, bool]()
    for step in schedule.timeline:
        returned = [each for each in schedule.timeline if each.until == step.number]
        inside |= {each.process: each.in_transaction for each in returned}
        if step.until > step.number:  # it waits, and holds what its transaction has locked
            inside[step.process] = True
        recorded.append(
            {
                **recorded_step(step),
                "observed": "" if step.observed is None else str(step.observed),
                "in_transaction": [process for process, is_in in inside.items() if is_in],
            }
        )
    return recorded
