"""The tables on a Citus cluster: links and their counts by key, accounts on every node.

https://docs.citusdata.com/en/stable/develop/api_udf.html describes the functions.
"""

from collections.abc import Iterator, Sequence

from django.apps import apps
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model

from project.citus.shard_map import LINKS
from project.database.database_checks import fetch_rows
from shorturl.models import ApiToken, DailyVisits, HourlyVisits, ShortUrl

# The models whose tables are distributed by key: links, and all that refer to a link.
BY_KEY: list[type[Model]] = [
    ShortUrl,
    *(model for model in apps.get_models() if "short_url" in {f.name for f in model._meta.fields}),
]
# Accounts and what foreign keys tie to them, each model after those that it refers to. All others
# stay plain tables: Citus runs one UPDATE of a reference table at a time, and two transactions that
# insert and then update deadlock (distributed_execution_locks.c). Two requests with an
# Idempotency-Key would do that.
REFERENCE_MODELS: list[type[Model]] = [
    *(User, ContentType, Group, ApiToken, LogEntry, Permission),
    User.groups.through,
    User.user_permissions.through,
    Group.permissions.through,
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
    """Return the statements that distribute the tables, or undo that; none if all is done."""
    distributed = {name.removeprefix("public.") for (name,) in fetch_rows(DISTRIBUTED)}
    models = [*REFERENCE_MODELS, *BY_KEY]
    if undo:
        models = [model for model in models if model._meta.db_table in distributed]
        statements = yield_undistribute_statements(models)
    else:
        models = [model for model in models if model._meta.db_table not in distributed]
        statements = yield_distribute_statements(models)
    return [*SETTINGS, *statements] if models else []


def yield_distribute_statements(models: Sequence[type[Model]]) -> Iterator[str]:
    """Yield the statements that distribute the tables of the models."""
    # Before any table is distributed, as Citus then supports fewer kinds of ALTER TABLE.
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


def yield_undistribute_statements(models: Sequence[type[Model]]) -> Iterator[str]:
    """Yield the statements that make plain tables of distributed ones."""
    for model in reversed(models):
        yield UNDISTRIBUTE.format(model._meta.db_table)
        if model in BY_KEY:
            yield PRIMARY_KEY.format(model._meta.db_table, "id")
    yield from (f"ALTER ROLE CURRENT_USER RESET {name}" for name in ROLE_SETTINGS)
