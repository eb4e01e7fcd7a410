"""The counts of a race with too many schedules to run, calculated by PostgreSQL's rules.

`repeatable_read` retries, so three processes have more than a million schedules. The rules are
enough to count them without a database.
"""

from functools import cache

from project.docs import ROOT

# The next step of a process under REPEATABLE READ: SET TRANSACTION, SELECT, UPDATE, COMMIT, or
# ROLLBACK if its UPDATE was refused. A process that waits in its UPDATE has no next step.
SET, READ, WRITE, COMMIT, ROLLBACK, WAITING, DONE = range(7)
STALE = -1  # at its UPDATE, and another process has committed since its SELECT


@cache
def schedules(places: tuple[int, ...]) -> int:
    """Count the orders in which processes with these next steps can finish."""
    if all(place == DONE for place in places):
        return 1
    return sum(
        schedules(after(places, process))
        for process, place in enumerate(places)
        if place not in (WAITING, DONE)
    )


def after(places: tuple[int, ...], process: int) -> tuple[int, ...]:
    """Return the next steps of all when this process has taken its step."""
    then = list(places)
    place = places[process]
    if place == WRITE:
        then[process] = WAITING if COMMIT in places else COMMIT
    elif place == COMMIT:
        # A process that waited for the row is refused, and one that has read it will be.
        refused = {WRITE: STALE, WAITING: ROLLBACK}
        then = [refused.get(each, each) for each in places]
        then[process] = DONE
    else:
        then[process] = {SET: READ, READ: WRITE, STALE: ROLLBACK, ROLLBACK: SET}[place]
    return tuple(then)


def test_retries_under_repeatable_read() -> None:
    tables = (ROOT / "docs" / "races.md").read_text()
    assert f"| repeatable_read | 0 / {schedules((SET,) * 2)} |" in tables
    assert f"| repeatable_read | 0 / {schedules((SET,) * 3)} |" in tables
