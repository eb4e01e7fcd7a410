"""pgbench: the statements of a strategy without the service, as the database's ceiling."""

import os
import re
import shutil
import subprocess
import tempfile
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test.utils import CaptureQueriesContext

from embedded_postgres.postgres import programs
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy

MISSING = "pgbench is not installed (it comes with PostgreSQL): its columns stay empty"
OVERTIME = 60  # seconds that it may take to end
ATTEMPTS = 1_000  # after a serialization failure, as in repeatable_read

# Values that appear nowhere else in a statement.
KEY, ID, HITS = "the-key", 777_777_777, 555_555_555
VARIABLES = [(KEY, "k:n"), (ID, ":id"), (HITS + 1, ":hits + 1"), (HITS, ":hits")]


def find() -> str | None:
    """Return pgbench's path: of the package with PostgreSQL, else of the system; None without."""
    try:
        return str(programs() / "pgbench")
    except ImproperlyConfigured:
        return shutil.which("pgbench")


def version(program: str) -> str:
    """Return pgbench's name and version."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    return told.stdout.strip().replace("(PostgreSQL) ", "")


def script(strategy: Strategy[Any]) -> str:
    """Return what `strategy` sends to resolve a key, as a script for pgbench.

    The strategy runs once, on a link made for it, and its statements are recorded, with variables
    for the values that change from hit to hit.
    """
    ShortUrl.objects.create(id=ID, key=KEY, target_url="https://example.com/", hits=HITS)
    try:
        with CaptureQueriesContext(connection) as captured:
            strategy.function(KEY)
    finally:
        ShortUrl.objects.filter(id=ID).erase()
    lines = [r"\set n random(1, :keys)"]
    for query in captured.captured_queries:
        statement = query["sql"].rstrip("; ")
        for value, variable in VARIABLES:
            statement = statement.replace(str(value), variable)
        # The row becomes variables, as in Python: the next statement has its id and its hits.
        reads = statement.startswith("SELECT") and "FROM" in statement
        lines.append(statement + (r" \gset" if reads else ";"))
    return "\n".join(lines) + "\n"


def run(program: str, text: str, *, keys: int, connections: int, seconds: int) -> float:
    """Return the hits per second that `connections` clients count with the script `text`.

    Hits, not transactions: compare_and_swap retries when it has changed no row, and pgbench
    has no loops. Raises CalledProcessError.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(text)
        file.flush()
        command = [program, "--no-vacuum", f"--file={file.name}", f"--define=keys={keys}"]
        command += [f"--client={connections}", f"--jobs={min(connections, os.cpu_count() or 1)}"]
        command += [f"--time={seconds}", f"--max-tries={ATTEMPTS}"]
        before = hits()
        ended = subprocess.run(  # noqa: S603 - nothing in it comes from outside
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds + OVERTIME,
            env={**os.environ, **address()},
        )
    return (hits() - before) / elapsed(ended.stdout)


def elapsed(printed: str) -> float:
    """Return the seconds that pgbench measured, connecting excluded."""
    transactions = re.search(r"actually processed: (\d+)", printed)
    per_second = re.search(r"tps = ([\d.]+) \(without", printed)
    assert transactions, printed
    assert per_second, printed
    return int(transactions[1]) / float(per_second[1])


def hits() -> int:
    """Return the hits of all links."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(hits), 0) FROM shorturl_shorturl")
        return int(cursor.fetchone()[0])


def address() -> dict[str, str]:
    """Return the environment variables by which PostgreSQL's programs find the database in use."""
    parameters = connection.get_connection_params()
    names = {"dbname": "PGDATABASE", "host": "PGHOST", "port": "PGPORT"}
    names |= {"user": "PGUSER", "password": "PGPASSWORD", "sslmode": "PGSSLMODE"}
    return {names[key]: str(value) for key, value in parameters.items() if names.get(key) and value}
