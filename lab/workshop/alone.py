"""What requirements are made of: races with one process, which has no competitor."""

from dataclasses import replace
from functools import partial
from typing import Any

from lab.catalogue.race_definition import Race


def alone(race: Race, situation: str, must_hold: str, **changes: Any) -> Race:
    """Return the race with one process, and with these changes."""
    name = f"{race.name}_alone"
    return replace(
        race, name=name, counts=(1,), situation=situation, must_hold=must_hold, **changes
    )


def one_call(*arguments: Any, **keywords: Any) -> Any:
    """Return the processes of a race in which one of them calls the function, once."""
    return lambda strategy, number: [partial(strategy.function, *arguments, **keywords)]
