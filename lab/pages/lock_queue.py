"""The queue for a row lock: its holder, the processes that wait in order, and pg_locks."""

from typing import Any, NamedTuple

from pginterleave.picture.history import Lock, Wait, locks, waits
from pginterleave.picture.wording import Step, words


class Moment(NamedTuple):
    """The locks that are held and waited for after a step.

    `pg_locks` and each `blocked_by` of it, which is what pg_blocking_pids() returned, are as
    recorded at that moment; row locks, which PostgreSQL keeps in the rows, follow from the steps.
    """

    number: int
    process: int
    said: str
    held: list[Lock]
    queue: list[Wait]
    pg_locks: list[dict[str, Any]]


def moments(steps: list[Step]) -> list[Moment]:
    """Return the moments of a schedule; the process that waits longest is first in the queue."""
    return [
        Moment(
            number,
            step["process"],
            said.sent if step["waited_for"] else str(said),
            [each for each in locks(steps) if each.first <= number < each.last],
            [each for each in waits(steps) if each.first <= number < each.last],
            step["locks"],
        )
        for number, (step, said) in enumerate(zip(steps, words(steps), strict=True), start=1)
    ]
