"""The processes' sessions, their locks, and the versions of the links' rows, from PostgreSQL."""

from typing import Any

from django.db import connection

# The explorer names each session after its process. Locks on indexes are left out.
ASK = """
    SELECT right(application_name, 1)::int, activity.pid, state <> 'idle', locktype, mode, granted,
           coalesce(relation::regclass::text, ''), coalesce(transactionid::text, ''),
           page, tuple, CASE WHEN NOT granted THEN pg_blocking_pids(activity.pid) END
    FROM pg_stat_activity AS activity
    LEFT JOIN (pg_locks AS locks LEFT JOIN pg_class ON pg_class.oid = relation)
        ON activity.pid = locks.pid
        AND locktype IN ('transactionid', 'relation', 'tuple', 'advisory')
        AND coalesce(relkind, 'r') = 'r'
    WHERE datname = current_database() AND application_name LIKE 'interleave process %'
    ORDER BY 1, granted DESC, locktype, 7, mode
"""
VERSIONS = "SELECT key, ctid::text, xmin::text, xmax::text FROM shorturl_shorturl ORDER BY id"


def session_states() -> dict[str, Any]:
    """Return which processes are `in_transaction`, and the `locks` that they hold or wait for.

    A lock has a `process`, a `mode`, `on` (the locked object), `granted`, and `blocked_by`: the
    processes that pg_blocking_pids() returns. Row locks are missing, because PostgreSQL stores them
    in the rows: a process that waits for one waits for the holder's transaction. `versions` are the
    versions of the links' rows that a new snapshot sees. `writers` maps the id of each open
    transaction to its process.
    """
    with connection.cursor() as cursor:
        cursor.execute(ASK)
        rows = cursor.fetchall()
        cursor.execute(VERSIONS)
        versions = cursor.fetchall()
    process_of = {pid: process for process, pid, *_ in rows}
    owner = {row[7]: row[0] for row in rows if row[3] == "transactionid" and row[5]}
    locks = []
    for process, _, _, kind, mode, granted, table, transaction, page, number, blockers in rows:
        if kind is None:
            continue
        on = {
            "relation": table,
            "tuple": f"row ({page},{number}) of {table}",
            "transactionid": f"transaction of process {owner.get(transaction, '?')}",
            "advisory": "advisory lock",
        }[kind]
        blocked_by = sorted({process_of[pid] for pid in blockers or () if pid in process_of})
        locks.append(
            {"process": process, "mode": mode, "on": on, "granted": granted,
             "blocked_by": blocked_by}
        )  # fmt: skip
    inside = sorted({row[0] for row in rows if row[2]})
    return {"in_transaction": inside, "locks": locks, "versions": versions, "writers": owner}
