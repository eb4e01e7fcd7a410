"""Without its invariant a race has the same verdict, but for what is wrong alone, too."""

import pytest

from lab.exploring.jobs import READ_COMMITTED, Job
from lab.races import RACES, as_if_serial
from lab.scratch_database import scratch_database

# Right, and not as one after the other.
NOT_SERIAL = {
    # What the first has spent is given back by a second transaction. Between the two another is
    # refused, as it would be in no order. The invariant allows that.
    ("given_back", "conditional_update"),
    # The killed process gives no answer, so who repeats its request may keep either answer.
    ("killed_before_the_answer", "advisory_lock"),
}
# The races of what the service runs have kills, deletions and pages that are read meanwhile.
OF_STRATEGIES = {
    name: race for name, race in RACES.items() if not race.operation.startswith("service_")
}
PAIRS = [name for name, race in OF_STRATEGIES.items() if race.counts[0] == 2]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "name",
    [
        each if each == "lost_update" else pytest.param(each, marks=pytest.mark.exhaustive)
        for each in PAIRS
    ],
)
def test_the_verdict_is_that_of_the_invariant(name: str) -> None:
    race = RACES[name]
    limits = {"max_schedules": 400, "max_seconds": 60}
    with scratch_database():
        for strategy in race.strategies.values():
            by_invariant = race.explore(strategy, 2, **limits)
            serially = as_if_serial.explored(Job(race, strategy, 2, READ_COMMITTED), **limits)
            what = f"{name} × {strategy.name}: {by_invariant}; {serially}"
            if serially.violating and not by_invariant.violating:
                assert (name, strategy.name) in NOT_SERIAL, what
            if by_invariant.violating and not serially.violating:
                assert any(each.serial for each in by_invariant.violations), what
