"""Partial counts: how a slot is chosen, and what a counter in many rows costs to read.

    python -m benchmarks.slots        two minutes; needs no wrk

pgbench adds to one counter, whose slots are there already, by a random slot or by the better one of
two random slots. "Better" is the one with fewer hits, or one that nobody has locked: whoever waits
for a row cannot be seen, and to ask is to lock it. Then it measures what a reader of the total and
roll_up() take. The table is in a database of its own, which is dropped at the end.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import django
from tabulate import tabulate

SLOTS, CLIENTS = (4, 16, 64), (16, 64)
ROUNDS, SECONDS = 3, 1.0
ROWS = (0, 16, 1_000, 10_000, 100_000)
READS = 100

ADD = "UPDATE shorturl_partialcount SET hits = hits + 1 WHERE key = 'hot' AND slot = "
OF_TWO = "SELECT slot FROM shorturl_partialcount WHERE key = 'hot' AND slot IN (:a, :b)"
READ = ["rows", "hits alone µs", "total µs", "roll-up ms", "total before VACUUM µs"]
WAYS = {
    "random": f"{ADD}:a;",
    "fewer hits": f"{ADD}({OF_TWO} ORDER BY hits LIMIT 1);",
    "not locked": f"{ADD}coalesce(({OF_TWO} LIMIT 1 FOR UPDATE SKIP LOCKED), :a);",
}


def main() -> int:
    """Measure in a database of its own, and print two tables; return the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    os.environ.setdefault("SHORTURL_LOCAL", "on")
    django.setup()
    # These need Django to be set up.
    from benchmarks import machine, pgbench
    from lab.scratch_database import scratch_database

    program = pgbench.find()
    if program is None:
        print(f"slots: {pgbench.MISSING}", file=sys.stderr)
        return 2
    with scratch_database():
        about = machine.describe(pgbench.version(program))
        chosen = [*choosing(program)]
        read = [*reading()]
    titles = ["slots", "clients", "random: hits/s", "fewer hits", "not locked", "fullest slot"]
    print(table(chosen, titles))
    print(f"\n{table(read, READ)}")
    print(f"\n{about['date']}, {about['machine']}.")
    return 0


def table(rows: list[list[str]], titles: list[str]) -> str:
    """Return the rows as a table in Markdown."""
    aligned = ["right"] * len(titles)
    return tabulate(rows, titles, "pipe", colalign=aligned, disable_numparse=True)


def choosing(program: str) -> Iterator[list[str]]:
    """Yield rows: hits per second of the first way, the others as multiples of it, round by round.

    And how many times the mean the fullest slot has, of the three ways.
    """
    for slots in SLOTS:
        for clients in CLIENTS:
            rates: dict[str, list[float]] = {way: [] for way in WAYS}
            fullest: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(ROUNDS):
                for way in WAYS:
                    rate, most = added(program, way, slots, clients)
                    rates[way].append(rate)
                    fullest[way].append(most)
            first, *others = rates.values()
            multiples = [
                statistics.median(one / by for one, by in zip(other, first, strict=True))
                for other in others
            ]
            yield [
                str(slots),
                str(clients),
                f"{statistics.median(first):,.0f}",
                *(f"{multiple:.2f} ×" for multiple in multiples),
                ", ".join(f"{statistics.median(most):.2f}" for most in fullest.values()),
            ]


def added(program: str, way: str, slots: int, clients: int) -> tuple[float, float]:
    """Return the hits per second that so many clients add, and the fullest slot over the mean."""
    from benchmarks import pgbench
    from shorturl.models import PartialCount

    PartialCount.objects.all().delete()
    rows = [PartialCount(short_url_id="hot", slot=slot, hits=0) for slot in range(slots)]
    PartialCount.objects.bulk_create(rows)
    draws = "".join(f"\\set {name} random(0, {slots - 1})\n" for name in "ab")
    rate = pgbench.run(
        program, draws + WAYS[way], keys="one", links=1, connections=clients, seconds=SECONDS
    )
    counted = [*PartialCount.objects.values_list("hits", flat=True)]
    return rate or 0.0, max(counted) / statistics.mean(counted)


def reading() -> Iterator[list[str]]:
    """Yield rows: how long a counter in so many rows takes to read, and to roll up.

    And to read after that, until VACUUM has cleared away the rows that were deleted.
    """
    from benchmarks.link_tables import run
    from shorturl.models import PartialCount, ShortUrl
    from shorturl.roll_up import roll_up

    run("TRUNCATE shorturl_partialcount")
    link = ShortUrl.objects.create(key="hot", target_url="https://example.com/")
    for rows in ROWS:
        PartialCount.objects.bulk_create(
            [PartialCount(short_url=link, hits=1) for _ in range(rows)], batch_size=10_000
        )
        run("VACUUM (ANALYZE) shorturl_partialcount")
        counter = microseconds(lambda: ShortUrl.objects.get(key="hot"))
        total = microseconds(lambda: ShortUrl.objects.with_total_hits().get(key="hot"))
        began = time.perf_counter()
        roll_up()
        took = (time.perf_counter() - began) * 1e3
        after = microseconds(lambda: ShortUrl.objects.with_total_hits().get(key="hot"))
        run("VACUUM shorturl_partialcount")
        figures = (f"{counter:,.0f}", f"{total:,.0f}", f"{took:,.1f}", f"{after:,.0f}")
        yield [f"{rows:,}", *figures]


def microseconds(read: Callable[[], object]) -> float:
    """Return the least time of some calls: the others had to wait for other work."""
    taken = []
    for _ in range(READS):
        began = time.perf_counter()
        read()
        taken.append((time.perf_counter() - began) * 1e6)
    return min(taken)


if __name__ == "__main__":
    sys.exit(main())
