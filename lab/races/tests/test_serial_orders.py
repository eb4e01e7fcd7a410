"""Without its invariant a race has the same verdict, but for what is wrong alone, too."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.races import RACES
from lab.races.race_definition import Process, Race, worst_case
from lab.scratch_database import scratch_database
from pginterleave import Exploration, Outcome, explore
from shorturl.strategies.strategy import Strategy

# Right, and not as one after the other.
NOT_SERIAL = {
    # What the first has spent is given back by a second transaction. Between the two another is
    # refused, as it would be in no order. The invariant allows that.
    ("given_back", "conditional_update"),
    # The killed process gives no answer, so who repeats its request may keep either answer.
    ("killed_before_the_answer", "advisory_lock"),
}
# Operations of which a process that has found nothing free returns nothing.
TAKING = ("delivering", "rolling_up")
# The races of what the service runs have kills, deletions and pages that are read meanwhile.
OF_STRATEGIES = {
    name: race for name, race in RACES.items() if not race.operation.startswith("service_")
}
PAIRS = [name for name, race in OF_STRATEGIES.items() if race.counts[0] == 2]


def with_second_tries(processes: list[Process]) -> tuple[list[Process], Callable[[], object]]:
    """Return the processes, which run their second try when called again; and a reset."""
    pending: dict[int, Process] = {}

    def wrapped(number: int, process: Process) -> Process:
        def run() -> object:
            if number in pending:
                return pending.pop(number)()
            returned = process()
            if callable(returned):
                pending[number] = returned
            return returned

        return run

    return [wrapped(number, each) for number, each in enumerate(processes)], pending.clear


def by_serial_orders(race: Race, strategy: Strategy[Any], **limits: Any) -> Exploration:
    processes, forget = with_second_tries(race.processes(strategy, 2))

    def setup() -> None:
        forget()
        race.setup(strategy)

    def try_again(outcome: Outcome) -> bool:
        found_nothing = race.operation in TAKING and not outcome.returned
        return callable(outcome.returned) or found_nothing

    with worst_case():
        return explore(
            processes, setup=setup, expected=race.expected, try_again=try_again, **limits
        )


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
            serially = by_serial_orders(race, strategy, **limits, count_all=False)
            what = f"{name} × {strategy.name}: {by_invariant}; {serially}"
            if serially.violating and not by_invariant.violating:
                assert (name, strategy.name) in NOT_SERIAL, what
            if by_invariant.violating and not serially.violating:
                assert any(each.serial for each in by_invariant.violations), what
