"""The system checks of a Citus cluster."""

from collections.abc import Iterator
from contextlib import closing

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError

from project.citus.distribution import INSTALLED, is_distributed
from project.citus.shard_map import Node
from project.database import deadlines
from project.database.database_checks import DATABASE_TIMEOUT, database_check, fetch_rows

IS_COORDINATOR = "SELECT groupid = 0 FROM pg_dist_local_group"
WORKERS = """
    SELECT nodename, nodeport FROM pg_dist_node
    WHERE groupid <> 0 AND noderole = 'primary' ORDER BY nodeid
"""
WAL_LEVEL = "SHOW wal_level"


@database_check
def check_citus() -> Iterator[CheckMessage]:
    """Report settings and nodes with which the service cannot run on a Citus cluster."""
    if not is_distributed():
        if settings.DATABASE_CITUS and not fetch_rows(INSTALLED):
            yield Error(
                "DATABASE_CITUS is on, and the database has no Citus: every redirect is a 503.",
                hint="Set DATABASE_CITUS=off, or name a coordinator of Citus in DATABASE_URL.",
                id="project.E010",
            )
        elif settings.DATABASE_CITUS:  # no error, because `migrate` runs before `distribute`
            yield CheckWarning(
                "DATABASE_CITUS is on, and no table is distributed: every redirect is a 503.",
                hint="Run: manage.py distribute. Or set DATABASE_CITUS=off.",
                id="project.W015",
            )
        return
    if fetch_rows(IS_COORDINATOR) != [(True,)]:
        yield Error(
            "DATABASE_URL leads to a worker of a Citus cluster, which lacks tables.",
            hint="Name the coordinator.",
            id="project.E006",
        )
        return
    if not settings.DATABASE_CITUS:
        yield Error(
            "The tables are distributed by Citus, which refuses statements of several keys.",
            hint="Set DATABASE_CITUS=on.",
            id="project.E009",
        )
    if fetch_rows(WAL_LEVEL) != [("logical",)]:
        yield CheckWarning(
            "wal_level is not logical: citus_rebalance_start() schedules moves, and moves nothing.",
            hint="Set wal_level = logical on each node, and restart the nodes.",
            id="project.W013",
        )
    workers = [Node(host, port) for host, port in fetch_rows(WORKERS)]
    if workers and not settings.DATABASE_CITUS_NODES:
        yield CheckWarning(
            "A process that starts while the coordinator is away answers redirects with 503.",
            hint=f"Set DATABASE_CITUS_NODES={','.join(map(str, workers))}.",
            id="project.W014",
        )
    for worker in workers:
        try:
            with (
                deadlines.limit_waits(DATABASE_TIMEOUT),
                closing(worker.open_database()) as node,
            ):
                node.ensure_connection()
        except DatabaseError as error:
            yield CheckWarning(
                f"The node {worker} of the cluster: {str(error).splitlines()[0]}.",
                hint="Let this machine connect to it: the redirects of its keys are a 503.",
                id="project.W012",
            )
