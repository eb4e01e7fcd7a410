"""The time that the explorer takes to explore all schedules.

    .venv/bin/python -m loadtests.bench.explorer [--repeat 5]

It starts a PostgreSQL in a temporary directory, and uses no other. With PYTHONPATH set to
`pginterleave/src` of another checkout, it measures the explorer there.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.db import connection, transaction

from loadtests.harness.own_postgres import own_postgres

PACKAGE = Path(__file__).parents[2] / "packages" / "pginterleave"
REDUCED = {"reduce": True, "symmetric": True}
LIMITS = {"max_schedules": 100_000, "max_seconds": 600}
# The checkout has the size of django-oscar's: two customers take 82 steps.
READ = ["customer", "session", "site", "basket", "product"]
READ += ["class", "offer", "voucher", "address", "country"]
WRITTEN = ["purchase", "delivery", "line", "price", "attribute"]
WRITTEN += ["source", "payment", "note", "event"]


def checkout() -> None:
    """Read all tables, then lock the stock and write the rows of an order."""
    with connection.cursor() as cursor:
        for name in 2 * READ:
            cursor.execute(f"SELECT value FROM shop_{name} WHERE id = 1")  # noqa: S608
        with transaction.atomic():
            cursor.execute("SELECT hits FROM interleave_counter WHERE id = 1 FOR UPDATE")
            for name in WRITTEN:
                cursor.execute("SELECT value FROM shop_product WHERE id = 1")
                cursor.execute(f"INSERT INTO shop_{name} (product) VALUES (1)")  # noqa: S608
            cursor.execute("UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1")


def main() -> None:
    """Print a line for each exploration."""
    parser = argparse.ArgumentParser(description="The time that the explorer takes.")
    parser.add_argument("--repeat", type=int, default=5, help="explorations per line")
    repeat = parser.parse_args().repeat
    with own_postgres() as postgres:
        address = {name.upper(): value for name, value in postgres.address.items()}
        name, engine = address.pop("DBNAME"), "django.db.backends.postgresql"
        settings.configure(DATABASES={"default": {"ENGINE": engine, "NAME": name, **address}})
        django.setup()
        measure(repeat)


def measure(repeat: int) -> None:
    """Print medians of so many explorations, connecting and disconnecting included."""
    sys.path.insert(0, str(PACKAGE))
    from tests import counter  # its models need the settings

    cases: list[tuple[Callable[[], object], int, dict[str, Any]]] = [
        (counter.naive, 2, {}),
        (counter.select_for_update, 2, {}),
        (counter.naive, 3, {}),
        (counter.naive, 3, {"preemption_bound": 2}),
        (counter.naive, 3, REDUCED),
        (counter.atomic_only, 3, REDUCED),
        (counter.update_returning, 3, REDUCED),
        (counter.f_expression, 3, REDUCED),
        (counter.compare_and_swap, 3, REDUCED),
        (counter.select_for_update, 3, REDUCED),
        (counter.select_for_update, 3, {"reduce": True}),
        (checkout, 2, {"reduce": True, "max_seconds": 60}),
    ]
    with connection.schema_editor() as editor:
        editor.create_model(counter.Counter)
    for name in READ:
        counter.sql(f"CREATE TABLE shop_{name} (id int PRIMARY KEY, value int)")
    counter.sql("INSERT INTO shop_product VALUES (1, 0)")
    for name in WRITTEN:
        columns = "id serial PRIMARY KEY, product int REFERENCES shop_product"
        counter.sql(f"CREATE TABLE shop_{name} ({columns})")
    for function, processes, options in cases:
        seconds, rates = [], []
        for _ in range(repeat):
            ended: list[float] = []  # the time of each schedule; all connect before the first
            found = counter.explored(
                *[function] * processes,
                invariant=counter.counted(processes),
                progress=lambda _, ended=ended: ended.append(time.perf_counter()),
                **{**LIMITS, **options},
            )
            seconds.append(found.seconds)
            rates.append((len(ended) - 1) / (ended[-1] - ended[0]))
        print(
            f"{function.__name__:18} {processes} processes  "
            f"{found.violating:6} of {found.schedules:6} schedules violate the invariant  "
            f"{len(found.orders):5} ran  {statistics.median(rates):5.0f} per second  "
            f"{', '.join(options) or 'all of them':19}  {statistics.median(seconds):7.3f} s"
            f"{found.truncated and f'  {found.truncated}'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
