"""The system checks of a Citus cluster."""

from collections.abc import Iterator
from contextlib import closing

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, connection

from project.citus import distribution
from project.citus.shard_map import LINKS, READ_MAP, REMEDIES, Node, ShardMap, find_problem
from project.database import deadlines
from project.database.database_checks import DATABASE_TIMEOUT, database_check

VERSION = "SELECT split_part(citus_version(), ' ', 2)"
WAL_LEVEL = "SHOW wal_level"
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
    if not distribution.is_distributed():
        if settings.DATABASE_CITUS:
            yield TOO_EARLY
        return
    if not distribution.fetch_rows(distribution.COORDINATOR):
        yield NO_COORDINATOR
        return
    if not settings.DATABASE_CITUS:
        yield SEVERAL_KEYS
    ((version,),) = distribution.fetch_rows(VERSION)
    if version not in MEASURED:
        yield CheckWarning(
            f"Citus {version} is not one of {', '.join(MEASURED)}, whose redirects were measured.",
            hint="Watch the memory of the workers' sessions and the rate of redirects.",
            id="project.W011",
        )
    if distribution.fetch_rows(WAL_LEVEL) != [("logical",)]:
        yield CheckWarning(
            "wal_level is not logical: citus_rebalance_start() schedules moves, and moves nothing.",
            hint="Set wal_level = logical on each node, and restart the nodes.",
            id="project.W013",
        )
    with connection.cursor() as cursor:
        cursor.execute(READ_MAP, [LINKS])
        nodes = {*ShardMap(cursor.fetchall()).nodes.values()} - {Node()}
    if nodes and not settings.DATABASE_CITUS_NODES:
        names = ",".join(str(node) for node in sorted(nodes))
        yield CheckWarning(
            "A process that starts while the coordinator is away knows no other node, and answers "
            "each redirect with 503.",
            hint=f"Set DATABASE_CITUS_NODES={names}.",
            id="project.W014",
        )
    for node in sorted(nodes):
        yield from check_node(node)


def check_node(node: Node) -> Iterator[CheckMessage]:
    """Warn of a node to which redirects cannot go, or which does not answer."""
    names = {**node.database(), "LIMIT": settings.DATABASE_LOCK_TIMEOUT * 500}
    names["USER"] = names["USER"] or "CURRENT_USER"
    try:
        with deadlines.answered_within(DATABASE_TIMEOUT), closing(node.open_database()) as database:
            reason = find_problem(database)
        outcome, hint = "its redirects go through the coordinator", REMEDIES.get(reason, "")
    except DatabaseError as error:
        reason, hint = str(error).splitlines()[0], "Start it, or correct its address"
        outcome = "its short URLs are a 503"
    if reason:
        yield CheckWarning(
            f"The node {node} of the cluster: {reason}; {outcome}.",
            hint=f"{hint.format(**names)}.",
            id="project.W012",
        )
