"""Real threads beside the exploration, at each level: `python -m benchmarks.isolation_levels`.

Some threads call a strategy at once, on one link, with nothing that orders them. What the
exploration calls safe must end without an error and without a lost hit; what it calls broken must
not. The table has both, a row for each strategy of `lost_update`.
"""

import argparse
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import django
from django.db import connection, connections

from lab.markdown import table

WRITES_LATER = "in_memory"  # which no schedule shows, and no end of a thread


def errors(strategy: Any, level: str, threads: int, calls: int) -> tuple[int, int]:
    """Return how many of `threads` × `calls` raised an error, and how many hits were lost."""
    from lab.catalogue import resolving_races

    resolving_races.fresh_links(strategy)
    start, raised = threading.Barrier(threads), []

    def run() -> None:
        resolve = strategy.of_another_process()  # as each process of a service has it
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET default_transaction_isolation = '{level}'")
            start.wait()
            for _ in range(calls):
                try:
                    resolve("a")
                except Exception as error:
                    raised.append(error)
        finally:
            connections.close_all()

    running = [threading.Thread(target=run) for _ in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    counted = resolving_races.hits_by_key()["a"]
    return len(raised), threads * calls - len(raised) - counted


def measured(threads: int, calls: int) -> Iterator[tuple[str, str, str, tuple[int, int]]]:
    """Yield the strategy, the level, what the exploration counts, and what the threads met."""
    from lab.catalogue import RACES
    from lab.recording.jobs import LEVELS

    race = RACES["lost_update"]
    for name, strategy in race.strategies.items():
        for level in LEVELS if name != WRITES_LATER else ():
            found = race.explore(strategy, 2, reduce=True, isolation_level=level)
            assert found.complete
            count = f"{found.violating} / {found.schedules}"
            yield name, level, count, errors(strategy, level, threads, calls)


def main() -> None:
    """Print the table; exit with 1 when threads and exploration disagree."""
    from lab.recording.jobs import LEVELS
    from lab.scratch_database import scratch_database

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--calls", type=int, default=200, help="by each thread")
    options = parser.parse_args()
    rows: dict[str, list[str]] = {}
    disagree = []
    with scratch_database():
        for name, level, count, (raised, lost) in measured(options.threads, options.calls):
            rows.setdefault(name, [name]).append(f"{count}; {raised} errors, {lost} lost")
            if count.startswith("0 /") is not (raised == lost == 0):
                disagree.append(f"{name} under {level}: {count}, and {raised} errors, {lost} lost")
    print(table(["strategy", *LEVELS], list(rows.values())))
    sys.exit("\n".join(disagree) or 0)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    main()
