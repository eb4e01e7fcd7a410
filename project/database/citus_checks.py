"""The system checks of a Citus cluster."""

from collections.abc import Iterator
from contextlib import closing

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, connection
from django.db.utils import ConnectionHandler

from project.database import citus, shards
from project.database.database_checks import asks_the_database, bounded

# This function's sessions with the workers have the limits of the role, as those of redirects have.
LOCK_TIMEOUTS = """
    SELECT current_user, nodename || ':' || nodeport, result
    FROM run_command_on_workers(
        'SELECT setting FROM pg_settings WHERE name = $$lock_timeout$$') WHERE success
"""
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


@asks_the_database
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
    if settings.DATABASE_LOCK_TIMEOUT:
        yield from lock_timeouts()
    yield from unusable_nodes()


def unusable_nodes() -> Iterator[CheckMessage]:
    """Warn of nodes to which redirects cannot go, or which do not answer."""
    with connection.cursor() as cursor:
        nodes = {node for node in shards.read(cursor).nodes.values() if node.host}
    for node in sorted(nodes):
        try:
            there = ConnectionHandler({"default": node.database})["default"]
            with bounded(), closing(there):
                found = shards.problem(there)
            outcome = "its redirects go through the coordinator"
        except DatabaseError as error:
            found = f"{str(error).splitlines()[0]}|Start it, or correct its address"
            outcome = "its short URLs are a 503"
        if found:
            reason, hint = found.split("|")
            yield CheckWarning(
                f"The node {node.host}:{node.port} of the cluster: {reason}; {outcome}.",
                hint=f"{hint}.",
                id="project.W012",
            )


def lock_timeouts() -> Iterator[CheckMessage]:
    """Warn of workers on which nothing limits the wait for a row; skip a worker that is down."""
    found: list[tuple[str, ...]] = []
    try:
        with bounded():  # a worker may be frozen
            found = citus.rows(LOCK_TIMEOUTS)
    except DatabaseError:
        connection.close()  # which bounded() has left unusable
    wanted = str(settings.DATABASE_LOCK_TIMEOUT * 500)
    if others := [f"{node} ({limit} ms)" for _, node, limit in found if limit != wanted]:
        role = found[0][0]
        yield CheckWarning(
            f"The role {role} has another lock_timeout than {wanted} ms on {', '.join(others)}: "
            "without one, a statement of the coordinator waits for a row until statement_timeout.",
            hint=f"On the coordinator: ALTER ROLE {role} SET lock_timeout = '{wanted}ms';",
            id="project.W009",
        )
