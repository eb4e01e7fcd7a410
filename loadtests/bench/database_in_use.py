"""The database in use: tables of links, one of which the service uses at a time."""

import time
from collections.abc import Iterable
from urllib.parse import urlencode

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Sum

from shorturl.models import ShortUrl, VisitCount
from shorturl.visits import recent

IN_USE = ShortUrl._meta.db_table
FILLFACTOR = 70  # as in the migrations
INSERT = """
    INSERT INTO {} (key, target_url)
    SELECT 'k' || number, 'https://example.com/' || number FROM generate_series(1, %s) AS number
"""


class LinkTables:
    """A table of each of the `sizes`, with the links /k1 to /k<size>, in an empty database."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.used = 0  # the size of the one in use, at first the empty one of the migrations
        run("SET statement_timeout = 0")
        for size in sizes:
            run("CREATE TABLE {} (LIKE {} INCLUDING ALL)", f"links_{size}", IN_USE)
            # LIKE does not copy it. In a full page, a hit moves its row, and changes every index.
            run(f"ALTER TABLE {{}} SET (fillfactor = {FILLFACTOR})", f"links_{size}")
            run(INSERT, f"links_{size}", values=[size])
            run("VACUUM (FREEZE, ANALYZE) {}", f"links_{size}")
        run("CHECKPOINT")

    def use(self, size: int) -> None:
        """Have the service use the table of `size` from its next statement on."""
        run("ALTER TABLE {} RENAME TO {}", IN_USE, f"links_{self.used}")
        run("ALTER TABLE {} RENAME TO {}", f"links_{size}", IN_USE)
        self.used = size


def run(statement: str, *names: str, values: list[int] | None = None) -> None:
    """Execute a statement with names in the place of {}."""
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)), values)


def counted() -> int:
    """Return the number of hits and links in the table in use, as one sum."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT coalesce(sum(hits), 0) + count(*)
                   + (SELECT coalesce(sum(hits), 0) FROM exhibits_partialcount)
            FROM shorturl_shorturl
        """)
        return int(cursor.fetchone()[0])


def rolled_up() -> str:
    """Roll up all visits; return how many there were, and the time for each of them."""
    began = time.monotonic()
    recent.roll_up()
    seconds = time.monotonic() - began
    visits = VisitCount.objects.aggregate(hits=Sum("hits"))["hits"] or 0
    return f"{visits:,} visits in {seconds:.0f} s, {1e6 * seconds / max(visits, 1):.1f} µs each"


def free_connections() -> int:
    """Return how many more connections PostgreSQL admits, for a user without privileges."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT current_setting('max_connections')::int - count(*)
                   - current_setting('superuser_reserved_connections')::int
            FROM pg_stat_activity WHERE backend_type = 'client backend'
        """)
        return int(cursor.fetchone()[0])


def url() -> str:
    """Return the DATABASE_URL of the database in use, whichever server it is on."""
    parameters = connection.get_connection_params()
    name = parameters.pop("dbname")
    texts = {name: value for name, value in parameters.items() if isinstance(value, (str, int))}
    return f"postgres:///{name}?{urlencode(texts)}"


def environment() -> dict[str, str]:
    """Return the environment variables by which PostgreSQL's programs find the database in use."""
    parameters = connection.get_connection_params()
    names = {"dbname": "PGDATABASE", "host": "PGHOST", "port": "PGPORT"}
    names |= {"user": "PGUSER", "password": "PGPASSWORD", "sslmode": "PGSSLMODE"}
    return {names[key]: str(value) for key, value in parameters.items() if names.get(key) and value}
