"""The explorations to record: a race, a strategy, a number of processes, an isolation level."""

import re
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from lab.exceptions import NotFound
from lab.races import EVERY_RACE, RACES
from lab.races.museum import MUSEUM
from lab.races.race_definition import Race
from shorturl.strategies.strategy import Strategy

READ_COMMITTED, _, SERIALIZABLE = LEVELS = ("read committed", "repeatable read", "serializable")
# Explored at every level; write_skew is not in the matrix.
ISOLATED = ("lost_update", "clobbered_edit", "toctou_in_a_transaction", "write_skew")
GROUPS = ("all", "workshop", "queue", "matrix", "museum", "isolation")  # all: in this order
OPENED = re.compile(r"/lab/races/(\w+)/(\w+)/(\d)/")  # a page in docs/workshop.md


@dataclass(frozen=True)
class Job:
    """An exploration: a race, one of its strategies, a number of processes, an isolation level."""

    race: Race
    strategy: Strategy[Any]
    processes: int
    isolation: str = READ_COMMITTED

    def __str__(self) -> str:
        """Return the argument of the command `record`: race/strategy/processes/level."""
        level = self.isolation.replace(" ", "-")
        return f"{self.race.name}/{self.strategy.name}/{self.processes}/{level}"

    def where(self) -> dict[str, Any]:
        return {
            "race": self.race.name,
            "strategy": self.strategy.name,
            "processes": self.processes,
            "isolation": self.isolation,
        }


def jobs_named(what: str) -> list[Job]:
    """Return the explorations of a group, or the one written as race/strategy/….

    Raises NotFound with the valid choices.
    """
    if what not in GROUPS:
        race, *rest = what.split("/")
        if race not in EVERY_RACE:
            names = ", ".join((*GROUPS, *EVERY_RACE))
            raise NotFound(f"There is no group or race {race!r}; there are {names}.")
        return [job_named(race, *rest)]
    if what == "all":
        every = [job for group in GROUPS[1:] for job in jobs_named(group)]
        return list({str(job): job for job in every}.values())
    if what == "workshop":
        path = settings.BASE_DIR / "docs" / "workshop.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""  # not in a container
        return [job_named(*each) for each in dict.fromkeys(OPENED.findall(text))]
    if what == "queue":  # the page /lab/queue/
        return [job_named("lost_update", "select_for_update", "3")]
    races = {
        "matrix": RACES.values(),
        "museum": MUSEUM.values(),
        "isolation": [EVERY_RACE[name] for name in ISOLATED],
    }[what]
    return [
        Job(race, strategy, race.counts[0], level)
        for level in (LEVELS if what == "isolation" else [READ_COMMITTED])
        for race in races
        for strategy in race.strategies.values()
        if what != "isolation" or level != READ_COMMITTED or race.name not in RACES
    ]


def job_named(
    race: str, strategy: str = "", processes: str = "", level: str = "", *rest: str
) -> Job:
    """Return the exploration of these names; raise NotFound with the valid choices."""
    found = race_named(race)
    chosen = found.strategy(strategy)
    counts = [str(count) for count in found.counts]
    if (processes or counts[0]) not in counts:
        raise NotFound(f"{race} takes {' or '.join(counts)} processes, not {processes}.")
    isolation = level.replace("-", " ") or READ_COMMITTED
    if isolation not in LEVELS or rest:
        raise NotFound(f"The isolation levels are {', '.join(LEVELS)}, not {level!r}.")
    return Job(found, chosen, int(processes or counts[0]), isolation)


def race_named(name: str) -> Race:
    if name not in EVERY_RACE:
        raise NotFound(f"There is no race {name!r}; there are {', '.join(EVERY_RACE)}.")
    return EVERY_RACE[name]
