"""Real threads agree with the recordings at each isolation level.

The threads are unordered. A strategy that is recorded as safe must never violate the invariant, and
another one must do so at least once.
"""

import pytest

from lab.conftest import run_in_threads
from lab.races import EVERY_RACE
from lab.races.race import Race
from lab.recordings.cells import LEVELS, find_cell
from lab.recordings.recording import read_recording
from shorturl.strategies.table import Strategy

RUNS, MAX_RUNS = 50, 1_000  # of a safe strategy, and of one that has not violated yet


def violates(race: Race, strategy: Strategy, level: str) -> bool:
    """Run each process of a race in a thread; return whether the invariant is violated."""
    race.setup(strategy)
    outcomes = run_in_threads(race.make_functions(strategy, max(race.process_counts)), level)
    return any(outcome.raised for outcome in outcomes) or bool(race.check(outcomes))


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["lost_update", "write_skew"])
def test_what_is_safe_never_fails_and_what_is_broken_does(name: str, level: str) -> None:
    race = EVERY_RACE[name]
    for strategy in race.strategies.values():
        if strategy.name == "in_memory":
            continue  # it counts later, after the threads have ended
        is_broken = read_recording(find_cell(name, strategy.name, level=level)).count.violating > 0
        runs = (violates(race, strategy, level) for _ in range(MAX_RUNS if is_broken else RUNS))
        assert any(runs) is is_broken, strategy.name
