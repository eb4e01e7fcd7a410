"""Tables of links, of which the service uses one at a time under the name of its model's."""

from collections.abc import Iterable

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl

IN_USE = ShortUrl._meta.db_table
INSERT = """
    INSERT INTO {} (key, target_url)
    SELECT 'k' || number, 'https://example.com/' || number FROM generate_series(1, %s) AS number
"""


class LinkTables:
    """A table of each of the `sizes`, with the links /k1 to /k<size>, in an empty database."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.used = 0  # the size of the one in use; the migrations' own is empty
        run("SET statement_timeout = 0")
        for size in sizes:
            run("CREATE TABLE {} (LIKE {} INCLUDING ALL)", named(size), IN_USE)
            run(INSERT, named(size), values=[size])
            run("VACUUM (FREEZE, ANALYZE) {}", named(size))
        run("CHECKPOINT")

    def use(self, size: int) -> None:
        """Have the service use the table of `size`, between two of its statements."""
        run("ALTER TABLE {} RENAME TO {}", IN_USE, named(self.used))
        run("ALTER TABLE {} RENAME TO {}", named(size), IN_USE)
        self.used = size


def named(size: int) -> str:
    """Return the name of the table of `size` while it is not in use."""
    return f"links_{size}"


def run(statement: str, *names: str, values: list[int] | None = None) -> None:
    """Execute a statement with names in the place of {}."""
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(statement).format(*map(sql.Identifier, names)), values)


def hits_and_links() -> tuple[int, int]:
    """Return the hits of all links in use, and how many links these are."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT coalesce(sum(hits), 0)
                   + (SELECT coalesce(sum(hits), 0) FROM shorturl_partialcount), count(*)
            FROM shorturl_shorturl
        """)
        hits, links = cursor.fetchone()
        return int(hits), links
