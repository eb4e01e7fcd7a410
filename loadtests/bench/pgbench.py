"""pgbench: the statements of a strategy without the service, as the database's ceiling."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from typing import Any
from unittest.mock import patch

from django.db import connection
from django.test.utils import CaptureQueriesContext

from embedded_postgres.postgres import programs
from loadtests.bench.services import COUNTED, FREE, Database
from shorturl.strategies.exhibits.models import PartialCount
from shorturl.strategies.resolving import slotted_counter

CONNECTING = 0.01  # seconds for each client to connect, added to pgbench's time
OVERTIME = 60  # seconds that pgbench may take to end
ATTEMPTS = 1_000  # after a serialization failure, such as in repeatable_read

# How the number of a key is drawn.
DRAWN = {
    "one": "1",
    "random": "random(1, :links)",
    "new": "random(1000000000000, 999999999999999)",
}
# Values that appear nowhere else in a statement.
KEY, ID, HITS, SLOT = "the-key", 777_777_777, 555_555_555, 31_313
NEW_LINK = "INSERT INTO shorturl_shorturl (id, key, target_url, hits) VALUES (%s, %s, %s, %s)"
# Where slotted_counter and append_only count.
APART = PartialCount._meta.db_table
COUNTED_APART = f"SELECT coalesce(sum(hits), 0) FROM {APART}"  # noqa: S608


def program() -> str:
    """Return the path of pgbench; raise ImproperlyConfigured without PostgreSQL's package."""
    return str(programs() / "pgbench")


def version() -> str:
    """Return pgbench's name and version; raise ImproperlyConfigured."""
    told = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return told.stdout.strip().replace("(PostgreSQL) ", "")


def resolving_script(resolve: Callable[[str], Any]) -> str:
    """Return what a strategy sends to resolve a key, as a script for pgbench.

    The strategy runs once, on a new link, and its statements are recorded, with variables for the
    values that change from hit to hit. The columns that a SELECT reads become variables, too: the
    next statement has the row's id and its hits.
    """
    with connection.cursor() as cursor:
        cursor.execute(NEW_LINK, [ID, KEY, "https://example.com/", HITS])
    with patch.object(slotted_counter, "randrange", lambda _: SLOT):
        statements, _ = recorded(lambda: resolve(KEY))
    variables = [(KEY, "k:n"), (ID, ":id"), (HITS + 1, ":hits + 1"), (HITS, ":hits")]
    variables += [(SLOT, ":slot")]
    text = "".join(
        line + (" \\gset\n" if line.startswith("SELECT") and "FROM" in line else ";\n")
        for line in with_variables(statements, variables)
    )
    draw = f"\\set slot random(1, {slotted_counter.SLOTS})\n"
    return draw + text if ":slot" in text else text


def creating_script(create: Callable[..., Any]) -> str:
    """Return what a strategy sends to create a link, as a script for pgbench."""
    with connection.cursor() as cursor:
        sequence = "pg_get_serial_sequence('shorturl_shorturl', 'id')"
        cursor.execute(f"SELECT setval({sequence}, {ID - 1})")  # for the strategy that sends an id
    statements, key = recorded(lambda: create("https://example.com/", keys=[KEY]))
    return "".join(f"{line};\n" for line in with_variables(statements, [(key, "c:n"), (ID, ":n")]))


def recorded(call: Callable[[], Any]) -> tuple[list[str], str]:
    """Return the statements that `call` sends, and the key of its short URL, which is removed."""
    with CaptureQueriesContext(connection) as captured:
        key = call().key
    with connection.cursor() as cursor:
        for table in (APART, "shorturl_shorturl"):
            cursor.execute(f"DELETE FROM {table} WHERE key = %s", [key])  # noqa: S608
    return [query["sql"].rstrip("; ") for query in captured.captured_queries], key


def with_variables(statements: Iterable[str], variables: list[tuple[object, str]]) -> Iterable[str]:
    """Yield the statements with variables for values."""
    for statement in statements:
        for value, variable in variables:
            statement = statement.replace(str(value), variable)
        yield statement


def run(
    database: Database, text: str, keys: str, links: int, connections: int, seconds: float
) -> float | None:
    """Return the hits, or "new" links, per second that `connections` clients make by `text`.

    The number of transactions would be too high: compare_and_swap retries when it has changed no
    row, and pgbench has no loops. Returns None if PostgreSQL does not admit so many clients, or
    nothing was counted. Raises CalledProcessError.
    """
    if connections > database.number(FREE):
        return None

    def counted() -> int:
        return database.number(COUNTED) + database.number(COUNTED_APART)

    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(f"\\set n {DRAWN[keys]}\n{text}")
        file.flush()
        command = [program(), "--no-vacuum", f"--file={file.name}", f"--define=links={links}"]
        command += [f"--client={connections}", f"--jobs={min(connections, os.cpu_count() or 1)}"]
        time = max(1, round(seconds + connections * CONNECTING))
        command += [f"--time={time}", f"--max-tries={ATTEMPTS}"]
        before = counted()
        ended = subprocess.run(  # noqa: S603 - nothing in it comes from outside
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=time + OVERTIME,
            env={**os.environ, **database.environment},
        )
    # The seconds that pgbench measured, without connecting. It prints none without a transaction.
    transactions = re.search(r"actually processed: (\d+)", ended.stdout)
    per_second = re.search(r"tps = ([\d.]+) \(without", ended.stdout)
    assert transactions, ended.stdout
    measured = int(transactions[1]) / float(per_second[1]) if per_second else 0
    return (counted() - before) / measured if measured else None
