"""The tables on a Citus cluster: links and their counts by key, the others on every node.

https://docs.citusdata.com/en/stable/develop/api_udf.html has the functions. All of it is one
transaction, so that what is interrupted has done nothing.
"""

from collections.abc import Iterator

from django.apps import apps
from django.db import connection
from django.db.models import Model

from shorturl.keys import KEY_CONSTRAINT
from shorturl.models import PartialCount, ShortUrl, VisitCount

LINKS = ShortUrl._meta.db_table
# All rows of a link are on one node: those of the others are where the link is.
BY_KEY = [model._meta.db_table for model in (ShortUrl, PartialCount, VisitCount)]
PRIMARY_KEY = "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY ({1})"
DISTRIBUTE = "SELECT create_distributed_table('{}', 'key'{})"
BESIDE_IT = f", colocate_with => '{LINKS}'"
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
    for table in BY_KEY:
        if table not in done:
            yield PRIMARY_KEY.format(table, "key, id")
            yield DISTRIBUTE.format(table, "" if table == LINKS else BESIDE_IT)


def undoing(done: set[str]) -> Iterator[str]:
    """Yield what makes the tables in `done` plain ones again."""
    for table in reversed(BY_KEY):
        if table in done:
            yield UNDISTRIBUTE.format(table)
            yield PRIMARY_KEY.format(table, "id")
    for model in reversed(reference_models()):
        if model._meta.db_table in done:
            yield UNDISTRIBUTE.format(model._meta.db_table)


def reference_models() -> list[type[Model]]:
    """Return all models of no link, each after those that it refers to."""
    left = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.db_table not in BY_KEY and model._meta.managed and not model._meta.proxy
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
