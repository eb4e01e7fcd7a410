"""The services that are measured, and their databases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg2

from loadtests.harness.serving import NO_REFUSALS, ROOT, RunningService, serving

FILL = """
    INSERT INTO shorturl_shorturl (key, target_url)
    SELECT prefix || number, 'https://example.com/' || number
    FROM unnest(%s) AS prefix, generate_series(1, %s) AS number
"""
COUNTED = "SELECT coalesce(sum(hits), 0) + count(*) FROM shorturl_shorturl"
VISITS = "SELECT coalesce(sum(jsonb_array_length(kinds)), 0) FROM shorturl_recentvisits"
FREE = """
    SELECT current_setting('max_connections')::int - count(*)
           - current_setting('superuser_reserved_connections')::int
    FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
PARAMETERS = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}


class Database:
    """The database at `address`, the driver's parameters; a service migrates it."""

    def __init__(self, address: dict[str, Any]) -> None:
        self.address = {name: address[name] for name in PARAMETERS}
        # The same for PostgreSQL's programs.
        self.environment = {PARAMETERS[name]: str(value) for name, value in self.address.items()}
        parameters = {"host": self.address["host"], "port": self.address["port"]}
        user, name = self.address["user"], self.address["dbname"]
        self.url = f"postgres://{user}@/{name}?{urlencode(parameters)}"

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement in autocommit; return its rows."""
        with closing(psycopg2.connect(**self.address)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else []

    def number(self, statement: str) -> int:
        [(number,)] = self.execute(statement)
        return int(number)

    def fill(self, prefixes: Sequence[str], links: int) -> None:
        """Make so many links with each prefix, and the numbers from 1."""
        self.execute(FILL, [list(prefixes), links])
        self.execute("VACUUM (FREEZE, ANALYZE) shorturl_shorturl")
        self.execute("CHECKPOINT")


@dataclass(frozen=True)
class Gunicorn:
    """A gunicorn that is measured, and the database that it counts in.

    `arguments` are gunicorn's, such as another application. One that is no part of the service does
    not count (`counts`).
    """

    database: Database
    directory: Path = ROOT
    lab: bool = False
    visits: bool = False
    arguments: tuple[str, ...] = ()
    counts: bool = True

    def start(self) -> AbstractContextManager[RunningService]:
        lab = "on" if self.lab else "off"
        chosen = {**NO_REFUSALS, "SHORTURL_LAB": lab}
        if not self.visits:
            chosen["SHORTURL_VISITS"] = "off"
        chosen["DATABASE_URL"] = self.database.url
        return serving(self.directory, *self.arguments, **chosen)
