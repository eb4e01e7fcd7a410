"""The system checks of a Citus cluster."""

from collections.abc import Iterator
from contextlib import suppress

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError

from project.database import citus
from project.database.database_checks import asks_the_database, bounded

# This function's sessions with the workers have the limits of the role, as those of redirects have.
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
    if settings.DATABASE_LOCK_TIMEOUT:
        yield from lock_timeouts()


def lock_timeouts() -> Iterator[CheckMessage]:
    """Warn of workers on which nothing limits the wait for a row; skip a worker that is down."""
    found: list[tuple[str, ...]] = []
    with suppress(DatabaseError), bounded():  # a worker may be frozen
        found = citus.rows(LOCK_TIMEOUTS)
    if unlimited := [node for _, node, limit in found if limit == "0"]:
        wanted = f"{settings.DATABASE_LOCK_TIMEOUT * 500}ms"
        yield CheckWarning(
            f"The role {found[0][0]} has no lock_timeout on {', '.join(unlimited)}: a statement "
            "waits for a row there until statement_timeout.",
            hint=f"On the coordinator: ALTER ROLE {found[0][0]} SET lock_timeout = '{wanted}'",
            id="project.W009",
        )
