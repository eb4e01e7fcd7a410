"""Real threads agree with the exploration at each isolation level.

The threads are unordered. A strategy that the exploration calls safe must end without an error or
violation, and a broken one must not.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from lab.races import EVERY_RACE, resolving
from lab.races.write_skew import TeamLink, two_active_links
from lab.recordings.cells import LEVELS, find_cell
from lab.recordings.recording import read

CALLS = 50  # of each thread, in one repetition
SAFE, BROKEN = 3, 100  # repetitions of a safe strategy, and the most of a broken one
WAIT = 60  # seconds that one thread waits for the others, far more than they take


def errors_of(calls: list[Callable[[], object]], level: str) -> int:
    """Make each call CALLS times in a thread of its own; return how many raised an error."""
    start, raised = threading.Barrier(len(calls)), []

    def run(call: Callable[[], object]) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET default_transaction_isolation = '{level}'")
            start.wait(WAIT)
            for _ in range(CALLS):
                try:
                    call()
                except Exception as error:
                    raised.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(raised)


def lost_hits(strategy: Any, level: str) -> int:
    """Have four threads follow one link; return how many calls failed or were miscounted."""
    resolving.fresh_links(strategy)
    resolves = [strategy.function] * 4
    raised = errors_of([partial(resolve, "a") for resolve in resolves], level)
    counted = resolving.hits_by_key()["a"]
    return raised + abs(len(resolves) * CALLS - raised - counted)


def skewed_teams(strategy: Any, level: str) -> int:
    """Have two threads switch off a link each of a team of two, CALLS times.

    Returns the number of calls that failed and of rounds that left no active link.
    """
    two_active_links(strategy)
    together, skewed = threading.Barrier(3), []

    def switch_off(key: str) -> None:
        together.wait(WAIT)
        try:
            strategy.function(key)
        finally:
            together.wait(WAIT)

    def one_round() -> None:
        TeamLink.objects.update(active=True)
        together.wait(WAIT)  # both begin
        together.wait(WAIT)  # both have ended
        skewed.append(not TeamLink.objects.filter(active=True).exists())

    raised = errors_of([one_round, *(partial(switch_off, key) for key in ("a", "b"))], level)
    return raised + sum(skewed)


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("race", "met"), [("lost_update", lost_hits), ("write_skew", skewed_teams)]
)
def test_what_is_safe_never_fails_and_what_is_broken_does(
    race: str, met: Callable[[Any, str], int], level: str
) -> None:
    for strategy in EVERY_RACE[race].strategies.values():
        if strategy.name == "in_memory":
            continue  # it counts later, after the threads have ended
        broken = read(find_cell(race, strategy.name, level=level)).count.violating > 0
        broke = any(met(strategy, level) for _ in range(BROKEN if broken else SAFE))
        assert broke is broken, strategy.name
