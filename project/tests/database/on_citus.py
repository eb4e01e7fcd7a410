"""Tests that need a Citus cluster: test_citus.py runs pytest with this file on one."""

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.utils import ConnectionHandler
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker, Settings

from project.database import citus, shards
from project.database.citus_checks import check_citus
from project.serving.nodes import Nodes
from project.serving.redirects import session
from project.tests.database.citus_walk import walk
from project.tests.database.citus_ways import REFUSED, SINGLE_SHARD, TABLES
from shorturl.exceptions import InFlight, QuotaExceeded
from shorturl.limits import owners
from shorturl.models import (
    DailyVisits,
    HourlyVisits,
    IdempotencyRecord,
    QuotaUsage,
    RecentVisits,
    ShortUrl,
    Visit,
)
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.exhibits.models import PartialCount
from shorturl.strategies.exhibits.totals import TOTAL_HITS, VISITS
from shorturl.strategies.resolving import in_memory
from shorturl.strategies.table import STRATEGIES, Verdict

THREADS, TIMES = 4, 10
DUE = THREADS * TIMES
LIMIT = 5
TARGET = "https://example.com/"
BY_KEY = "shorturl_(shorturl|hourlyvisits)"
CHANGES = r"\b(INSERT|UPDATE|DELETE)\b"
# The number of nodes that have the rows of a key.
NODES = """
    SELECT count(DISTINCT groupid) FROM pg_dist_placement WHERE shardid IN (
        SELECT get_shard_id_for_distribution_column(name::regclass, %s::text)
        FROM unnest(%s) AS name)
"""
COUNTING = [
    (operation, name)
    for operation in ("resolving", "recording_visits")
    for name, strategy in STRATEGIES[operation].items()
    if strategy.function is not in_memory.resolve
    and TABLES[operation][name][0] != REFUSED
    and (operation, name) != ("recording_visits", "get_then_create")
]
MAKING = [
    (operation, name)
    for operation in ("creating", "reusing", "idempotency", "spending")
    for name, strategy in STRATEGIES[operation].items()
    if strategy.verdict is Verdict.RIGHT and TABLES[operation][name][0] != REFUSED
]
# The requests of a user about one link.
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


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """Make no test database: the tests use that of the cluster."""


@pytest.fixture(scope="session", autouse=True)
def distributed(
    django_db_blocker: DjangoDbBlocker, patient_connections: None
) -> Iterator[tuple[int, int]]:
    """Distribute the tables with a link in them, yield its hits and visits then, and undo it."""
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            # Threads queue on the coordinator for statements of every node.
            cursor.execute("ALTER ROLE CURRENT_USER SET lock_timeout = '60s'")
        # First, as migrate refuses tables that an earlier run has left distributed.
        call_command("distribute", "--undo")
        call_command("migrate", verbosity=0)
        follow("recording_visits", "upsert", "before")
        call_command("distribute")
        visits = HourlyVisits.objects.filter(short_url__key="before").get()
        yield ShortUrl.objects.get(key="before").hits, visits.bots
        call_command("distribute", "--undo")
        with connection.cursor() as cursor:
            cursor.execute("ALTER ROLE CURRENT_USER RESET lock_timeout")


def call(operation: str, name: str, key: str) -> object:
    """Follow a link by a strategy."""
    function = STRATEGIES[operation][name].function
    return function(key, Visit(browser="Firefox")) if "visits" in operation else function(key)


def in_threads(work: Callable[[int], object]) -> None:
    """Call `work` DUE times, each with another number, several at once."""

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
    """Delete all rows of the links with these keys."""
    for model in (PartialCount, HourlyVisits, DailyVisits, RecentVisits):
        model._base_manager.filter(short_url__key__in=keys).delete()
    ShortUrl.objects.filter(key__in=keys)._raw_delete("default")


def tasks(work: Callable[[], object], matching: str = "") -> tuple[int, list[int]]:
    """Return the number of statements that `work` sends, and the numbers of their tasks."""
    with CaptureQueriesContext(connection) as sent:
        work()
    statements = [each["sql"] for each in sent if "shorturl_" in each["sql"]]
    statements = [sql for sql in statements if re.search(matching, sql)]
    found = set()
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            found |= {int(number) for number in re.findall(r"Task Count: (\d+)", plan)}
    return len(statements), sorted(found)


def follow(operation: str, name: str, key: str) -> tuple[int, int]:
    """Make a link, have threads follow it, and return its hits and its visits."""
    emptied(key)
    ShortUrl.objects.create(key=key, target_url=TARGET)
    in_threads(lambda _: call(operation, name, key))
    links = ShortUrl.objects.annotate(total_hits=TOTAL_HITS, visits=VISITS).filter(key=key)
    return links.values_list("total_hits", "visits").get()


def test_rows_are_kept_and_a_second_run_has_nothing_to_do(
    distributed: tuple[int, int],
) -> None:
    assert distributed == (DUE, DUE)
    said = StringIO()
    call_command("distribute", stdout=said)
    assert said.getvalue().strip() == "Nothing to do."


@pytest.mark.parametrize(("operation", "name"), COUNTING)
def test_each_hit_is_counted(operation: str, name: str) -> None:
    """Several threads follow a link, whose rows are all on one node."""
    key = f"{operation[:3]}-{name}"[:20]
    visits = DUE if operation == "recording_visits" else 0
    assert follow(operation, name, key) == (DUE, visits)
    with connection.cursor() as cursor:
        cursor.execute(NODES, [key, [model._meta.db_table for model in citus.BY_KEY]])
        assert cursor.fetchone() == (1,)
    if TABLES[operation][name][0] == SINGLE_SHARD:
        assert tasks(partial(call, operation, name, key))[1] == [1], "each runs on one node"


@pytest.mark.parametrize(("operation", "name"), MAKING)
def test_links_are_made(operation: str, name: str) -> None:
    """Several threads compete for a key, target, answer or quota, and each is given once."""
    target = f"{TARGET}{operation}/{name}"
    links = ShortUrl.objects.filter(target_url=target)
    keys = [f"{operation[:3]}-{name}"[:16] + f"-{number}" for number in range(DUE)]
    emptied(*links.values_list("key", flat=True), *keys)
    IdempotencyRecord.objects.filter(caller=target).delete()
    QuotaUsage.objects.filter(spender=target).delete()
    function: Callable[..., object] = STRATEGIES[operation][name].function
    day = timedelta(days=1)

    def one(number: int) -> ShortUrl:
        return on_conflict.create(target, keys=[keys[number]])

    def kept(number: int) -> dict[str, Any]:
        return {"status": 201, "body": one(number).key}

    # All want the first key, and each gets another one.
    ways: dict[str, tuple[int, Callable[[int], object]]] = {
        "creating": (DUE, lambda _: function(target, keys=keys)),
        "reusing": (1, lambda n: function(target, owner_id=None, create=partial(one, n))),
        "idempotency": (1, lambda n: function(target, name, "same", work=partial(kept, n))),
        "spending": (LIMIT, lambda n: function(target, partial(one, n), limit=LIMIT, period=day)),
    }
    due, work = ways[operation]

    def unless_refused(number: int) -> None:
        with suppress(InFlight, QuotaExceeded):
            work(number)

    in_threads(unless_refused)
    assert links.count() == due


def test_hits_are_counted_on_the_node_of_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the shards have moved since they were read."""
    keys = [f"collected-{number}" for number in range(8)]
    emptied(*keys)
    ShortUrl.objects.bulk_create(ShortUrl(key=each, target_url=TARGET) for each in keys)

    async def collect() -> None:
        nodes = Nodes(session, most_keys=64, patience=60.0)
        kinds = [Visit(browser=name) for name in ("Firefox", "Lynx")]
        hits = [nodes.add(each, kinds[n % 2]) for n in range(DUE) for each in keys]
        assert None not in await asyncio.gather(*hits)
        assert await nodes.add("nobody's", kinds[0]) is None
        places = nodes.shards.nodes
        (one, other, *_) = {*places.values()}
        swapped = {one: other, other: one}
        nodes.shards.nodes = {shard: swapped.get(node, node) for shard, node in places.items()}
        assert None not in await asyncio.gather(*[nodes.add(key, kinds[0]) for key in keys])

    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "on")  # as in a worker
    asyncio.run(collect())
    links = ShortUrl.objects.filter(key__in=keys)
    rows = RecentVisits.objects.filter(short_url__key__in=keys)
    assert list(links.values_list("hits", flat=True)) == [DUE + 1] * 8
    assert sum(len(row.kinds) for row in rows) == (DUE + 1) * 8


def test_redirects_of_a_node_that_cannot_be_used_go_through_the_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "problem", lambda there: "it hashes keys differently")
    with connection.cursor() as cursor:
        nodes = {*shards.read(cursor).nodes.values()} - {shards.Node()}
    for node in nodes:
        there = ConnectionHandler({"default": node.database})["default"]
        with closing(there):
            shards.connect(there, node)
            with there.cursor() as cursor:
                cursor.execute(citus.COORDINATOR)
                assert cursor.fetchone() is not None


def test_the_hash_of_a_key_and_its_shard_are_those_of_the_server() -> None:
    keys = [*shards.SAMPLES, *(f"k{number}" for number in range(100))]
    with connection.cursor() as cursor:
        found = shards.read(cursor)
        cursor.execute(
            "SELECT get_shard_id_for_distribution_column('shorturl_shorturl', key)"
            " FROM unnest(%s) AS key",
            [keys],
        )
        assert [found.of(key) for key in keys] == [shard for (shard,) in cursor.fetchall()]


def test_a_page_about_one_link_uses_one_node() -> None:
    emptied("known", "made")
    for left in User.objects.filter(username="one shard"):
        owners.remove(left)
    user, client = User.objects.create_user("one shard"), Client()
    client.force_login(user)
    ShortUrl.objects.create(key="known", target_url=TARGET, owner=user)
    for method, path, data in ONE_SHARD:
        options = {"content_type": "application/json"} if method == "patch" else {}
        statuses: list[int] = []

        def ask() -> None:
            answer = getattr(client, method)(path, data, **options)  # noqa: B023 - called at once
            statuses.append(answer.status_code)  # noqa: B023

        assert tasks(ask, BY_KEY)[1] == [1], path
        assert statuses[0] in (200, 302, 303), path


def test_the_checks(settings: Settings) -> None:
    """A role's lock_timeout reaches the workers; a service with DATABASE_CITUS=off is refused."""
    assert {each.id for each in check_citus()} == set()
    settings.DATABASE_LOCK_TIMEOUT = 1
    assert {each.id for each in check_citus()} == {"project.W012"}
    settings.DATABASE_CITUS = False
    assert {each.id for each in check_citus()} == {"project.W012", "project.E009"}


def test_a_walk_through_the_service() -> None:
    walk()
