"""What the benchmark measured: each service under each load, as a table and as data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tabulate import tabulate

from benchmarks.wrk import Sample

LINKS = 10_000  # where nothing else is said
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
    """Requests for "one", "Zipf" or "random" `keys` of so many links, or for "new" links."""

    connections: int = 16
    keys: str = "one"
    links: int = LINKS

    @property
    def asks_for(self) -> str:
        """Which keys, in words."""
        keys = "one key" if self.keys == "one" else self.keys
        return keys if self.keys == "new" else f"{keys} of {self.links:,}"


@dataclass(frozen=True)
class Reading:
    """A load measured once. The processor time of a request is in microseconds.

    `pgbench` is what it makes in a second with the same statements and as many clients, right
    after it; None where there is none.
    """

    sample: Sample
    worker: float
    database: float | None = None
    pgbench: float | None = None

    def value(self, name: str) -> float | None:
        """Return one of the figures in COLUMNS, of the sample or of the reading itself."""
        if name == "of_pgbench":
            return self.sample.per_second / self.pgbench if self.pgbench else None
        found: float | None = getattr(self if hasattr(self, name) else self.sample, name)
        return found


@dataclass(frozen=True)
class Measurement:
    """A service under a load, measured once in each round."""

    subject: str
    load: Load
    readings: list[Reading] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of requests that failed, in all rounds."""
        return sum(one.sample.failed for one in self.readings)

    def median(self, name: str) -> float | None:
        """Return the median of the rounds, of those that have the figure."""
        values = [each for one in self.readings if (each := one.value(name)) is not None]
        return median(values) if values else None

    def cells(self) -> list[str]:
        """Return a line of the table."""
        medians = [(self.median(name), form) for name, form in COLUMNS.values()]
        told = ["–" if value is None else format(value, form) for value, form in medians]
        return [
            self.subject,
            self.load.asks_for,
            str(self.load.connections),
            *told,
            f"{self.failed:,}",
        ]

    def as_data(self) -> dict[str, Any]:
        """Return the measurement as JSON has it, with the requests per second of every round."""
        return {
            "subject": self.subject,
            "keys": self.load.keys,
            "links": self.load.links,
            "connections": self.load.connections,
            **{name: self.median(name) for name, _ in COLUMNS.values()},
            "failed": self.failed,
            "rounds": [one.sample.per_second for one in self.readings],
        }


def table(found: Iterable[Measurement]) -> str:
    """Return the table in Markdown."""
    titles = ["", "keys", "connections", *COLUMNS, "failed"]
    alignment = ["left", "left", *["right"] * (len(titles) - 2)]
    lines = [one.cells() for one in found]
    return tabulate(lines, titles, "pipe", colalign=alignment, disable_numparse=True)


def median_ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    """Return the median of the rounds' ratios, None without any.

    And not the ratio of the medians: the load of the machine changes from round to round.
    """
    pairs = zip(ours, theirs, strict=True)
    ratios = [one / other for one, other in pairs if one is not None and other]
    return median(ratios) if ratios else None
