"""The tables on a Citus cluster: links and their counts by key, accounts on every node.

https://docs.citusdata.com/en/stable/develop/api_udf.html describes the functions.
"""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Model

from project.citus.shard_map import LINKS
from shorturl.models import DailyVisits, HourlyVisits, ShortUrl

# Links, and what names its link by the key; with the lab also the tables of its exhibits.
BY_KEY: list[type[Model]] = [
    ShortUrl,
    *(model for model in apps.get_models() if "short_url" in {f.name for f in model._meta.fields}),
]
SETTINGS = [
    # Moving many rows takes long.
    *(f"SET LOCAL {name} TO 0" for name in ("lock_timeout", "statement_timeout")),
    # With a foreign key to a reference table, a transaction may not run statements in parallel.
    "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'",
    # Otherwise Citus takes over each table with a foreign key to a reference table at once. The
    # rows of links, which are many, would then be copied twice.
    "SET LOCAL citus.enable_local_reference_table_foreign_keys TO off",
]
# Django's ids are identity columns. Citus undistributes no table that has one, and copies none that
# it knew before (https://github.com/citusdata/citus/issues/6808 and /7564). So ids come from a
# sequence by DEFAULT, also after an undo or a restore.
TO_SEQUENCE = [
    "LOCK TABLE {0} IN ACCESS EXCLUSIVE MODE",  # no other session draws an id meanwhile
    "CREATE SEQUENCE IF NOT EXISTS {0}_id_serial AS {1} OWNED BY {0}.id",
    "SELECT setval('{0}_id_serial', max(id)) FROM {0} WHERE id BETWEEN 1 AND 1::bigint << 48",
    "ALTER TABLE {0} ALTER id DROP IDENTITY IF EXISTS,"
    " ALTER id SET DEFAULT nextval('{0}_id_serial')",
    # Workers draw ids from ranges of their own, and begin these again after an undo or a restore.
    "UPDATE {0} SET id = nextval('{0}_id_serial') WHERE id >= 1::bigint << 48",
]
# The index of the primary key finds rows by id, and that of the other constraint by key.
PRIMARY_KEY = "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey, ADD PRIMARY KEY ({1})"
REFERENCE = "SELECT create_reference_table('{}')"
DISTRIBUTE = "SELECT create_distributed_table('{}', 'key'{})"
# All rows of a link are on one node: those of the other tables are beside the link.
BESIDE_LINKS = f", colocate_with => '{LINKS}'"
# Statements that the coordinator sends to other nodes have the limits of the role there. Those that
# change links of several shards use one session with each node, so an account can be removed in the
# same transaction.
ROLE_SETTINGS = {
    "lock_timeout": f"{settings.DATABASE_LOCK_TIMEOUT * 500}ms",
    "citus.multi_shard_modify_mode": "sequential",
}
# The roll-up inserts into the shards themselves, which do not have the default of a sequence.
RANDOM_ID = "ALTER TABLE {0} ALTER id SET DEFAULT hashtextextended(gen_random_uuid()::text, 0)"
# Foreign keys take further tables with it, so a later table may be a plain one by then.
UNDISTRIBUTE = """SELECT undistribute_table('{0}', cascade_via_foreign_keys => true)
    WHERE EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = '{0}'::regclass)"""
INSTALLED = "SELECT FROM pg_extension WHERE extname = 'citus'"
# Without the tables that Citus knows only for their foreign key to one of these.
DISTRIBUTED = """
    SELECT logicalrelid::regclass::text FROM pg_dist_partition
    WHERE partmethod <> 'n' OR repmodel = 't'
"""


def is_distributed() -> bool:
    return bool(fetch_rows(INSTALLED)) and bool(fetch_rows(DISTRIBUTED))


def list_statements(*, undo: bool) -> list[str]:
    """Return the statements to send in one transaction; none if all tables are done already."""
    done = {name.removeprefix("public.") for (name,) in fetch_rows(DISTRIBUTED)}
    models: list[type[Model]] = [*list_reference_models(), *BY_KEY]
    models = [model for model in models if (model._meta.db_table in done) is undo]
    if not models:
        return []
    return [*SETTINGS, *(undistribute(models) if undo else distribute(models))]


def distribute(models: Sequence[type[Model]]) -> Iterator[str]:
    """Return the statements that distribute the tables of the models."""
    # While all are plain tables: Citus supports fewer kinds of ALTER TABLE.
    for model in models:
        if field := model._meta.auto_field:
            for statement in TO_SEQUENCE:
                yield statement.format(model._meta.db_table, field.rel_db_type(connection))
        if model in (HourlyVisits, DailyVisits):
            yield RANDOM_ID.format(model._meta.db_table)
        if model in BY_KEY:
            yield PRIMARY_KEY.format(model._meta.db_table, "id, key")
    for model in models:
        if model in BY_KEY:
            beside = "" if model is ShortUrl else BESIDE_LINKS
            yield DISTRIBUTE.format(model._meta.db_table, beside)
        else:
            yield REFERENCE.format(model._meta.db_table)
    for name, value in ROLE_SETTINGS.items():
        yield f"ALTER ROLE CURRENT_USER SET {name} = '{value}'"


def undistribute(models: Sequence[type[Model]]) -> Iterator[str]:
    """Return the statements that make plain tables of them again."""
    for model in reversed(models):
        yield UNDISTRIBUTE.format(model._meta.db_table)
        if model in BY_KEY:
            yield PRIMARY_KEY.format(model._meta.db_table, "id")
    yield from (f"ALTER ROLE CURRENT_USER RESET {name}" for name in ROLE_SETTINGS)


def list_reference_models() -> list[type[Model]]:
    """Return the accounts and all models that foreign keys tie to them, except those of links.

    Each comes after those that it refers to. Other models stay plain tables. Citus runs one UPDATE,
    DELETE or upsert of a reference table at a time, and two transactions that insert and then
    update deadlock (distributed_execution_locks.c). Two requests with an Idempotency-Key do that.
    """
    refers_to: dict[type[Model], set[Any]] = {
        model: {field.related_model for field in model._meta.fields if field.remote_field}
        for model in apps.get_models(include_auto_created=True)
        if model not in BY_KEY and model._meta.managed and not model._meta.proxy
    }
    tied: set[type[Model]] = {get_user_model()}
    for _ in refers_to:  # each round adds the models that are tied to those of the last one
        tied |= {model for model, others in refers_to.items() if others & tied}
        tied |= set().union(*(refers_to[model] for model in tied)) & refers_to.keys()
    needed = {model: refers_to[model] & tied - {model} for model in refers_to if model in tied}
    return list(TopologicalSorter(needed).static_order())


def fetch_rows(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
