"""What the service runs, each function beside what can meet it: no schedule violates anything."""

import pytest

from lab.races.service import OPERATIONS
from lab.races.service.race_definition import Race


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "function"),
    [
        pytest.param(
            race, name, id=f"{race.name}/{name}",
            marks=pytest.mark.exhaustive,
        )
        for operation in OPERATIONS.values()
        for race in operation.races
        for name in race.strategies
    ],
)  # fmt: skip
def test_it_is_safe(race: Race, function: str) -> None:
    race.explore(race.strategies[function], race.counts[0]).assert_safe()
