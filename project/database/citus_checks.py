"""System checks of a database whose tables are distributed by Citus."""

from collections.abc import Iterator
from contextlib import suppress

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, connections

from project.database import citus
from project.database.citus_strategies import REFUSED, SINGLE_SHARD, TABLES
from project.database.pooler_checks import asks_the_database, bounded
from shorturl import operations
from shorturl.strategies import Verdict

STRATEGIES = "manage.py distribute --strategies has those that can."
# The sessions of the coordinator with the workers are the role's, as those of this function are.
LOCK_TIMEOUTS = """
    SELECT current_user, nodename || ':' || nodeport, result
    FROM run_command_on_workers('SHOW lock_timeout') WHERE success
"""

TOO_EARLY = CheckWarning(  # and no error, as `migrate` goes before `distribute`
    "DATABASE_CITUS is on, and the tables are not distributed: redirects will fail.",
    hint="Run manage.py distribute, or leave DATABASE_CITUS unset.",
    id="project.W007",
)
NO_COORDINATOR = Error(
    "DATABASE_URL leads to a worker of a Citus cluster, which has no sessions, and locks by name "
    "that keep nobody out elsewhere.",
    hint="Name the coordinator.",
    id="project.E006",
)


@asks_the_database
def check_citus() -> Iterator[CheckMessage]:
    """Refuse what cannot run on a Citus cluster, and warn of what is slow there."""
    if not citus.is_distributed():
        if settings.DATABASE_CITUS:
            yield TOO_EARLY
    elif not citus.is_coordinator():
        yield NO_COORDINATOR
    else:
        yield from refused()
        yield from strategies()
        if settings.DATABASE_LOCK_TIMEOUT:
            yield from lock_timeouts()


def refused() -> Iterator[CheckMessage]:
    """Refuse statements of several keys, and a replica."""
    if not settings.DATABASE_CITUS:
        yield Error(
            "The tables are distributed by Citus, and DATABASE_CITUS is off: redirects would send "
            "statements of several keys, which Citus refuses.",
            hint="Set DATABASE_CITUS=on.",
            id="project.E009",
        )
    if "replica" in connections:
        yield Error(
            "DATABASE_REPLICA_URL cannot be used with Citus: how old a replica of the "
            "coordinator is says nothing of the rows on other nodes.",
            hint="Leave DATABASE_REPLICA_URL unset.",
            id="project.E007",
        )


def strategies() -> Iterator[CheckMessage]:
    """Refuse what the table of strategies refuses; warn of what is slow where a faster one is."""
    for operation, ways in TABLES.items():
        setting = operations.setting(operation)
        name = getattr(settings, setting)
        how, why = ways.get(name, ("", ""))
        if how == REFUSED:
            yield Error(
                f"{setting}={name!r} cannot run on Citus: {why}.",
                hint=STRATEGIES,
                id="project.E005",
            )
        elif how not in ("", SINGLE_SHARD) and (faster := single_shard(operation)):
            yield CheckWarning(
                f"{setting}={name!r} is slow on Citus: {why}.",
                hint=f"Faster there: {', '.join(faster)}.",
                id="project.W008",
            )


def single_shard(operation: str) -> list[str]:
    """Return the right strategies of an operation that are the work of one node."""
    right = operations.STRATEGIES[operation]
    return [
        name
        for name, (how, _) in TABLES[operation].items()
        if how == SINGLE_SHARD and right[name].verdict is Verdict.RIGHT
    ]


def lock_timeouts() -> Iterator[CheckMessage]:
    """Warn of workers on which nothing limits the wait for a row; one that is away is left out."""
    found: list[tuple[str, ...]] = []
    with suppress(DatabaseError), bounded():  # as one may be frozen
        found = citus.rows(LOCK_TIMEOUTS)
    if unlimited := [node for _, node, limit in found if limit == "0"]:
        wanted = f"{settings.DATABASE_LOCK_TIMEOUT * 500}ms"
        yield CheckWarning(
            f"The role {found[0][0]} has no lock_timeout on {', '.join(unlimited)}: who waits "
            "for a row there waits until statement_timeout.",
            hint=f"On the coordinator: ALTER ROLE {found[0][0]} SET lock_timeout = '{wanted}'",
            id="project.W009",
        )
