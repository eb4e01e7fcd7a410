"""The measurements of each service under each load, and the goals that compare them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from tabulate import tabulate

from loadtests.bench.wrk import Sample

LINKS = 10_000
COLUMNS = {
    "requests/s": ("per_second", ",.0f"),
    "p50 ms": ("p50", ".1f"),
    "p99 ms": ("p99", ".1f"),
    "p99.9 ms": ("p999", ".1f"),
    "worker µs": ("worker", ".0f"),
    "PostgreSQL µs": ("database", ".0f"),
    "pgbench/s": ("pgbench", ",.0f"),
    "of pgbench": ("of_pgbench", ".0%"),
}


@dataclass(frozen=True)
class Load:
    """Requests for "one" or "random" `keys` of LINKS, or for "new" links."""

    connections: int = 16
    keys: str = "one"

    @property
    def asks_for(self) -> str:
        keys = "one key" if self.keys == "one" else self.keys
        return keys if self.keys == "new" else f"{keys} of {LINKS:,}"


@dataclass(frozen=True)
class Reading:
    """A load measured once. The processor time of a request is in microseconds.

    `pgbench` is the rate of pgbench with the same statements and as many clients, measured right
    after it; None if it was not measured.
    """

    sample: Sample
    worker: float
    database: float | None = None
    pgbench: float | None = None

    def value(self, name: str) -> float | None:
        """Return one of the figures in COLUMNS."""
        if name == "of_pgbench":
            return self.sample.per_second / self.pgbench if self.pgbench else None
        figures: dict[str, float | None] = {**vars(self.sample), **vars(self)}
        return figures[name]


@dataclass(frozen=True)
class Measurement:
    """A service under a load, measured at least once in each round."""

    subject: str
    load: Load
    readings: list[Reading] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(one.sample.failed for one in self.readings)

    def median(self, name: str) -> float | None:
        """Return the median of the readings that have the figure."""
        values = [each for one in self.readings if (each := one.value(name)) is not None]
        return median(values) if values else None

    def cells(self) -> list[str]:
        medians = [(self.median(name), form) for name, form in COLUMNS.values()]
        told = ["–" if value is None else format(value, form) for value, form in medians]
        connections = str(self.load.connections)
        return [self.subject, self.load.asks_for, connections, *told, f"{self.failed:,}"]


def table(found: Iterable[Measurement]) -> str:
    """Return the table in Markdown."""
    titles = ["", "keys", "connections", *COLUMNS, "failed"]
    alignment = ["left", "left", *["right"] * (len(titles) - 2)]
    lines = [one.cells() for one in found]
    return tabulate(lines, titles, "pipe", colalign=alignment, disable_numparse=True)


# --- Goals ---------------------------------------------------------------------------------------

SERVICE, ONE_LINE, BASELINE = "service", "one-line ASGI", "baseline"
RECORDING = "service with visits"  # SERVICE only counts, as pgbench does
VIEW = "Django view, gthread"  # the redirect as an ordinary view, on gunicorn's worker of threads
PGBENCH = "pgbench"  # in the place of another service, with the same statements
AS_FAST = 0.95
HOT, RANDOM, RANDOM_64, NEW = Load(), Load(keys="random"), Load(64, "random"), Load(keys="new")


class Goal(NamedTuple):
    """The least ratio of the requests per second of two services, measured side by side."""

    ours: str
    load: Load
    theirs: str
    at_least: float

    @property
    def text(self) -> str:
        load = f"{self.load.asks_for}, {self.load.connections} connections"
        return f"{self.ours}, {load} / {self.theirs}"

    @property
    def sides(self) -> tuple[tuple[str, Load], tuple[str, Load]]:
        """The two measurements. Those of the service have pgbench's."""
        other = self.ours if self.theirs == PGBENCH else self.theirs
        return (self.ours, self.load), (other, self.load)

    def ratio(self, found: dict[tuple[str, Load], Measurement]) -> float | None:
        """Return the median of the readings' ratios; None if one of the two was not measured.

        The ratio of the medians would be less exact, as the load of the machine changes meanwhile.
        """
        ours, theirs = map(found.get, self.sides)
        if not ours or not theirs:
            return None
        name = "pgbench" if self.theirs == PGBENCH else "per_second"
        pairs = zip(ours.readings, theirs.readings, strict=True)
        values = [(one.sample.per_second, other.value(name)) for one, other in pairs]
        ratios = [one / other for one, other in values if other]
        return median(ratios) if ratios else None


GOALS = (
    Goal(SERVICE, HOT, PGBENCH, 2.0),
    Goal(SERVICE, Load(64), PGBENCH, 7.0),
    Goal(SERVICE, RANDOM, PGBENCH, 0.5),
    Goal(SERVICE, RANDOM_64, PGBENCH, 1.0),
    Goal(SERVICE, HOT, BASELINE, AS_FAST),
    Goal(SERVICE, Load(64), BASELINE, AS_FAST),
    Goal(SERVICE, RANDOM, BASELINE, AS_FAST),
    Goal(SERVICE, RANDOM_64, BASELINE, AS_FAST),
    Goal(SERVICE, NEW, BASELINE, AS_FAST),
    Goal(RECORDING, HOT, SERVICE, 0.85),
    Goal(RECORDING, RANDOM, SERVICE, 0.85),
)
JUDGED = dict.fromkeys(side for goal in GOALS for side in goal.sides)


# --- For a reader who knows other programs -------------------------------------------------------


def summary(found: dict[tuple[str, Load], Measurement]) -> str:
    """Return the redirects per second of the service beside known programs, in Markdown."""
    rows = (
        ("this service", SERVICE, "per_second"),
        ("this service, which also records visits (the default)", RECORDING, "per_second"),
        ("pgbench, PostgreSQL's own benchmark: the same UPDATE for each hit", SERVICE, "pgbench"),
        ("the redirect as a plain Django view, on gunicorn's gthread", VIEW, "per_second"),
        ("one line of ASGI on the same gunicorn, which counts nothing", ONE_LINE, "per_second"),
    )
    loads = [Load(number, keys) for keys in ("one", "random") for number in (16, 64)]
    lines = []
    for title, subject, figure in rows:
        measured = [found.get((subject, load)) for load in loads]
        medians = [one.median(figure) if one else None for one in measured]
        lines.append([title, *("–" if each is None else f"{each:,.0f}" for each in medians)])
    titles = [f"{load.asks_for}, {load.connections} clients" for load in loads]
    alignment = ["left", *["right"] * len(loads)]
    return tabulate(lines, ["", *titles], "pipe", colalign=alignment, disable_numparse=True)


def goals_table(ratios: dict[Goal, float]) -> str:
    """Return the ratios and the least ones as a table in Markdown."""
    lines = [
        (
            goal.text,
            f"{ratio:.2f}",
            f"{goal.at_least:.2f}",
            "yes" if ratio >= goal.at_least else "no",
        )
        for goal, ratio in ratios.items()
    ]
    titles = ["requests per second", "times", "at least", "met"]
    alignment = ["left", "right", "right", "left"]
    return tabulate(lines, titles, "pipe", colalign=alignment, disable_numparse=True)
