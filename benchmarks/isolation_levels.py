"""Real threads beside the exploration, at each level: `python -m benchmarks.isolation_levels`.

Some threads call a strategy at once, with nothing that orders them. What the exploration calls safe
must end without an error and without a violation; what it calls broken must not. The tables have
both, a row for each strategy: of `lost_update`, where all threads follow one link, and of
`write_skew`, where two switch off a link each, again and again.
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


def skews(strategy: Any, level: str, rounds: int) -> tuple[int, int]:
    """Return how many of 2 × `rounds` calls raised an error, and how many rounds left no link."""
    from lab.catalogue.write_skew import TeamLink, two_active_links

    two_active_links(strategy)
    together, raised, left_none = threading.Barrier(3), [], 0

    def run(key: str) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET default_transaction_isolation = '{level}'")
            for _ in range(rounds):
                together.wait()
                try:
                    strategy.function(key)
                except Exception as error:
                    raised.append(error)
                together.wait()
        finally:
            connections.close_all()

    running = [threading.Thread(target=run, args=[key]) for key in ("a", "b")]
    for each in running:
        each.start()
    for _ in range(rounds):
        TeamLink.objects.update(active=True)
        together.wait()  # both begin
        together.wait()  # both have ended
        left_none += not TeamLink.objects.filter(active=True).exists()
    for each in running:
        each.join()
    return len(raised), left_none


def measured(threads: int, calls: int) -> Iterator[tuple[str, str, str, str, int, str]]:
    """Yield the race, the strategy, the level, and what the exploration counts.

    And of what the threads met, how many errors and violations, and the same in words.
    """
    from lab.catalogue import EVERY_RACE
    from lab.recording.jobs import LEVELS

    for name in "lost_update", "write_skew":
        race = EVERY_RACE[name]
        for strategy in race.strategies.values():
            for level in LEVELS if strategy.name != WRITES_LATER else ():
                found = race.explore(strategy, 2, reduce=True, isolation_level=level)
                assert found.complete
                count = f"{found.violating} / {found.schedules}"
                if name == "lost_update":
                    raised, violated = errors(strategy, level, threads, calls)
                    said = f"{raised} errors, {violated} lost"
                else:
                    raised, violated = skews(strategy, level, calls)
                    said = f"{raised} errors, {violated} skewed"
                yield name, strategy.name, level, count, raised + violated, said


def main() -> None:
    """Print the table; exit with 1 when threads and exploration disagree."""
    from lab.recording.jobs import LEVELS
    from lab.scratch_database import scratch_database

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--calls", type=int, default=200, help="by each thread")
    options = parser.parse_args()
    tables: dict[str, dict[str, list[str]]] = {}
    disagree = []
    with scratch_database():
        for race, name, level, count, met, said in measured(options.threads, options.calls):
            rows = tables.setdefault(race, {})
            rows.setdefault(name, [name]).append(f"{count}; {said}")
            if count.startswith("0 /") is not (met == 0):
                disagree.append(f"{race} × {name} under {level}: {count}, and {said}")
    print("\n\n".join(table([race, *LEVELS], list(rows.values())) for race, rows in tables.items()))
    sys.exit("\n".join(disagree) or 0)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    main()
