"""How each strategy runs on tables distributed by key.

`python -m project.tests.database.citus_ways` prints it.

The results are of Citus 13.2.2, a coordinator and two workers, with PostgreSQL 15: docs/scaling.md.
"""

import django

django.setup()

from shorturl.strategies.table import STRATEGIES  # noqa: E402

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
MANY_KEYS = "its DELETE has a LIMIT of many keys, which Citus takes of one shard only"
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
    "upsert": (IN_PARTS, TAKEN_APART),
    "combined": (IN_PARTS, TAKEN_APART),
}
ROLLING_UP = {
    "insert_then_delete": (IN_PARTS, COLUMN_OF),
    "select_then_delete": (EVERY_SHARD, ROWS_BY_ID),
    "delete_returning": (IN_PARTS, TAKEN_APART),
    "batches": (REFUSED, MANY_KEYS),
}
TABLES = {
    "creating": CREATING,
    "resolving": RESOLVING,
    "reusing": REUSING,
    "idempotency": dict.fromkeys(STRATEGIES["idempotency"], (UNCHANGED, PLAIN)),
    "spending": dict.fromkeys(STRATEGIES["spending"], (UNCHANGED, PLAIN)),
    "recording_visits": RECORDING_VISITS,
    "rolling_up": ROLLING_UP,
    "delivering": dict.fromkeys(STRATEGIES["delivering"], (UNCHANGED, PLAIN)),
}

if __name__ == "__main__":
    print("| operation | strategies | on Citus | because |")
    print("| --- | --- | --- | --- |")
    for operation, ways in TABLES.items():
        for way in dict.fromkeys(ways.values()):
            names = ", ".join(f"`{name}`" for name, same in ways.items() if same == way)
            print(f"| {operation} | {names} | {' | '.join(way)} |")
