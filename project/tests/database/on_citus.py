"""What a test asks of a Citus cluster, in a process of its own: on_citus.py OPERATION NAME KEY."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import django
from django.db import connection

THREADS, TIMES = 4, 10
DUE = THREADS * TIMES
LIMIT = 5
TARGET = "https://example.com/"
BY_KEY = "shorturl_(shorturl|partialcount|visitcount)"
CHANGES = r"\b(INSERT|UPDATE|DELETE)\b"
# Where the shards are that have the rows of a key.
NODES = """
    SELECT count(DISTINCT groupid) FROM pg_dist_placement WHERE shardid IN (
        SELECT get_shard_id_for_distribution_column(name::regclass, %s::text)
        FROM unnest(%s) AS name)
"""


def call(operation: str, name: str, key: str) -> object:
    """Follow a link by a strategy."""
    from shorturl import operations
    from shorturl.visits.classification import Visit

    function = operations.STRATEGIES[operation][name].function
    return function(key, Visit(browser="Firefox")) if "visits" in operation else function(key)


def in_threads(work: Callable[[int], object]) -> None:
    """Do it DUE times, each with a number of its own, several at once."""

    def one_after_another(thread: int) -> None:
        try:
            for turn in range(TIMES):
                work(thread * TIMES + turn)
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(one_after_another, range(THREADS)):
            pass


def emptied(*keys: str) -> None:
    """Leave nothing of the links with these keys."""
    from shorturl.models import PartialCount, ShortUrl, VisitCount

    for model in (PartialCount, VisitCount):
        model._base_manager.filter(short_url__key__in=keys).delete()
    ShortUrl.objects.filter(key__in=keys)._raw_delete("default")


def follow(operation: str, name: str, key: str) -> tuple[int, int]:
    """Make a link, have threads follow it, and return its hits and its visits."""
    from django.db.models import Sum

    from shorturl.models import ShortUrl, VisitCount

    emptied(key)
    ShortUrl.objects.create(key=key, target_url=TARGET)
    in_threads(lambda _: call(operation, name, key))
    visits = VisitCount.objects.filter(short_url__key=key).aggregate(visits=Sum("hits"))["visits"]
    return ShortUrl.objects.with_total_hits(key).get().total_hits, visits or 0


def make(operation: str, name: str, key: str) -> tuple[int, int]:
    """Have threads make links by a strategy; return how many there are, and are to be."""
    from shorturl import exceptions, operations
    from shorturl.models import IdempotencyRecord, QuotaUsage, ShortUrl
    from shorturl.strategies.creating import on_conflict

    target = f"{TARGET}{operation}/{name}"
    links = ShortUrl.objects.filter(target_url=target)
    keys = [f"{key[:16]}-{number}" for number in range(DUE)]
    emptied(*links.values_list("key", flat=True), *keys)
    IdempotencyRecord.objects.filter(caller=target).delete()
    QuotaUsage.objects.filter(spender=target).delete()
    function: Callable[..., object] = operations.STRATEGIES[operation][name].function

    def one(number: int) -> ShortUrl:
        return on_conflict.create(target, keys=[keys[number]])

    def kept(number: int) -> dict[str, Any]:
        return {"status": 201, "body": one(number).key}

    # All want the first key, and each gets another one.
    ways: dict[str, tuple[int, Callable[[int], object]]] = {
        "creating": (DUE, lambda _: function(target, keys=keys)),
        "reusing": (1, lambda n: function(target, owner_id=None, create=partial(one, n))),
        "idempotency": (1, lambda n: function(target, key, "same", work=partial(kept, n))),
        "spending": (
            LIMIT,
            lambda n: function(target, partial(one, n), limit=LIMIT, period=timedelta(days=1)),
        ),
    }
    due, work = ways[operation]

    def unless_refused(number: int) -> None:
        with suppress(exceptions.InFlight, exceptions.QuotaExceeded):
            work(number)

    in_threads(unless_refused)
    return links.count(), due


def collect() -> dict[str, Any]:
    """Have the event loop follow links; return their hits and visits, and whose place is known."""
    from project.database import deadlines
    from project.database.greenlets import Greenlets
    from project.database.nodes_of_keys import Places
    from project.serving.waiting_hits import Waiting
    from shorturl.models import ShortUrl, VisitCount
    from shorturl.visits.classification import Visit

    keys = [f"collected-{number}" for number in range(8)]
    emptied(*keys)
    ShortUrl.objects.bulk_create(ShortUrl(key=each, target_url=TARGET) for each in keys)
    places = Places()
    options: dict[str, Any] = {"most_keys": 64, "patience": 60.0, "place": places.of}

    async def follow() -> None:
        run = Greenlets().run
        waiting = Waiting(
            partial(run, places.look_up), partial(run, places.follow_often), **options
        )
        kinds = [Visit(browser=name) for name in ("Firefox", "Lynx")]
        hits = [waiting.add(each, kinds[n % 2]) for n in range(DUE) for each in keys]
        await asyncio.gather(*hits)

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "on"  # as in a worker
    deadlines.install()
    asyncio.run(follow())
    links = ShortUrl.objects.filter(key__in=keys)
    visits = VisitCount.objects.filter(short_url__key__in=keys)
    return {
        "hits": sorted(links.values_list("hits", flat=True)),
        "visits": sorted(visits.values_list("hits", flat=True)),
        "places": [places.of(each) for each in keys],
    }


def many_links() -> dict[str, Any]:
    """Roll up a visit of each of many links; return the tasks, and how many statements it took."""
    from django.test.utils import CaptureQueriesContext
    from django.utils import timezone

    from shorturl.models import VisitCount
    from shorturl.visits.classification import Visit
    from shorturl.visits.roll_up import roll_up_visits

    keys, now = [f"many-{number}" for number in range(500)], timezone.now()
    VisitCount.objects.all().delete()
    VisitCount.objects.bulk_create(
        VisitCount(short_url_id=each, unit="h", starts_at=now - timedelta(30), **Visit()._asdict())
        for each in keys
    )
    with CaptureQueriesContext(connection) as sent:
        roll_up_visits(now)
    changing = [sql for sql in map(sql_of, sent) if re.search(CHANGES, sql)]
    days = VisitCount.objects.filter(unit="d").count()
    return {"days": days, "statements": len(changing), "tasks": tasks(changing)}


# What a user does with one link.
ONE_SHARD: list[tuple[str, str, Any]] = [
    ("post", "/", {"target_url": TARGET, "key": "made"}),
    ("get", "/known", None),
    ("get", "/known/stats", None),
    ("get", "/known/qr.svg", None),
    ("post", "/links/known", {"target_url": TARGET, "max_hits": "9"}),
    ("get", "/api/links/known", None),
    ("get", "/api/links/known/visits", None),
    ("patch", "/api/links/known", {"max_hits": 9}),
    ("post", "/links/known/delete", {}),
]


def pages() -> dict[str, Any]:
    """Return in how many tasks the statements of each page about one link are done."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.test.utils import CaptureQueriesContext, setup_test_environment

    from shorturl.models import ShortUrl

    setup_test_environment()
    emptied("known", "made")
    User.objects.filter(username="one shard").delete()
    user, client = User.objects.create_user("one shard"), Client()
    client.force_login(user)
    ShortUrl.objects.create(key="known", target_url=TARGET, owner=user)
    found = {}
    for method, path, data in ONE_SHARD:
        options = {"content_type": "application/json"} if method == "patch" else {}
        with CaptureQueriesContext(connection) as sent:
            status = getattr(client, method)(path, data, **options).status_code
        of_links = [sql for sql in map(sql_of, sent) if re.search(BY_KEY, sql)]
        found[f"{method} {path}"] = [status, tasks(of_links)]
    return found


def lock_timeout() -> list[list[str]]:
    """Return what the checks say of workers with a lock_timeout, and without one."""
    from project.database.citus_checks import lock_timeouts

    said = []
    for command in ("SET lock_timeout = '500ms'", "RESET lock_timeout"):
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER ROLE CURRENT_USER {command}")
        connection.close()
        said.append([each.msg for each in lock_timeouts()])
    return said


def fill(keys: list[str], now: datetime) -> int:
    """Add visits of so many kinds that they are compacted, coarsened and rolled up; return them."""
    from shorturl.models import VisitCount
    from shorturl.visits.classification import Visit

    hour = now.replace(minute=0, second=0, microsecond=0)
    ages = [timedelta(hours=1), timedelta(days=3), timedelta(days=20), timedelta(days=800)]
    rows = [
        VisitCount(short_url_id=key, unit=unit, starts_at=hour - age, hits=2, **kind._asdict())
        for key in keys
        for unit, age in zip("hhhd", ages, strict=True)
        for kind in (Visit(f"{number}.example", "Firefox") for number in range(60))
    ]
    VisitCount.objects.bulk_create(rows)
    return sum(row.hits for row in rows)


def roll_up(name: str, key: str) -> dict[str, Any]:
    """Have threads roll up visits by a strategy; return how many there are, and are to be."""
    from django.db.models import Sum
    from django.test.utils import CaptureQueriesContext, override_settings
    from django.utils import timezone

    from project.database import citus
    from shorturl.models import PartialCount, VisitCount
    from shorturl.visits.roll_up import roll_up_visits

    keys, now = [f"{key[:16]}-{number}" for number in range(3)], timezone.now()
    emptied(*keys)
    # What other strategies have counted, and `manage.py roll_up` would move by many keys at once.
    PartialCount.objects.all().delete()
    visits = VisitCount.objects.filter(short_url__key__in=keys)
    with override_settings(SHORTURL_ROLLING_UP=name):
        due = fill(keys, now)
        in_threads(lambda _: roll_up_visits(now))
        due += fill(keys, now)
        with CaptureQueriesContext(connection) as sent:
            roll_up_visits(now)
    found: dict[str, Any] = {
        "due": due,
        "visits": visits.each_once().aggregate(visits=Sum("hits"))["visits"],
        "rows": visits.count(),
    }
    if citus.is_distributed():
        found["tasks"] = tasks([sql for sql in map(sql_of, sent) if re.search(CHANGES, sql)])
    return found


def sql_of(query: dict[str, str]) -> str:
    return query["sql"]


def tasks(statements: Iterable[str]) -> list[int]:
    """Return in how many tasks Citus does each statement."""
    found = set()
    with connection.cursor() as cursor:
        for sql in (sql for sql in statements if "shorturl_" in sql):
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            found |= {int(number) for number in re.findall(r"Task Count: (\d+)", plan)}
    return sorted(found)


def main(operation: str, name: str = "", key: str = "") -> object:
    """Return what was found, once the tables are distributed, or before."""
    from django.test.utils import CaptureQueriesContext

    from project.database import citus

    alone = {"collect": collect, "many": many_links, "pages": pages, "limits": lock_timeout}
    if operation in alone:
        return alone[operation]()
    if operation == "rolling_up":
        return roll_up(name, key)
    if operation not in ("resolving", "recording_visits"):
        made, due = make(operation, name, key)
        return {"made": made, "due": due}
    hits, visits = follow(operation, name, key)
    found: dict[str, Any] = {"hits": hits, "visits": visits}
    if citus.is_distributed():
        with connection.cursor() as cursor:
            cursor.execute(NODES, [key, [model._meta.db_table for model in citus.BY_KEY]])
            (found["nodes"],) = cursor.fetchone()
        with CaptureQueriesContext(connection) as sent:
            call(operation, name, key)
        found["tasks"] = tasks(map(sql_of, sent))
    return found


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    print(json.dumps(main(*sys.argv[1:])))
