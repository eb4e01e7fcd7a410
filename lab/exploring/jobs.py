"""The explorations to record: a race, a strategy, a number of processes, an isolation level."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from lab.exceptions import NotFound
from lab.races import EVERY_RACE, RACES
from lab.races.museum import MUSEUM
from lab.races.race_definition import Race
from shorturl.strategies.table import Strategy

READ_COMMITTED, _, SERIALIZABLE = LEVELS = ("read committed", "repeatable read", "serializable")
# Explored at every level; write_skew is not in the matrix.
ISOLATED = ("lost_update", "clobbered_edit", "toctou_in_a_transaction", "write_skew")
OPENED = re.compile(r"/lab/races/(\w+)/(\w+)/(\d)/")  # a page in docs/workshop.md


@dataclass(frozen=True)
class Job:
    """An exploration: a race, one of its strategies, a number of processes, an isolation level."""

    race: Race
    strategy: Strategy
    processes: int
    isolation: str = READ_COMMITTED

    def __str__(self) -> str:
        """Return the argument of the command `explore`: race/strategy/processes/level."""
        level = self.isolation.replace(" ", "-")
        return f"{self.race.name}/{self.strategy.name}/{self.processes}/{level}"

    @property
    def path(self) -> str:
        """The path of its page."""
        path = reverse("lab:exploration", args=[self.race.name, self.strategy.name, self.processes])
        standard = self.isolation == READ_COMMITTED
        return path if standard else f"{path}?{urlencode({'level': self.isolation})}"

    def where(self) -> dict[str, Any]:
        return {
            "race": self.race.name,
            "strategy": self.strategy.name,
            "processes": self.processes,
            "isolation": self.isolation,
        }


def workshop() -> list[Job]:
    """Return the explorations of the pages in docs/workshop.md, which a container does not have."""
    path = settings.BASE_DIR / "docs" / "workshop.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [job_named(*each) for each in dict.fromkeys(OPENED.findall(text))]


def queue() -> Job:
    """Return the exploration of the page /lab/queue/."""
    return job_named("lost_update", "select_for_update", "3")


def every_job() -> list[Job]:
    """Return the explorations of the workshop, the queue, the matrix, the museum and the levels."""
    races = [*RACES.values(), *MUSEUM.values()]
    isolated = [EVERY_RACE[name] for name in ISOLATED]
    found = [*workshop(), queue()]
    for level, several in (
        (LEVELS[0], [*races, *isolated]),
        *((one, isolated) for one in LEVELS[1:]),
    ):
        for race in several:
            found += [Job(race, one, race.counts[0], level) for one in race.strategies.values()]
    return list({str(job): job for job in found}.values())


def counted() -> list[Job]:
    """Return the explorations that tables of the pages show, with each number of processes."""
    more = [
        Job(race, strategy, processes)
        for race in RACES.values()
        for processes in race.counts[1:]
        for strategy in race.strategies.values()
    ]
    return list({str(job): job for job in [*every_job(), *more]}.values())


GROUPS = {"workshop": workshop, "all": every_job}


def jobs_named(what: str) -> list[Job]:
    """Return the explorations of a group, or the one written as race/strategy/….

    Raises NotFound, which says what would be right.
    """
    if what in GROUPS:
        return GROUPS[what]()
    race, *rest = what.split("/")
    race_named(race, *GROUPS)
    return [job_named(race, *rest)]


def job_named(
    race: str, strategy: str = "", processes: str = "", level: str = "", *rest: str
) -> Job:
    """Return the exploration of these names; raise NotFound, which says what would be right."""
    found = race_named(race)
    chosen, number = found.strategy(strategy), found.number_of_processes(processes)
    isolation = level.replace("-", " ") or READ_COMMITTED
    if isolation not in LEVELS or rest:
        raise NotFound(f"The isolation levels are {', '.join(LEVELS)}, not {level!r}.")
    return Job(found, chosen, number, isolation)


def race_named(name: str, *groups: str) -> Race:
    """Return a race; raise NotFound with the nearest name, which may be one of `groups`."""
    if name not in EVERY_RACE:
        (nearest,) = get_close_matches(name, [*groups, *EVERY_RACE], 1, 0)
        raise NotFound(
            f"There is no race {name!r}. The nearest one is {nearest}; "
            "`manage.py race list` lists all."
        )
    return EVERY_RACE[name]
