"""The same as kill_compaction, where hours of some days ago are coarsened."""

from collections.abc import Iterator

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.kill_compaction import LOCK, crowd
from loadtests.faults.kill_roll_up import roll_ups

RECENT = 3  # days: hours stay, and leave to the day all but their devices


def kill_coarsening(experiment: Experiment) -> Iterator[Figure]:
    """Roll up, and kill every second one when hours have lost what their day has not got yet."""
    return roll_ups(experiment, LOCK, lambda cursor, _: crowd(experiment, cursor, RECENT))
