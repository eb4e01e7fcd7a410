"""Checks of what an operator gets wrong: migrations, the encoding, connections, clocks.

`manage.py check --database default` and gunicorn's start run them, and `migrate` before it changes
anything. Without a database they find nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from logging import Logger
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register, run_checks
from django.core.checks import Warning as CheckWarning
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from project.database import deadlines
from shorturl.events.subscribing import MAX_RECEIVERS
from shorturl.outages import database_address

DATABASE_TIMEOUT = 5.0  # seconds for all checks at the start
MAX_CLOCK_DIFFERENCE = 1.0  # seconds
OWN_APPS = {"exhibits", "lab", "project", "room", "shorturl"}
# Connections of a worker beside those of its threads: for redirects, and for /readyz.
MORE_CONNECTIONS = 6
# The limit, and the connections reserved for superusers and, from PostgreSQL 16 on, for
# pg_use_reserved_connections.
CONNECTION_LIMITS = """
SELECT current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int
       + coalesce(current_setting('reserved_connections', true)::int, 0)
"""

Check = Callable[[], Iterable[CheckMessage]]


def database_check(check: Check) -> Check:
    """Register a check that queries the database. It finds nothing without a database."""

    @register(Tags.database)
    def run_check(*, databases: Iterable[str] | None = None, **_: Any) -> list[CheckMessage]:
        with suppress(DatabaseError):
            if "default" in (databases or ()):
                return list(check())
        return []

    return check


@database_check
def check_unknown_migrations() -> Iterator[CheckMessage]:
    """Report migrations that this code does not have: another version has made the tables."""
    loader = MigrationLoader(connection)
    own_apps = OWN_APPS & loader.migrated_apps  # those of the lab only while it is on
    applied = {(app, name) for app, name in loader.applied_migrations if app in own_apps}
    unknown = sorted(applied - loader.disk_migrations.keys())
    if unknown:
        app, name = unknown[-1]
        yield Error(
            f"Another state of this project made the database: it has {app}.{name}.",
            hint="With that state run manage.py export_links. With this one migrate an empty "
            "database, and run manage.py import_links (docs/deploying.md, “Upgrade”).",
            id="project.E002",
        )


@database_check
def check_encoding() -> Iterator[CheckMessage]:
    """Report an encoding that cannot store all characters, or does not know what they are."""
    ((encoding,),) = fetch_rows("SHOW server_encoding")
    if encoding != "UTF8":
        yield Error(
            f"The database has the encoding {encoding}, and the service needs UTF8.",
            hint="Make another one: createdb --encoding=UTF8 --template=template0 NAME.",
            id="project.E003",
        )


@database_check
def check_connections() -> Iterator[CheckMessage]:
    """Warn if the service may open more connections than PostgreSQL allows."""
    ((max_connections, reserved),) = fetch_rows(CONNECTION_LIMITS)
    for_webhooks = MAX_RECEIVERS + 1 if settings.SHORTURL_DELIVER else 0  # one looks for events
    of_a_worker = settings.THREADS + MORE_CONNECTIONS + for_webhooks
    wanted = settings.WORKERS * of_a_worker
    allowed = max_connections - reserved
    if settings.DATABASE_POOLER == "none" and wanted > allowed:
        yield CheckWarning(
            f"The service may open {wanted} connections: WORKERS {settings.WORKERS} × "
            f"{of_a_worker}. PostgreSQL allows {allowed}: max_connections {max_connections} less "
            f"{reserved} reserved ones.",
            hint="Raise max_connections, lower WORKERS or THREADS, or put a PgBouncer in between.",
            id="project.W002",
        )


@database_check
def check_clocks() -> Iterator[CheckMessage]:
    """Warn when the clocks of this machine and of the database differ."""
    connection.ensure_connection()
    before = time.time()
    ((database_time,),) = fetch_rows("SELECT extract(epoch FROM clock_timestamp())::float8")
    after = time.time()
    # With equal clocks the database's time is between the two, and both terms are negative.
    difference = max(before - database_time, database_time - after)
    if difference > MAX_CLOCK_DIFFERENCE:
        yield CheckWarning(
            f"The clocks of this machine and of the database differ by {difference:.1f} s.",
            hint="Synchronise both, for example by NTP: the database's clock decides an expiry.",
            id="project.W003",
        )


def check_at_start(log: Logger) -> None:
    """Log what is wrong with the database; raise CommandError for an error.

    A database that does not answer is only logged: the service serves when it is back. Missing
    migrations are no system check, because `migrate` would warn of them, too.
    """
    try:
        with deadlines.limit_waits(DATABASE_TIMEOUT):
            missing = find_missing_migrations()
            if missing:
                log.warning("Migrations are not applied: %s. Run manage.py migrate.", missing)
            messages = run_checks(tags=[Tags.database], databases=["default"])
    except DatabaseError as error:
        log.warning("The database at %s does not answer: %s", database_address(), error)
        return
    if errors := [message for message in messages if message.is_serious()]:
        raise CommandError("\n".join(f"{error.msg} {error.hint}" for error in errors))
    for message in messages:
        log.warning("%s %s", message.msg, message.hint)


def find_missing_migrations() -> str:
    """Return the migrations that are not applied, all by their number; raise DatabaseError."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not executor.loader.applied_migrations:
        return f"all {len(plan)}"
    return ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan)


def fetch_rows(query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on the default database."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
