"""Which strategies run on tables distributed by key, and the system checks of such a cluster.

The results are of Citus 13.2, a coordinator and two workers, with PostgreSQL 15.
"""

from collections.abc import Iterator
from contextlib import suppress

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError

from project.database import citus
from project.database.database_checks import asks_the_database, bounded
from shorturl import operations
from shorturl.strategies import Verdict, delivering, idempotency, spending

UNCHANGED, SINGLE_SHARD = "runs unchanged", "single-shard"
EVERY_SHARD, IN_PARTS = "runs on every shard", "runs in parts"
REFUSED = "refused"

ROW_BY_ID = "its UPDATE names the id and not the key"
ROWS_BY_ID = "its SELECT names no key, and its DELETE the ids"
LOCK_BY_ID = "the lock is the coordinator's; its UPDATE names the id and not the key"
WHOLE_ROW = "a save() of all columns writes the distribution column"
BY_KEY = "UPDATE … WHERE key = …, whose only function is STABLE"
SNAPSHOT = "there is no snapshot of several nodes: it made 3 links where 1 was due"
BY_TARGET = "its SELECT names the target and not the key"
PLAIN = "its table stays on the coordinator, a plain one"
TAKEN_APART = "a WITH that inserts is taken apart, and goes by way of the coordinator"
COLUMN_OF = "INSERT … SELECT goes by way of the coordinator"
SKIP_LOCKED = "its FOR UPDATE is of many keys, which Citus takes of one shard only"
ONE_SHARD = "a SELECT finds the keys on all shards; each transaction is of one shard"
CREATING = {
    "naive": (SINGLE_SHARD, "INSERT with its key"),
    "check_first": (SINGLE_SHARD, "SELECT and INSERT with the key"),
    "table_lock": (EVERY_SHARD, "LOCK TABLE locks all shards"),
    "forgiveness": (SINGLE_SHARD, "INSERT with its key"),
    "savepoint": (SINGLE_SHARD, "INSERT with its key, in a savepoint"),
    "on_conflict": (SINGLE_SHARD, "the unique key is the distribution column"),
    "get_or_create": (SINGLE_SHARD, "SELECT and INSERT with the key"),
    "timestamp_key": (SINGLE_SHARD, "INSERT with its key"),
    "advisory_lock": (SINGLE_SHARD, "a lock of the coordinator's, SELECT and INSERT with the key"),
    "permuted_sequence": (SINGLE_SHARD, "nextval on the coordinator, INSERT with its key"),
}
RESOLVING = {
    "naive": (REFUSED, WHOLE_ROW),
    "atomic_only": (REFUSED, WHOLE_ROW),
    "select_for_update": (EVERY_SHARD, ROW_BY_ID),
    "f_expression": (EVERY_SHARD, ROW_BY_ID),
    "f_expression_full_save": (REFUSED, WHOLE_ROW),
    "update_returning": (SINGLE_SHARD, BY_KEY),
    "compare_and_swap": (EVERY_SHARD, ROW_BY_ID),
    "repeatable_read": (EVERY_SHARD, ROW_BY_ID),
    "advisory_lock": (EVERY_SHARD, LOCK_BY_ID),
    "combined": (SINGLE_SHARD, BY_KEY),
    "slotted_counter": (IN_PARTS, TAKEN_APART),
    "append_only": (IN_PARTS, TAKEN_APART),
    "in_memory": (EVERY_SHARD, ROW_BY_ID),
}
REUSING = {
    "find_then_create": (EVERY_SHARD, BY_TARGET),
    "get_or_create": (EVERY_SHARD, BY_TARGET),
    "on_conflict": (EVERY_SHARD, BY_TARGET),
    "advisory_lock": (EVERY_SHARD, BY_TARGET),
    "serializable": (REFUSED, SNAPSHOT),
}
RECORDING_VISITS = {
    "get_then_create": (EVERY_SHARD, ROW_BY_ID),
    "second_transaction": (SINGLE_SHARD, "UPDATE by key, and INSERT … ON CONFLICT with it"),
    "one_transaction": (SINGLE_SHARD, "the same two statements, and one node's COMMIT"),
    "upsert": (IN_PARTS, TAKEN_APART),
    "append_only": (IN_PARTS, TAKEN_APART),
    "combined": (IN_PARTS, TAKEN_APART),
}
ROLLING_UP = {
    "watermark": (IN_PARTS, COLUMN_OF),
    "select_then_delete": (EVERY_SHARD, ROWS_BY_ID),
    "delete_returning": (IN_PARTS, TAKEN_APART),
    "batches": (REFUSED, SKIP_LOCKED),
    "by_key": (SINGLE_SHARD, ONE_SHARD),
}
TABLES = {
    "creating": CREATING,
    "resolving": RESOLVING,
    "reusing": REUSING,
    "idempotency": dict.fromkeys(idempotency.STRATEGIES, (UNCHANGED, PLAIN)),
    "spending": dict.fromkeys(spending.STRATEGIES, (UNCHANGED, PLAIN)),
    "recording_visits": RECORDING_VISITS,
    "rolling_up": ROLLING_UP,
    "delivering": dict.fromkeys(delivering.STRATEGIES, (UNCHANGED, PLAIN)),
}

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
    """Refuse settings that cannot run on a Citus cluster, and warn of slow ones."""
    if not citus.is_distributed():
        if settings.DATABASE_CITUS:
            yield TOO_EARLY
        return
    if not citus.rows(citus.COORDINATOR):
        yield NO_COORDINATOR
        return
    if not settings.DATABASE_CITUS:
        yield SEVERAL_KEYS
    for operation, ways in TABLES.items():
        name = getattr(settings, operations.setting(operation))
        yield from check_strategy(operation, name, *ways.get(name, ("", "")))
    if settings.DATABASE_LOCK_TIMEOUT:
        yield from lock_timeouts()


def check_strategy(operation: str, name: str, how: str, why: str) -> Iterator[CheckMessage]:
    """Refuse a strategy that the table refuses; warn of a slow one if there is a faster one."""
    faster = [
        other
        for other, (way, _) in TABLES[operation].items()
        if way == SINGLE_SHARD and operations.STRATEGIES[operation][other].verdict is Verdict.RIGHT
    ]
    if how == REFUSED:
        yield Error(
            f"{operations.setting(operation)}={name!r} cannot run on Citus: {why}.",
            hint="manage.py distribute --strategies has those that can.",
            id="project.E005",
        )
    elif how not in ("", SINGLE_SHARD) and faster:
        yield CheckWarning(
            f"{operations.setting(operation)}={name!r} is slow on Citus: {why}.",
            hint=f"Faster there: {', '.join(faster)}.",
            id="project.W008",
        )


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
