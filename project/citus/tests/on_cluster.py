"""Tests that need a Citus cluster: test_citus.py runs pytest with this file on one."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import psycopg2
import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import F, QuerySet, Sum
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from project.citus import roll_up
from project.citus.cluster_counter import ClusterHitCounter
from project.citus.shard_map import READ_MAP, Node, ShardMap
from project.citus.tests.lost_sessions import end_sessions_after_each_statement
from project.citus.tests.test_node_sessions import close_counter
from shorturl import operations
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits, ShortUrl, Visit
from shorturl.tests.callers import call_and_close_connection, run

TARGET = "https://example.com/"
PERSON = Visit(browser="Firefox", is_bot=False)
THREADS, CREATES, HITS = 4, 10, 41


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    """Make no test database: the tests use that of the cluster."""


@pytest.fixture(scope="session", autouse=True)
def distributed(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Distribute the tables with a link in them; undo that, and restore the role's settings."""
    with django_db_blocker.unblock():
        with connection.cursor() as cursor:
            cursor.execute("SELECT rolconfig FROM pg_roles WHERE rolname = current_user")
            (settings_before,) = cursor.fetchone()  # NAME=value of each, or None
        call_command("distribute", "--undo")
        call_command("migrate", verbosity=0)
        make_links("before")
        call_command("distribute")
        connection.close()  # a new session has the role's settings on the nodes, too
        yield
        call_command("distribute", "--undo")
        with connection.cursor() as cursor:
            for setting in settings_before or []:
                name, value = setting.split("=", 1)
                cursor.execute(f"ALTER ROLE CURRENT_USER SET {name} = %s", [value])


def make_links(*keys: str, **fields: Any) -> None:
    """Make links without hits; those of an earlier run are deleted, and not only marked so."""
    for model in (RecentVisits, HourlyVisits, DailyVisits):
        QuerySet(model).filter(short_url__key__in=keys).delete()
    QuerySet(ShortUrl).filter(key__in=keys).delete()
    for key in keys:
        ShortUrl.objects.create(key=key, target_url=TARGET, **fields)


def run_with_counter(
    function: Callable[[ClusterHitCounter], Any], workers: tuple[str, ...] = ()
) -> Any:
    """Call an async function with the counter of a new process, and return what it returns."""

    async def call_function() -> Any:
        counter = ClusterHitCounter(workers)
        try:
            return await function(counter)
        finally:
            close_counter(counter)

    return asyncio.run(call_function())


def read_shards() -> ShardMap:
    with connection.cursor() as cursor:
        cursor.execute(READ_MAP, [ShortUrl._meta.db_table])
        return ShardMap(cursor.fetchall())


def list_workers() -> list[Node]:
    return sorted({*read_shards().nodes.values()} - {Node()})  # Node() is the coordinator


def make_unreachable(patch: pytest.MonkeyPatch, lost: Node) -> None:
    make = Node.make_database_settings

    def make_settings(node: Node) -> dict[str, Any]:
        settings = make(node)
        return {**settings, "PORT": 1} if node == lost else settings  # where nothing listens

    patch.setattr(Node, "make_database_settings", make_settings)


def test_distribute_keeps_the_rows_and_has_nothing_to_do_a_second_time() -> None:
    assert ShortUrl.objects.filter(key="before").exists()
    assert run("distribute").output.strip() == "Nothing to do."


def test_the_shard_of_a_key_is_that_of_the_server() -> None:
    keys = ["é", "a-key-of-more-than-24-characters", *(f"k{n}" for n in range(100))]
    shards = read_shards()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT get_shard_id_for_distribution_column('shorturl_shorturl', key)"
            " FROM unnest(%s) AS key",
            [keys],
        )
        assert [shards.find_shard(key) for key in keys] == [shard for (shard,) in cursor.fetchall()]


def test_hits_are_counted_on_the_node_of_their_key() -> None:
    keys = [f"collected-{number}" for number in range(8)]
    make_links(*keys)

    async def follow(counter: ClusterHitCounter) -> None:
        hits = [counter.count(key, PERSON) for _ in range(HITS - 1) for key in keys]
        assert None not in await asyncio.gather(*hits)
        # As if the shards of two nodes had changed places since the map was read.
        nodes = counter.map.nodes
        (first, second, *_) = sorted({*nodes.values()})
        swapped = {first: second, second: first}
        counter.map.nodes = {shard: swapped.get(node, node) for shard, node in nodes.items()}
        assert None not in await asyncio.gather(*[counter.count(key, PERSON) for key in keys])

    run_with_counter(follow)
    assert [*ShortUrl.objects.filter(key__in=keys).values_list("hits", flat=True)] == [HITS] * 8
    rows = RecentVisits.objects.filter(short_url__key__in=keys).values_list("kinds", flat=True)
    assert sum(map(len, rows)) == HITS * 8


def test_a_hit_is_not_acknowledged_if_its_session_is_lost_between_its_two_statements() -> None:
    make_links("halves")

    async def follow(counter: ClusterHitCounter) -> None:
        with (
            end_sessions_after_each_statement(),
            pytest.raises(psycopg2.OperationalError, match="lost in a transaction"),
        ):
            await counter.count("halves", PERSON)
        assert await counter.count("halves", PERSON) is not None  # in a new session

    run_with_counter(follow)
    assert ShortUrl.objects.get(key="halves").hits == 1
    assert count_visits(["halves"]).recent == 1


def test_the_map_is_read_again_only_for_unknown_keys_and_once_for_all_of_them() -> None:
    """A link that its node has is on no other node, even if its hit is not counted."""
    make_links("over", expires_at=timezone.now())
    make_links("used", max_hits=1)
    make_links("bots", max_hits=9)

    async def follow(counter: ClusterHitCounter) -> int:
        assert await counter.count("used", PERSON) is not None
        readings = 0
        read = counter.read_from_any_node

        async def read_and_count() -> None:
            nonlocal readings
            readings += 1
            await read()

        counter.read_from_any_node = read_and_count  # type: ignore[method-assign]
        for key in ("over", "used"):
            assert await counter.count(key, PERSON) is None
        assert await counter.count("bots", Visit(is_bot=True)) is None
        assert readings == 0
        counter.read_at -= 2  # seconds: long enough ago to read the map again
        assert [await counter.count(f"no-{number}", PERSON) for number in range(50)] == [None] * 50
        return readings

    assert run_with_counter(follow) == 1


@pytest.mark.parametrize("workers_are_known", [True, False])
def test_a_process_begins_without_the_coordinator_if_it_knows_the_workers(
    workers_are_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it asks the coordinator once, and all waiting hits get the error of that."""
    workers = tuple(map(str, list_workers()))
    keys = [f"alone-{number}" for number in range(20)]
    make_links(*keys)
    make_unreachable(monkeypatch, Node())  # the coordinator

    async def follow(counter: ClusterHitCounter) -> list[Any]:
        hits = [counter.count(key, PERSON) for key in keys]
        return await asyncio.gather(*hits, return_exceptions=True)

    outcomes = run_with_counter(follow, workers if workers_are_known else ())
    if workers_are_known:
        assert [row.key for row in outcomes] == keys
    else:
        assert {type(error) for error in outcomes} == {psycopg2.OperationalError}
        assert len({id(error) for error in outcomes}) == 1


class VisitCounts(NamedTuple):
    recent: int
    hourly: int
    daily: int  # by device, of which each visit has one


def count_visits(keys: list[str]) -> VisitCounts:
    recent = RecentVisits.objects.filter(short_url__key__in=keys).values_list("kinds", flat=True)
    total = Sum(F("people") + F("bots"))
    hours = HourlyVisits.objects.filter(short_url__key__in=keys).aggregate(total=total)["total"]
    days = DailyVisits.objects.filter(short_url__key__in=keys, dimension="device")
    days_total = days.aggregate(total=total)["total"]
    return VisitCounts(sum(map(len, recent)), hours or 0, days_total or 0)


def follow_each_ten_times(keys: list[str]) -> None:
    async def follow(counter: ClusterHitCounter) -> None:
        await asyncio.gather(*[counter.count(key, PERSON) for key in keys for _ in range(10)])

    run_with_counter(follow)


def test_several_roll_ups_at_once_move_each_visit_once() -> None:
    keys = [f"rolled-{number}" for number in range(30)]
    make_links(*keys)
    follow_each_ten_times(keys)

    roll_up = partial(run, "roll_up")
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(call_and_close_connection, [roll_up] * THREADS))
    run("roll_up")
    assert count_visits(keys) == (0, 300, 300)


def test_a_roll_up_without_a_node_goes_on_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"without-{number}" for number in range(50)]
    make_links(*keys)
    follow_each_ten_times(keys)
    lost = list_workers()[0]
    with monkeypatch.context() as patch:
        make_unreachable(patch, lost)
        with pytest.raises(CommandError, match=f"not all nodes answer: {lost}: .*refused"):
            run("roll_up")
    counts = count_visits(keys)
    assert counts.recent + counts.hourly == 500
    assert 0 < counts.recent < 500
    run("roll_up")
    assert count_visits(keys) == (0, 500, 500)


def test_a_shard_does_not_move_while_it_is_rolled_up() -> None:
    """The roll-up writes in the shard's own tables, which stay behind when it has moved."""
    key = "any"  # there need be no link: every key has a shard
    shards = read_shards()
    shard = shards.find_shard(key)
    node = shards.find_node(shard)
    other = next(other for other in shards.nodes.values() if other != node)
    move = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, 'block_writes')"
    with closing(node.open_database()) as database, database.cursor() as other_session:
        other_session.execute("BEGIN")
        other_session.execute(roll_up.HOLD_SHARD, [key])  # as a roll-up begins
        with connection.cursor() as cursor:
            with pytest.raises(OperationalError, match="lock timeout"):
                cursor.execute(move, [shard, *node, *other])
            other_session.execute("COMMIT")
            cursor.execute(move, [shard, *node, *other])


def test_creates_in_threads_share_no_key() -> None:
    def create_links() -> list[str]:
        return [operations.create(TARGET).key for _ in range(CREATES)]

    with ThreadPoolExecutor(THREADS) as pool:
        created = pool.map(call_and_close_connection, [create_links] * THREADS)
        keys = [key for keys_of_a_thread in created for key in keys_of_a_thread]
    assert len({*keys}) == THREADS * CREATES
    assert ShortUrl.objects.filter(key__in=keys).count() == THREADS * CREATES
