"""Which strategies run where the tables are distributed by key, and how.

It follows from their statements and from Citus' documentation and source, which docs/scaling.md
names: nothing of it was run on a cluster.
"""

UNCHANGED, EVERY_SHARD, EVERY_NODE = "single-shard", "runs on every shard", "runs on every node"
REFUSED, UNKNOWN = "refused", "not known to run"

ROW_BY_ID = "its UPDATE names the id and not the key"
ROWS_BY_ID = "its SELECT names no key, and its DELETE the ids"
ONE_NODE = "the lock is the coordinator's alone: with several, it keeps nobody out"
WHOLE_ROW = "a save() of all columns writes the distribution column"
BY_KEY = "UPDATE … WHERE key = …, whose only function is STABLE"
SNAPSHOT = "there is no snapshot of several nodes"
BY_TARGET = "its SELECT names the target and not the key"
REFERENCE = "its table is on every node, and so is each write"
FROM_SELECT = "INSERT … SELECT … ON CONFLICT into a table that is on every node"
TAKEN_APART = "the coordinator takes a WITH that inserts apart; no test of Citus has one like it"
COLUMN_OF = "INSERT … SELECT with date_trunc(), which is STABLE, of a column"
SKIP_LOCKED = "its FOR UPDATE is of many keys, which Citus takes of one shard only"
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
    "slotted_counter": (UNKNOWN, TAKEN_APART),
    "append_only": (UNKNOWN, TAKEN_APART),
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
    "get_then_create": (EVERY_SHARD, ROW_BY_ID),
    "second_transaction": (UNCHANGED, "UPDATE by key, and INSERT … ON CONFLICT with it"),
    "one_transaction": (UNCHANGED, "the same two statements, and one node's COMMIT"),
    "upsert": (UNKNOWN, TAKEN_APART),
    "append_only": (UNKNOWN, TAKEN_APART),
    "combined": (UNKNOWN, TAKEN_APART),
}
ROLLING_UP = {
    "watermark": (UNKNOWN, COLUMN_OF),
    "select_then_delete": (EVERY_SHARD, ROWS_BY_ID),
    "delete_returning": (UNKNOWN, TAKEN_APART),
    "batches": (REFUSED, SKIP_LOCKED),
}
TABLES = {
    "creating": CREATING,
    "resolving": RESOLVING,
    "reusing": REUSING,
    "idempotency": IDEMPOTENCY,
    "spending": SPENDING,
    "recording_visits": RECORDING_VISITS,
    "rolling_up": ROLLING_UP,
}
