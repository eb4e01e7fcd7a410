"""The system checks of a Citus cluster."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, connection
from django.db.utils import ConnectionHandler
from psycopg2 import extensions

from project.database import citus, deadlines, shards
from project.database.database_checks import database_check

VERSION = "SELECT split_part(citus_version(), ' ', 2)"
MEASURED = ("13.2.1", "13.2.2")  # what a redirect costs there, and that its plans leak no memory

TOO_EARLY = CheckWarning(  # and no error, as `migrate` goes before `distribute`
    "DATABASE_CITUS is on, and the tables are not distributed: redirects will fail.",
    hint="Run manage.py distribute, or leave DATABASE_CITUS unset.",
    id="project.W007",
)
NO_COORDINATOR = Error(
    "DATABASE_URL leads to a worker of a Citus cluster. A worker has no table of sessions, and its "
    "advisory locks hold on that node alone.",
    hint="Name the coordinator.",
    id="project.E006",
)
SEVERAL_KEYS = Error(
    "The tables are distributed by Citus, and DATABASE_CITUS is off: redirects would send "
    "statements of several keys, which Citus refuses.",
    hint="Set DATABASE_CITUS=on.",
    id="project.E009",
)


@database_check
def check_citus() -> Iterator[CheckMessage]:
    """Refuse settings that cannot run on a Citus cluster."""
    if not citus.is_distributed():
        if settings.DATABASE_CITUS:
            yield TOO_EARLY
        return
    if not citus.rows(citus.COORDINATOR):
        yield NO_COORDINATOR
        return
    if not settings.DATABASE_CITUS:
        yield SEVERAL_KEYS
    ((version,),) = citus.rows(VERSION)
    if version not in MEASURED:
        yield CheckWarning(
            f"Citus {version} is not one of {', '.join(MEASURED)}, whose redirects were measured.",
            hint="Watch the memory of the workers' sessions and the rate of redirects.",
            id="project.W011",
        )
    with connection.cursor() as cursor:
        nodes = {node for node in shards.read(cursor).nodes.values() if node.host}
    for node in sorted(nodes):
        yield from unusable(node)


def unusable(node: shards.Node) -> Iterator[CheckMessage]:
    """Warn of a node to which redirects cannot go, or which does not answer."""
    names = {**node.database, "LIMIT": settings.DATABASE_LOCK_TIMEOUT * 500}
    names["USER"] = names["USER"] or "CURRENT_USER"
    try:
        there = ConnectionHandler({"default": node.database})["default"]
        with bounded(), closing(there):
            reason = shards.problem(there)
        outcome, hint = "its redirects go through the coordinator", shards.MENDS.get(reason, "")
    except DatabaseError as error:
        reason, hint = str(error).splitlines()[0], "Start it, or correct its address"
        outcome = "its short URLs are a 503"
    if reason:
        yield CheckWarning(
            f"The node {node.host}:{node.port} of the cluster: {reason}; {outcome}.",
            hint=f"{hint.format(**names)}.",
            id="project.W012",
        )


@contextmanager
def bounded(seconds: float = 5) -> Iterator[None]:
    """Limit waiting for the database; raise OperationalError in the block."""
    before = extensions.get_wait_callback()
    deadlines.install()
    try:
        with deadlines.answered_within(seconds):
            yield
    finally:
        extensions.set_wait_callback(before)
