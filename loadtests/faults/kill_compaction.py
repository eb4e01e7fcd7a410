"""The same as kill_visit_roll_up, where what is rolled up to days is compacted."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.kill_roll_up import found, roll_ups

# Single visits become old ones, of up to a hundred kinds: more than a day of a link may have.
ENOUGH = """
    SELECT 1 FROM shorturl_visitcount
    WHERE unit IS NULL GROUP BY key HAVING count(DISTINCT id % 100) > 60
"""
CROWD = """
    UPDATE shorturl_visitcount
    SET starts_at = starts_at - %s * interval '1 day', referrer = id %% 100 || '.example'
    WHERE unit IS NULL
"""
OLD = 100  # days: more than hours are kept
# What a roll-up before has compacted, to which only another one adds: it has deleted the rows.
LOCK = "SELECT 1 FROM shorturl_visitcount WHERE unit = 'd' AND referrer = '*' FOR UPDATE"


def kill_compaction(experiment: Experiment) -> Iterator[Figure]:
    """Roll up, and kill every second one when it has deleted kinds and not added dimensions."""
    return roll_ups(
        experiment, LOCK, lambda cursor, number: crowd(experiment, cursor, OLD + number // 2)
    )


def crowd(experiment: Experiment, cursor: Any, days: int) -> None:
    """Let single visits become so many days old, when there are enough."""
    experiment.wait(partial(found, cursor, ENOUGH), "there are few visits")
    cursor.execute(CROWD, [days])
