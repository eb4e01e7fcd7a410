"""The tables on a Citus cluster: links distributed by key, everything else on every node.

https://docs.citusdata.com/en/stable/develop/api_udf.html has the functions. All of it is one
transaction, so that what is interrupted has done nothing.
"""

from collections.abc import Iterator

from django.apps import apps
from django.db import connection
from django.db.models import Model

from shorturl.keys import KEY_CONSTRAINT
from shorturl.models import ShortUrl

LINKS = ShortUrl._meta.db_table
PRIMARY_KEY = f"{LINKS}_pkey"
# A foreign key to a reference table allows no parallel statements beside it in one transaction.
SEQUENTIAL = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"
INSTALLED = "SELECT FROM pg_extension WHERE extname = 'citus'"
DISTRIBUTED = "SELECT logicalrelid::regclass::text FROM pg_dist_partition"
DUPLICATES = f"SELECT key FROM {LINKS} GROUP BY key HAVING count(*) > 1 LIMIT 1"  # noqa: S608
# With all that foreign keys tie to it, so that a later table may be a plain one by then.
UNDISTRIBUTE = """SELECT undistribute_table(logicalrelid, cascade_via_foreign_keys => true)
    FROM pg_dist_partition WHERE logicalrelid = '{}'::regclass"""
REFERRING = f"""
    SELECT conrelid::regclass::text FROM pg_constraint
    WHERE contype = 'f' AND confrelid = '{LINKS}'::regclass LIMIT 1
"""  # noqa: S608

UNCHANGED, EVERY_SHARD, REFUSED = "single-shard", "runs on every shard", "refused"
EVERY_NODE, UNKNOWN = "runs on every node", "not known to run"
ROW_BY_ID = "its UPDATE names the id and not the key"
ONE_NODE = "the lock is the coordinator's alone: with several, it keeps nobody out"
WHOLE_ROW = "a save() of all columns writes the distribution column"
BY_KEY = "UPDATE … WHERE key = …, whose only function is STABLE"
SNAPSHOT = "there is no snapshot of several nodes"
BY_TARGET = "its SELECT names the target and not the key"
REFERENCE = "its table is on every node, and so is each write"
FROM_SELECT = "INSERT … SELECT … ON CONFLICT into a table that is on every node"
PARTS = "partial counts are on every node, so each hit would be a commit on all of them"
CREATING = {
    "naive": (UNCHANGED, "INSERT with its key"),
    "check_first": (UNCHANGED, "SELECT and INSERT with the key"),
    "table_lock": (EVERY_SHARD, "LOCK TABLE locks all shards"),
    "forgiveness": (UNCHANGED, "INSERT with its key"),
    "savepoint": (UNCHANGED, "INSERT with its key, in a savepoint"),
    "on_conflict": (UNCHANGED, "the unique key is the distribution column"),
    "get_or_create": (UNCHANGED, "SELECT and INSERT with the key"),
    "timestamp_key": (UNCHANGED, "INSERT with its key"),
    "advisory_lock": (REFUSED, ONE_NODE),
    "permuted_sequence": (UNCHANGED, "nextval on the coordinator, INSERT with its key"),
}
RESOLVING = {
    "naive": (REFUSED, WHOLE_ROW),
    "atomic_only": (REFUSED, WHOLE_ROW),
    "select_for_update": (EVERY_SHARD, ROW_BY_ID),
    "f_expression": (EVERY_SHARD, ROW_BY_ID),
    "f_expression_full_save": (REFUSED, WHOLE_ROW),
    "update_returning": (UNCHANGED, BY_KEY),
    "compare_and_swap": (EVERY_SHARD, ROW_BY_ID),
    "repeatable_read": (REFUSED, SNAPSHOT),
    "advisory_lock": (REFUSED, ONE_NODE),
    "combined": (UNCHANGED, BY_KEY),
    "slotted_counter": (REFUSED, PARTS),
    "append_only": (REFUSED, PARTS),
    "in_memory": (EVERY_SHARD, ROW_BY_ID),
}
REUSING = {
    "find_then_create": (EVERY_SHARD, BY_TARGET),
    "get_or_create": (EVERY_SHARD, BY_TARGET),
    "on_conflict": (EVERY_SHARD, BY_TARGET),
    "advisory_lock": (REFUSED, ONE_NODE),
    "serializable": (REFUSED, SNAPSHOT),
}
IDEMPOTENCY = {
    "look_up_then_store": (EVERY_NODE, REFERENCE),
    "insert_first": (EVERY_NODE, REFERENCE),
    "advisory_lock": (REFUSED, ONE_NODE),
}
SPENDING = {
    "count_then_insert": (EVERY_NODE, REFERENCE),
    "read_modify_write": (EVERY_NODE, REFERENCE),
    "f_expression": (EVERY_NODE, REFERENCE),
    "row_lock": (EVERY_NODE, REFERENCE),
    "conditional_update": (UNKNOWN, FROM_SELECT),
    "reservation": (UNKNOWN, FROM_SELECT),
}
RECORDING_VISITS = {
    "get_then_create": (EVERY_NODE, REFERENCE),
    "second_transaction": (EVERY_NODE, REFERENCE),
    "upsert": (UNKNOWN, FROM_SELECT),
    "append_only": (UNKNOWN, FROM_SELECT),
    "combined": (UNKNOWN, FROM_SELECT),
}
ROLLING_UP = {
    "watermark": (UNKNOWN, FROM_SELECT),
    "select_then_delete": (EVERY_NODE, REFERENCE),
    "delete_returning": (UNKNOWN, FROM_SELECT),
    "batches": (UNKNOWN, FROM_SELECT),
}
# By the statements and the documentation: nothing of it was run on a cluster.
TABLES = {
    "creating": CREATING,
    "resolving": RESOLVING,
    "reusing": REUSING,
    "idempotency": IDEMPOTENCY,
    "spending": SPENDING,
    "recording_visits": RECORDING_VISITS,
    "rolling_up": ROLLING_UP,
}


class NotPossible(Exception):
    """The tables cannot be distributed. The message says why, and what would be right."""


def is_installed() -> bool:
    """Return whether the database has the extension."""
    return bool(rows(INSTALLED))


def is_distributed() -> bool:
    """Return whether the database has Citus, and tables distributed by it."""
    return is_installed() and bool(rows(DISTRIBUTED))


def statements(*, undo: bool) -> list[str]:
    """Return what has to be sent, as one transaction; nothing where it is done already.

    Raises NotPossible.
    """
    if not is_installed():
        raise NotPossible(
            "This database has no Citus: have it in shared_preload_libraries of all nodes, and "
            "CREATE EXTENSION citus"
        )
    done = {name.removeprefix("public.") for (name,) in rows(DISTRIBUTED)}
    needed = [*(undoing(done) if undo else doing(done))]
    return [SEQUENTIAL, *needed] if needed else []


def doing(done: set[str]) -> Iterator[str]:
    """Yield what distributes the tables that are not yet in `done`."""
    for duplicate in rows(DUPLICATES):
        raise NotPossible(
            f"The key {duplicate[0]!r} is there more than once: restore {KEY_CONSTRAINT} first"
        )
    for referring in rows(REFERRING) if LINKS not in done else ():
        raise NotPossible(
            f"The table {referring[0]} refers to a link by its id, and Citus needs the key in it"
        )
    for model in reference_models():
        if model._meta.db_table not in done:
            yield f"SELECT create_reference_table('{model._meta.db_table}')"
    if LINKS not in done:
        yield f"ALTER TABLE {LINKS} DROP CONSTRAINT {PRIMARY_KEY}, ADD PRIMARY KEY (key, id)"
        yield f"SELECT create_distributed_table('{LINKS}', 'key')"


def undoing(done: set[str]) -> Iterator[str]:
    """Yield what makes the tables in `done` plain ones again."""
    if LINKS in done:
        yield UNDISTRIBUTE.format(LINKS)
        yield f"ALTER TABLE {LINKS} DROP CONSTRAINT {PRIMARY_KEY}, ADD PRIMARY KEY (id)"
    for model in reversed(reference_models()):
        if model._meta.db_table in done:
            yield UNDISTRIBUTE.format(model._meta.db_table)


def reference_models() -> list[type[Model]]:
    """Return all models but the links, each after those that it refers to."""
    left = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model is not ShortUrl and model._meta.managed and not model._meta.proxy
    ]
    ordered: list[type[Model]] = []
    while left:
        model = next(each for each in left if not refers_to(each) & {*left} - {each})
        left.remove(model)
        ordered.append(model)
    return ordered


def refers_to(model: type[Model]) -> set[object]:
    """Return the models that its foreign keys lead to."""
    return {field.related_model for field in model._meta.fields if field.remote_field}


def rows(query: str) -> list[tuple[str, ...]]:
    """Return all rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
