"""What a test asks of a Citus cluster, in a process of its own: on_citus.py OPERATION NAME KEY."""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from django.db import connection

THREADS, TIMES = 4, 10
DUE = THREADS * TIMES
TARGET = "https://example.com/"
# Where the shards are that have the rows of a key.
NODES = """
    SELECT count(DISTINCT (nodename, nodeport)) FROM citus_shards WHERE shardid IN (
        SELECT get_shard_id_for_distribution_column(name::regclass, %s::text)
        FROM unnest(%s) AS name)
"""


def call(operation: str, name: str, key: str) -> object:
    """Follow a link by a strategy."""
    from shorturl import operations
    from shorturl.visits import Visit

    function = operations.STRATEGIES[operation][name].function
    return function(key, Visit(browser="Firefox")) if "visits" in operation else function(key)


def follow(operation: str, name: str, key: str) -> tuple[int, int]:
    """Make a link, have threads follow it, and return its hits and its visits."""
    from django.db.models import Sum

    from shorturl.models import PartialCount, ShortUrl, VisitCount

    for model in (PartialCount, VisitCount):
        model._base_manager.filter(short_url__key=key).delete()
    ShortUrl.objects.filter(key=key)._raw_delete("default")
    ShortUrl.objects.create(key=key, target_url=TARGET)

    def several() -> None:
        try:
            for _ in range(TIMES):
                call(operation, name, key)
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for each in [pool.submit(several) for _ in range(THREADS)]:
            each.result()
    visits = VisitCount.objects.filter(short_url__key=key).aggregate(visits=Sum("hits"))["visits"]
    return ShortUrl.objects.with_total_hits().get(key=key).total_hits, visits or 0


def tasks(operation: str, name: str, key: str) -> list[int]:
    """Return in how many tasks Citus does each statement of one more call."""
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as sent:
        call(operation, name, key)
    found = set()
    with connection.cursor() as cursor:
        for sql in (query["sql"] for query in sent if "shorturl_" in query["sql"]):
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            found |= {int(number) for number in re.findall(r"Task Count: (\d+)", plan)}
    return sorted(found)


def main(operation: str, name: str, key: str) -> dict[str, Any]:
    """Return what was found, once the tables are distributed, or before."""
    from project import citus

    hits, visits = follow(operation, name, key)
    found: dict[str, Any] = {"hits": hits, "visits": visits}
    if citus.is_distributed():
        with connection.cursor() as cursor:
            cursor.execute(NODES, [key, [model._meta.db_table for model in citus.BY_KEY]])
            (found["nodes"],) = cursor.fetchone()
        found["tasks"] = tasks(operation, name, key)
    return found


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    print(json.dumps(main(*sys.argv[1:])))
