"""The rounds of the benchmark, and the subjects that are measured in them."""

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from loadtests.bench import database_in_use as database
from loadtests.bench import machine, pgbench, wrk
from loadtests.bench.measurements import (
    BASELINE,
    CREATING,
    JUDGED,
    LINKS,
    ONE_LINE,
    RECORDING,
    SERVICE,
    Load,
    Measurement,
    Reading,
)
from loadtests.harness.serving import NO_REFUSALS, ROOT, RunningService, serving
from shorturl.strategies.creating import table as creating
from shorturl.strategies.resolving import table as resolving
from shorturl.strategies.strategy import Verdict

WARM_UP = 0.5  # seconds
CONNECTIONS = (1, 16, 64, 256)
NO_VISITS = {"SHORTURL_VISITS": "off"}
NOT_REFUSED = {"SHORTURL_LAB": "on"}  # allows strategies that are right without a condition
DRAWN = ("one", "Zipf", "random")


@dataclass(frozen=True)
class Subject:
    """A gunicorn to measure, how it is started, and the script of pgbench to compare it with."""

    name: str
    loads: Sequence[Load]
    script: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    directory: Path = ROOT
    application: str | None = None  # an application in place of the service, which counts nothing


@dataclass(frozen=True)
class Part:
    """Groups of subjects. A group is served at once, and measured under one load after another."""

    title: str
    groups: Sequence[Sequence[Subject]]
    rounds: int
    found: dict[tuple[str, Load], Measurement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for subject in (subject for group in self.groups for subject in group):
            for load in subject.loads:
                self.found[subject.name, load] = Measurement(subject.name, load)


def plan(*, quick: bool, largest: int, baseline: Path | None) -> list[Part]:
    """Return the parts to measure; `largest` is the size of the largest table of links."""
    many = [Load()] if quick else [Load(number) for number in CONNECTIONS]
    sizes = [links for links in (1_000_000, 10_000_000) if links <= largest and not quick]
    drawn = [Load(one.connections, keys) for keys in DRAWN for one in many]
    drawn += [Load(keys=keys, links=links) for links in sizes for keys in DRAWN]
    with_visits = [one for one in drawn if one.keys != "Zipf" and one.links == LINKS]
    drawn.sort(key=attrgetter("keys", "connections", "links"))  # sizes one after another
    default = resolving.STRATEGIES["combined"]
    by_side = [
        Subject(SERVICE, drawn, pgbench.resolving_script(default), NO_VISITS),
        Subject(RECORDING, with_visits),
        Subject(ONE_LINE, many, application="loadtests.bench.one_line:application"),
    ]
    if baseline:
        loads = [Load(number, keys) for keys in ("one", "random") for number in (16, 64)]
        loads = [one for one in loads if one in drawn]
        by_side.append(Subject(BASELINE, loads, environment=NO_VISITS, directory=baseline))
    apart = many if quick else [*many, Load(keys="Zipf"), Load(keys="random")]
    resolves = [
        Subject(
            name,
            apart,
            pgbench.resolving_script(one),
            {**NO_VISITS, **NOT_REFUSED, "SHORTURL_RESOLVING": name},
        )
        for name, one in resolving.STRATEGIES.items()
        if one.verdict in (Verdict.RIGHT, Verdict.RIGHT_WITHOUT_CONDITION)  # no link has a limit
    ]
    new = [Load(one.connections, "new") for one in many]
    creates = [
        [Subject(name, new, pgbench.creating_script(one), {"SHORTURL_CREATING": name})]
        for name, one in creating.STRATEGIES.items()
        if one.verdict is Verdict.RIGHT and (not quick or name == "on_conflict")
    ]
    for group in creates:
        if baseline and group[0].name == CREATING:
            group.append(Subject(BASELINE, new, directory=baseline))
    few, more = (1, 1) if quick else (3, 5)
    return [
        Part(f"The service, which uses {default.name}, and its ceilings", [by_side], more),
        Part("Every right way to resolve", [[one] for one in resolves], few),
        Part("Every right way to create", creates, few),
    ]


class Bench:
    """The measurements of `parts`, in the database in use, which has to be empty.

    In a round, the loads of a goal are measured `times` times and all others once: the ratio of two
    services differs by a tenth from one time to the next. `miscounted` is the number of requests
    that were answered and not counted, or counted twice.
    """

    def __init__(self, parts: Iterable[Part], *, seconds: float, times: int) -> None:
        sizes = {load.links for part in parts for _, load in part.found}
        self.tables = database.LinkTables(sorted(sizes))
        self.seconds, self.times, self.miscounted = seconds, times, 0

    def run(self, part: Part, *, progress: Callable[[str], object]) -> None:
        """Measure the groups of `part` in its rounds, each round in a random order."""
        for number in range(1, part.rounds + 1):
            for group in random.sample(part.groups, len(part.groups)):
                names = ", ".join(subject.name for subject in group)
                progress(f"{part.title}: round {number} of {part.rounds}: {names}")
                self.side_by_side(group, part.found)

    def side_by_side(
        self, group: Sequence[Subject], found: dict[tuple[str, Load], Measurement]
    ) -> None:
        """Serve all of `group` at once, and measure each under the same load before the next."""
        self.tables.use(LINKS)
        with ExitStack() as stack:
            services = {one.name: stack.enter_context(served(one)) for one in group}
            for one in group:
                wrk.run(services[one.name].url, seconds=WARM_UP, **vars(one.loads[0]))
            for load in dict.fromkeys(load for one in group for load in one.loads):
                self.tables.use(load.links)
                subjects = [one for one in group if load in one.loads]
                judged = [one for one in subjects if (one.name, load) in JUDGED]
                for turn in [subjects, *[judged] * (self.times - 1)]:
                    for one in random.sample(turn, len(turn)):
                        reading = self.ask(one, load, services[one.name])
                        found[one.name, load].readings.append(reading)

    def ask(self, one: Subject, load: Load, service: RunningService) -> Reading:
        """Measure a load once, and compare the answers with the counted requests."""
        master, before = service.process.pid, database.counted()
        workers, sessions = machine.used_by_workers(master), machine.used_by_sessions()
        sample = wrk.run(service.url, seconds=self.seconds, **vars(load))
        workers = machine.used_by_workers(master) - workers
        sessions = machine.used_by_sessions() - sessions
        if not one.application:
            self.miscounted += sample.miscounted(database.counted() - before)
        beside = None
        if one.script:
            beside = pgbench.run(one.script, seconds=self.seconds, **vars(load))
        each = 1e6 / sample.requests
        return Reading(sample, workers.total() * each, sessions.total() * each or None, beside)


def served(one: Subject) -> AbstractContextManager[RunningService]:
    """Return the context in which a subject is served."""
    chosen = {"SHORTURL_LAB": "off", "SHORTURL_LAB_LOAD": "off", **NO_REFUSALS, **one.environment}
    chosen["DATABASE_URL"] = database.url()
    return serving(one.directory, *filter(None, [one.application]), **chosen)
