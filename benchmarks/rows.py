"""What the benchmark measured: one row for each strategy and load, as Markdown and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.wrk import Sample

CEILING = "no database"  # stands where a strategy's name would
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
    "of the framework",
    "pgbench/s",
    "of the database",
)


@dataclass(frozen=True)
class Load:
    """How the service is asked: for how many different keys (None for no key), by how many."""

    keys: int | None
    connections: int


HOT = Load(keys=1, connections=16)


@dataclass
class Row:
    """A strategy under a load, measured once in each round.

    `ceilings` are the hits per second that pgbench counts with the same statements, if it is there.
    """

    strategy: str
    load: Load
    samples: list[Sample] = field(default_factory=list)
    ceilings: list[float] = field(default_factory=list)

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
    def errors(self) -> int:
        """The number of requests that were not answered as asked."""
        return sum(sample.errors for sample in self.samples)


def ceiling_of(row: Row, rows: Iterable[Row]) -> float:
    """Return the requests per second without a database, with as many connections."""
    return next(
        other.per_second
        for other in rows
        if other.strategy == CEILING and other.load.connections == row.load.connections
    )


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"| --- |{' ---: |' * (len(COLUMNS) - 1)}"
    for row in rows:
        keys = f"{row.load.keys:,}" if row.load.keys else "–"
        share, database, of_database = f"{row.per_second / ceiling_of(row, rows):.0%}", "–", "–"
        if row.database:
            database, of_database = f"{row.database:,.0f}", f"{row.per_second / row.database:.0%}"
        cells = [row.strategy, keys, str(row.load.connections), f"{row.per_second:,.0f}"]
        cells += [f"{row.p50:.1f}", f"{row.p99:.1f}", share, database, of_database]
        yield f"| {' | '.join(cells)} |"


def as_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows as JSON has them, every round's requests per second included."""
    return [
        {
            "strategy": row.strategy,
            "keys": row.load.keys,
            "connections": row.load.connections,
            "requests_per_second": round(row.per_second, 1),
            "rounds": [round(sample.per_second, 1) for sample in row.samples],
            "p50_ms": row.p50,
            "p99_ms": row.p99,
            "errors": row.errors,
            "of_framework": round(row.per_second / ceiling_of(row, rows), 4),
            "pgbench_per_second": row.database and round(row.database, 1),
            "of_database": row.database and round(row.per_second / row.database, 4),
        }
        for row in rows
    ]


def ratios(rows: Iterable[Row]) -> dict[str, float]:
    """Return how many times the redirects of each of OTHERS the FASTEST makes, on the hot key.

    The median of the rounds' ratios: what else the machine does changes from round to round.
    """
    hot = {row.strategy: row.samples for row in rows if row.load == HOT}
    return {
        name: median(
            ours.per_second / theirs.per_second
            for ours, theirs in zip(hot[FASTEST], hot[name], strict=True)
        )
        for name in OTHERS
    }


def claim(found: dict[str, float]) -> str:
    """Return the sentence that says whether the claim holds."""
    times = " and ".join(f"{ratio:.2f} times those of {name}" for name, ratio in found.items())
    outcome = "as it must" if min(found.values()) >= AT_LEAST else "and it must be more"
    return (
        f"One hot key, {HOT.connections} connections: {FASTEST} makes {times} in a second "
        f"(at least {AT_LEAST} is asked: {outcome})."
    )
