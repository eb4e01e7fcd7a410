"""What the benchmark measured: each strategy under each load, as Markdown and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tabulate import tabulate

from benchmarks.wrk import Sample

CEILING = "one line"  # in the place of a strategy's name: a WSGI application of one line
# The claim that one statement is worth it: the redirects per second of update_returning, over
# those of the two that read first, when everybody follows one link.
FASTEST, OTHERS, AT_LEAST = "update_returning", ("f_expression", "select_for_update"), 1.5

COLUMNS = (
    "strategy",
    "keys",
    "connections",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "µs of a worker",
    "of one line",
    "pgbench/s",
    "of the database",
)


@dataclass(frozen=True)
class Load:
    """The load: requests for so many different keys (None for no key), on so many connections."""

    keys: int | None
    connections: int


HOT = Load(keys=1, connections=16)


@dataclass
class Measurement:
    """A strategy under a load, measured once in each round.

    `ceilings` are the hits per second that pgbench counts with the same statements, if available;
    `processor` is the workers' processor time per request, in seconds.
    """

    strategy: str
    load: Load
    samples: list[Sample] = field(default_factory=list)
    ceilings: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        """The requests answered in a second: the median of the rounds."""
        return median(sample.per_second for sample in self.samples)

    @property
    def p50(self) -> float:
        """The time within which half of the requests was answered, in milliseconds."""
        return median(sample.p50 for sample in self.samples)

    @property
    def p99(self) -> float:
        """The time within which 99 of 100 requests were answered, in milliseconds."""
        return median(sample.p99 for sample in self.samples)

    @property
    def database(self) -> float | None:
        """The hits per second that PostgreSQL alone counts: the median of the rounds."""
        return median(self.ceilings) if self.ceilings else None

    @property
    def microseconds(self) -> float:
        """The workers' processor time per request: the median of the rounds."""
        return median(self.processor) * 1e6

    @property
    def errors(self) -> int:
        """The number of requests that failed."""
        return sum(sample.errors for sample in self.samples)


def ceiling_of(one: Measurement, of_all: Iterable[Measurement]) -> float:
    """Return the requests per second of the one line, with as many connections."""
    return next(
        other.per_second
        for other in of_all
        if other.strategy == CEILING and other.load.connections == one.load.connections
    )


def markdown(of_all: Sequence[Measurement]) -> str:
    """Return the table."""
    lines = []
    for one in of_all:
        keys = f"{one.load.keys:,}" if one.load.keys else "–"
        share, database, of_database = f"{one.per_second / ceiling_of(one, of_all):.0%}", "–", "–"
        if one.database:
            database, of_database = f"{one.database:,.0f}", f"{one.per_second / one.database:.0%}"
        cells = [one.strategy, keys, str(one.load.connections), f"{one.per_second:,.0f}"]
        cells += [f"{one.p50:.1f}", f"{one.p99:.1f}", f"{one.microseconds:.0f}"]
        cells += [share, database, of_database]
        lines.append(cells)
    alignment = ["left", *["right"] * (len(COLUMNS) - 1)]
    return tabulate(lines, COLUMNS, "pipe", colalign=alignment, disable_numparse=True)


def as_data(of_all: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Return the measurements as JSON has them, with the requests per second of every round."""
    return [
        {
            "strategy": one.strategy,
            "keys": one.load.keys,
            "connections": one.load.connections,
            "requests_per_second": round(one.per_second, 1),
            "rounds": [round(sample.per_second, 1) for sample in one.samples],
            "p50_ms": one.p50,
            "p99_ms": one.p99,
            "worker_microseconds": round(one.microseconds),
            "errors": one.errors,
            "of_one_line": round(one.per_second / ceiling_of(one, of_all), 4),
            "pgbench_per_second": one.database and round(one.database, 1),
            "of_database": one.database and round(one.per_second / one.database, 4),
        }
        for one in of_all
    ]


def ratios(of_all: Iterable[Measurement]) -> dict[str, float]:
    """Return how many times as fast as each of OTHERS the FASTEST is, on the hot key.

    The median of the rounds' ratios: the load of the machine changes from round to round.
    """
    hot = {one.strategy: one.samples for one in of_all if one.load == HOT}
    return {
        name: median(
            ours.per_second / theirs.per_second
            for ours, theirs in zip(hot[FASTEST], hot[name], strict=True)
        )
        for name in OTHERS
    }


def claim(found: dict[str, float]) -> str:
    """Return the sentence that says whether the claim holds."""
    times = " and ".join(f"{ratio:.2f} times as fast as {name}" for name, ratio in found.items())
    outcome = "as required" if min(found.values()) >= AT_LEAST else "which is not enough"
    return (
        f"One hot key, {HOT.connections} connections: {FASTEST} is {times} "
        f"(required: at least {AT_LEAST} times; {outcome})."
    )


def passes(of_all: Sequence[Measurement], *, lost: int) -> bool:
    """Return whether the claim holds, no redirect was lost and no request failed."""
    holds = min(ratios(of_all).values()) >= AT_LEAST
    return holds and not lost and not any(one.errors for one in of_all)
