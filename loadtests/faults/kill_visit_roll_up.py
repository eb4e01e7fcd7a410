"""The same as kill_roll_up, where visits are appended, and rolled up to hours, days and months."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from loadtests.faults.experiment import Experiment, Figure, Place, Setup, plain
from loadtests.faults.kill_roll_up import roll_ups

# The hour's rows, which no append waits for, and a roll-up does: it has deleted single visits, and
# adds them there. In the first moment of an hour there are none, and the fault is not injected.
LOCK = "SELECT 1 FROM shorturl_visitcount WHERE unit = 'h' FOR UPDATE"
# Visits grow old: what is of hours, days or months is rolled up to the next unit.
AGE = """
    UPDATE shorturl_visitcount SET starts_at = starts_at
        - (CASE unit WHEN 'h' THEN 100 ELSE 1000 END + %s) * interval '1 day'
    WHERE unit IN ('h', 'd')
"""


def appending_visits(setup: Setup) -> AbstractContextManager[Place]:
    """Have one service that records visits with append_only."""
    return plain(setup, SHORTURL_VISITS="append_only")


def kill_visit_roll_up(experiment: Experiment) -> Iterator[Figure]:
    """Roll up, and kill every second one when it has deleted single visits and not added them."""
    return roll_ups(experiment, LOCK, age)


def age(cursor: Any, number: int) -> None:
    """Let visits grow old, but for a roll-up that is to meet the hour's rows, and to be killed."""
    if number % 2 == 0:
        cursor.execute(AGE, [number])
