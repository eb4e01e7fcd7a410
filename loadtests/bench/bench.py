"""The rounds of the benchmark, and the subjects that are measured in them."""

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench import machine, pgbench, wrk
from loadtests.bench.measurements import (
    BASELINE,
    HOT,
    JUDGED,
    LINKS,
    NEW,
    ONE_LINE,
    RANDOM,
    RECORDING,
    SERVICE,
    VIEW,
    Load,
    Measurement,
    Reading,
)
from loadtests.bench.services import COUNTED, Database, Gunicorn
from loadtests.harness.serving import RunningService
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.resolving import combined
from shorturl.strategies.table import STRATEGIES, Verdict

WARM_UP = 0.5  # seconds
CONNECTIONS = (1, 16, 64, 256)
KEY = "/k"  # the beginning of the service's paths; the links are /k1, /k2, …


@dataclass(frozen=True)
class Subject:
    """What is measured: a service, or a strategy at the lab's endpoint.

    wrk follows links at `path`, with a number after it, or posts `body` to it. pgbench runs the
    `script`; without one there is nothing to compare with.
    """

    name: str
    loads: Sequence[Load]
    gunicorn: Gunicorn
    path: str = KEY
    body: str = ""
    script: str = ""


@dataclass(frozen=True)
class Part:
    """Subjects that are served at once, and measured in turn under one load after another."""

    title: str
    subjects: Sequence[Subject]
    rounds: int
    found: dict[tuple[str, Load], Measurement] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for subject in self.subjects:
            for load in subject.loads:
                self.found[subject.name, load] = Measurement(subject.name, load)


def plan(
    ours: Database, space: str, theirs: tuple[Database, Path] | None, *, quick: bool
) -> list[Part]:
    """Return the parts to measure.

    `space` is a key space of the lab. `theirs` is another checkout with its database.
    """
    many = [HOT] if quick else [Load(number) for number in CONNECTIONS]
    drawn = [Load(load.connections, keys) for keys in ("one", "random") for load in many]
    apart = many if quick else [*many, RANDOM]
    new = [Load(load.connections, "new") for load in many]
    counting, lab = Gunicorn(ours), Gunicorn(ours, lab=True)
    one_line = Gunicorn(ours, arguments=("loadtests.bench.one_line:application",), counts=False)
    view = Gunicorn(ours, arguments=("--worker-class=gthread", "project.wsgi:application"))
    creates = {"path": "/api/links", "body": '{"target_url": "https://example.com/1"}'}
    by_side = [
        Subject(SERVICE, drawn, counting, script=pgbench.resolving_script(combined.resolve)),
        Subject(
            SERVICE, new, counting, **creates, script=pgbench.creating_script(on_conflict.create)
        ),
        Subject(RECORDING, drawn, Gunicorn(ours, visits=True)),
        Subject(ONE_LINE, many, one_line),
        Subject(VIEW, drawn, view),
    ]
    if theirs:
        before = Gunicorn(*theirs)
        loads = [load for (name, load) in JUDGED if name == BASELINE and load in (*drawn, *new)]
        by_side += [
            Subject(BASELINE, [load for load in loads if load != NEW], before),
            Subject(BASELINE, [NEW], before, **creates),
        ]
    right = (Verdict.RIGHT, Verdict.RIGHT_WITHOUT_CONDITION)  # no link has a limit
    resolves = [
        Subject(
            name,
            apart,
            lab,
            path=f"/lab/resolve/{name}/{space}-0-",
            script=pgbench.resolving_script(one.function),
        )
        for name, one in STRATEGIES["resolving"].items()
        if one.verdict in right
    ]
    makes = [
        Subject(
            name,
            new,
            lab,
            path=f"/lab/create/{name}",
            body=f'{{"space": "{space}", "round": %d, "target_url": "https://{space}.invalid/1"}}',
            script=pgbench.creating_script(one.function),
        )
        for name, one in STRATEGIES["creating"].items()
        if one.verdict is Verdict.RIGHT
    ]
    few, more = (1, 1) if quick else (3, 5)
    return [
        Part("The service and its ceilings", by_side, more),
        Part("Every right way to resolve, at the lab's endpoints", resolves, few),
        Part("Every right way to create, at the lab's endpoints", makes, few),
    ]


class Bench:
    """The measurements.

    In a round, the loads of a goal are measured `times` times and all others once: the ratio of two
    services differs by a tenth from one time to the next. `miscounted` is the number of requests
    that were answered and not counted, or counted twice.
    """

    def __init__(self, *, seconds: float, times: int) -> None:
        self.seconds, self.times, self.miscounted = seconds, times, 0

    def run(self, parts: Iterable[Part], *, progress: Callable[[str], object]) -> None:
        for part in parts:
            for number in range(1, part.rounds + 1):
                progress(f"{part.title}: round {number} of {part.rounds}")
                self.round(part)

    def round(self, part: Part) -> None:
        """Serve all of `part` at once, and measure each under the same load before the next."""
        with ExitStack() as stack:
            started = dict.fromkeys(one.gunicorn for one in part.subjects)
            services = {one: stack.enter_context(one.start()) for one in started}
            for one in part.subjects:
                self.send(one, one.loads[0], services[one.gunicorn], WARM_UP)
            for load in dict.fromkeys(load for one in part.subjects for load in one.loads):
                subjects = [one for one in part.subjects if load in one.loads]
                judged = [one for one in subjects if (one.name, load) in JUDGED]
                for turn in [subjects, *[judged] * (self.times - 1)]:
                    for one in random.sample(turn, len(turn)):
                        reading = self.ask(one, load, services[one.gunicorn])
                        part.found[one.name, load].readings.append(reading)

    def send(self, one: Subject, load: Load, service: RunningService, seconds: float) -> wrk.Sample:
        address = service.url + one.path
        return wrk.run(address, one.body, load.keys, LINKS, load.connections, seconds)

    def ask(self, one: Subject, load: Load, service: RunningService) -> Reading:
        """Measure a load once, and compare the answers with the counted requests."""
        master, database = service.process.pid, one.gunicorn.database
        before = counted(one)
        workers, sessions = machine.used_by_workers(master), machine.used_by_sessions(database)
        sample = self.send(one, load, service, self.seconds)
        workers = machine.used_by_workers(master) - workers
        sessions = machine.used_by_sessions(database) - sessions
        if one.gunicorn.counts:
            self.miscounted += sample.miscounted(counted(one) - before)
        beside = None
        if one.script:
            beside = pgbench.run(
                database, one.script, load.keys, LINKS, load.connections, self.seconds
            )
        each = 1e6 / sample.requests
        return Reading(sample, workers.total() * each, sessions.total() * each or None, beside)


def counted(one: Subject) -> int:
    """Return the number of hits and links in the database of `one`, as one sum."""
    database = one.gunicorn.database
    # A baseline has no strategy that counts apart, and its table may have another name.
    apart = 0 if one.name == BASELINE else database.number(pgbench.COUNTED_APART)
    return database.number(COUNTED) + apart
