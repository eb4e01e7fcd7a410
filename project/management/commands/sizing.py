"""`manage.py sizing`: how many machines a load takes."""

import argparse
import secrets
from statistics import quantiles
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Model

from project import sizing
from project.worker import QUEUE_PER_THREAD
from shorturl.management.command_errors import database_error
from shorturl.models import ShortUrl, VisitCount

ROWS, HITS = 20_000, 1_000
MOST = 1e15  # of any number of a load
VISITS = 10.0
TARGET = "https://example.com/".ljust(60, "x")
MAKE = "CREATE TABLE {} (LIKE {} INCLUDING ALL EXCLUDING IDENTITY)"
FILL = """
    INSERT INTO {} (id, key, target_url)
    SELECT n, left(md5(n::text), 7), %s FROM generate_series(1, %s) n ON CONFLICT DO NOTHING
"""
FILL_VISITS = """
    INSERT INTO {} (id, key, unit, starts_at, referrer, browser, system, device, country,
        is_bot)
    SELECT n, left(md5((n / 10)::text), 7), 'h',
        date_trunc('hour', now()) - n %% 10 * interval '1 hour', %s, 'Chrome', 'Windows',
        'Computer', 'DE', false
    FROM generate_series(1, %s) n
"""
# Each hit has room beside its row then. Else it would have to clear away a dead one first, which it
# can only do while no transaction, in whichever database, is older than that.
MAKE_ROOM = "ALTER TABLE {} SET (fillfactor = 50)", "VACUUM (FULL) {}"
HIT = "UPDATE {} SET hits = hits + 1 WHERE id = %s"


class Command(BaseCommand):
    """Prints the arithmetic of project/sizing.py, or measures its bytes."""

    help = "Say what a load takes: machines, shards, disks, network, and what is used up first."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the load, and the machines."""
        machine = sizing.Machine()
        parser.add_argument("--redirects", type=positive, default=1_000.0, help="per second")
        parser.add_argument("--creates", type=positive, help="per second; 1 for 100 redirects")
        parser.add_argument("--links", type=positive, default=1e6, help="in all, for example 1e9")
        parser.add_argument(
            "--visits",
            type=positive,
            default=VISITS,
            help="rows of visits for each link: its hours and days, times the kinds in each",
        )
        parser.add_argument("--cores", type=whole, default=machine.cores, help="of a machine")
        parser.add_argument("--disk", type=positive, default=machine.disk / 1e12, help="in TB")
        parser.add_argument(
            "--measure", action="store_true", help="measure bytes in tables of its own instead"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one or the other; raise CommandError when the database cannot."""
        if options["measure"]:
            try:
                self.stdout.write(measured())
            except DatabaseError as error:
                raise database_error(error, "Try again.") from error
            return
        redirects, links = options["redirects"], options["links"]
        creates = options["creates"] or redirects / 100
        machine = sizing.Machine(cores=options["cores"], disk=options["disk"] * 1e12)
        visits = options["visits"] if settings.SHORTURL_VISITS else 0.0
        found = sizing.sizing(redirects, links, creates, machine, visits=visits)
        service, postgres = sizing.cores(redirects, creates, recording=visits > 0)
        at_once = settings.THREADS * (1 + QUEUE_PER_THREAD)
        lines = [
            f"{shown(redirects)} redirects and {shown(creates)} creates per second, "
            f"{shown(links)} links with {shown(visits)} rows of visits each",
            f"service      {found.service_machines:,} × {machine.cores} cores, of which "
            f"{service:,.1f} are busy",
            f"PostgreSQL   {found.shards:,} × {machine.cores} cores, of which "
            f"{postgres:,.1f} are busy",
            f"disk         {found.disk / 1e9:,.1f} GB; in memory the indexes, "
            f"{found.index / 1e9:,.1f} GB",
            f"WAL          {found.wal / 1e6:,.1f} MB/s, of which "
            f"{found.full_pages / 1e6:,.1f} MB/s are whole pages",
            f"network      {found.network * 8 / 1e6:,.0f} Mbit/s",
            f"first        {found.first}; one PostgreSQL has "
            f"{', '.join(f'{need:,.0%} of {name}' for name, need in found.needs.items())} in use",
            f"a hot key    {sizing.ROW_RATE:,} statements per second on its row, by `combined` "
            f"each with all hits that wait in a worker, at most {at_once}",
        ]
        self.stdout.write("\n".join(lines))


def positive(text: str) -> float:
    """Return `text` as a number above 0; raise ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MOST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number above 0 and up to {MOST:g}, for example 1e9"
        )
    return value


def shown(value: float) -> str:
    """Return a number of a load as it was asked for: what is not a whole one with its digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def whole(text: str) -> int:
    """Return `text` as a whole number of at least 1; raise ArgumentTypeError."""
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0
    if not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return value


def measured() -> str:
    """Return the bytes of links and of visits, in tables like theirs, which are removed again."""
    links, hit, create = bytes_of(ShortUrl, FILL, TARGET)
    visits, visit, _ = bytes_of(VisitCount, FILL_VISITS, "news.example.com")
    return (
        f"bytes of a link {links[0]:.0f}, of its indexes {links[1]:.0f}; "
        f"write-ahead log of a hit {hit:.0f}, of a create {create:.0f}; "
        f"bytes of a row of visits {visits[0]:.0f}, of its indexes {visits[1]:.0f}; "
        f"write-ahead log of a visit {visit:.0f}"
    )


def bytes_of(model: type[Model], fill: str, text: str) -> tuple[tuple[float, float], float, float]:
    """Return bytes of a row and of its indexes, and of the write-ahead log per hit and new row.

    Each hit is a transaction.
    """
    name = f"sizing_{secrets.token_hex(4)}"
    table, like = sql.Identifier(name), sql.Identifier(model._meta.db_table)
    with connection.cursor() as cursor:

        def written(statement: Any, *parameters: int | str) -> int:
            """Run a statement; return the bytes that the write-ahead log has grown by."""
            cursor.execute("SELECT pg_current_wal_insert_lsn()")
            before = cursor.fetchone()
            cursor.execute(statement, parameters)
            cursor.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", before)
            return int(cursor.fetchone()[0])

        cursor.execute(sql.SQL(MAKE).format(table, like))
        try:
            created = written(sql.SQL(fill).format(table), text, ROWS)
            cursor.execute("SELECT pg_table_size(%s), pg_indexes_size(%s)", [name, name])
            rows, indexes = cursor.fetchone()
            for statement in MAKE_ROOM:
                cursor.execute(sql.SQL(statement).format(table))
            hit = sql.SQL(HIT).format(table)
            per_hit = [written(hit, 1 + secrets.randbelow(ROWS)) for _ in range(HITS)]
        finally:
            cursor.execute(sql.SQL("DROP TABLE {}").format(table))
    # The log is the whole server's: what others write, and pages that are written whole after a
    # checkpoint, is in most of the numbers where there is much of it, and never in all.
    least, *_ = quantiles(per_hit, n=10)
    return (rows / ROWS, indexes / ROWS), least, created / ROWS
