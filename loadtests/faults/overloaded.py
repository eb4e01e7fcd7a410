"""More requests than the service can answer."""

from collections.abc import Iterator

from loadtests.faults.experiment import Experiment, Figure
from loadtests.faults.open_loop import overload


def overloaded(experiment: Experiment) -> Iterator[Figure]:
    """Find out the capacity, and offer two times and ten times as much."""
    return overload(experiment, (2, 10), [])
