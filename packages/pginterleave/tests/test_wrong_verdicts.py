"""Programs of everyday Django, and how each is judged: what a test shares with its processes."""

import asyncio
import fcntl
import functools
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.backends.postgresql.psycopg_any import Jsonb
from django.db.models import F
from django.test import RequestFactory
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from pginterleave import CannotExplore, InterleaveError, Outcome, StepTimeout
from pginterleave.processes import python_locks
from pginterleave.processes.monitor import LOCK_LIMIT
from pginterleave.pytest_plugin import Interleave

from . import counter
from .counter import Counter, Unmanaged, anything, explore_all, hits, sql

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE verdict_account (id int PRIMARY KEY, balance int, updated_at timestamptz);
    CREATE TABLE verdict_cursor (at timestamptz);
    CREATE TABLE verdict_subscription (id int PRIMARY KEY, until timestamptz);
    CREATE TABLE recipes_label (id serial PRIMARY KEY, name text UNIQUE);
    CREATE TABLE recipes_note (
        id serial PRIMARY KEY, kind_id int, object_key text, content_type_id int, object_id text);
    CREATE TABLE recipes_visitor (id serial PRIMARY KEY, last_login timestamptz);
    CREATE TABLE recipes_mark (id serial PRIMARY KEY, label_id int)
"""


class Label(Unmanaged):
    name = models.TextField(unique=True)


class Note(Unmanaged):
    """Refers to an object by a GenericForeignKey, and as the log of Django's admin does."""

    kind = models.ForeignKey(ContentType, models.CASCADE, related_name="+")
    object_key = models.TextField()
    target = GenericForeignKey("kind", "object_key")
    content_type = models.ForeignKey(ContentType, models.CASCADE, related_name="+")
    object_id = models.TextField()


class Visitor(Unmanaged):
    last_login = models.DateTimeField(null=True)


class Box:
    def __init__(self, row: Counter) -> None:
        self.row = row

    def count(self) -> None:
        count(self.row)


def count(row: Counter) -> None:
    """Count with what the object holds, as a method of a model does."""
    row.hits += 1
    row.save()


def update(row: Any) -> None:
    """Count with what the object holds, and leave the object as it is."""
    Counter.objects.filter(pk=row.pk).update(hits=row.hits + 1)


def make(hits: int = 0) -> Counter:
    return Counter.objects.create(id=1, key="a", hits=hits)


def by_a_default(row: Counter) -> Any:
    def process(row: Counter = row) -> None:
        count(row)

    return process


def by_a_keyword_default(row: Counter) -> Any:
    def process(*, row: Counter = row) -> None:
        count(row)

    return process


def by_a_nested_function(row: Counter) -> Any:
    def inner() -> None:
        count(row)

    return lambda: inner()


async def count_in_async(row: Counter) -> None:
    await Counter.objects.filter(pk=row.pk).aupdate(hits=row.hits + 1)


def by_a_lazy_object(row: Counter) -> Any:
    request = RequestFactory().get("/")
    request.user = SimpleLazyObject(lambda: row)  # type: ignore[assignment]
    return lambda: update(request.user)


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a closure": lambda row: lambda: count(row),
    "a partial": lambda row: partial(count, row),
    "a keyword": lambda row: partial(count, row=row),
    "a default": by_a_default,
    "a keyword default": by_a_keyword_default,
    "a nested function": by_a_nested_function,
    "a method": lambda row: Box(row).count,
    "an attribute": lambda row: (lambda box: lambda: box.count())(Box(row)),
    "a list": lambda row: (lambda rows: lambda: count(rows[0]))([row]),
    "a namespace": lambda row: (lambda all_: lambda: count(all_.row))(SimpleNamespace(row=row)),
    "a dict": lambda row: (lambda rows: lambda: count(rows["a"]["b"]))({"a": {"b": row}}),
    "a queryset": lambda row: (lambda rows: lambda: count(rows[0]))(Counter.objects.all()),
    "a lazy object": by_a_lazy_object,
    "an async function": lambda row: async_to_sync(partial(count_in_async, row)),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_object_of_the_test_is_loaded_by_each_process(
    interleave: Interleave, holder: str
) -> None:
    row = make(7)
    with pytest.raises(AssertionError, match=r"counter.hits \(id = 1\) is 8\. One .* it is 9"):
        interleave(HOLDERS[holder](row))
    assert (row.hits, hits()) == (7, 7)


def test_an_object_that_setup_makes_is_loaded_by_each_process(interleave: Interleave) -> None:
    rows: dict[str, Counter] = {}

    def setup() -> None:
        rows["a"] = make()

    with pytest.raises(AssertionError, match=r"counter.hits \(id = 1\) is 1\. One .* it is 2"):
        interleave(lambda: count(rows["a"]), setup=setup)


KEPT: dict[str, Counter] = {}  # a variable of the module


def in_a_mock(row: Counter) -> Callable[[], Counter]:
    return mock.Mock(return_value=row)


def in_a_cache(row: Counter) -> Callable[[], Counter]:
    return functools.lru_cache(lambda: row)


def in_a_variable(row: Counter) -> Callable[[], Counter]:
    KEPT["row"] = row
    return lambda: KEPT["row"]


@pytest.mark.parametrize("replay", ["", "12"])
@pytest.mark.parametrize("keep", [in_a_mock, in_a_cache, in_a_variable])
def test_an_object_that_cannot_be_replaced_is_refused_or_named(
    interleave: Interleave, keep: Callable[[Counter], Callable[[], Counter]], replay: str
) -> None:
    """A replay says the same."""
    get = keep(make())
    named = "a Counter with the primary key 1, which the processes share: load it in the function"
    reads = partial(sql, "SELECT 1")
    assert named in interleave(lambda: [get().hits, reads()], replay=replay).limits
    assert named not in interleave(lambda: [get().pk, reads()], replay=replay).limits
    for process in (lambda: count(get()), lambda: get().delete()):
        with pytest.raises(InterleaveError, match=r"a Counter with the .* is saved or deleted by"):
            interleave(process, replay=replay)


def test_a_list_that_processes_fill_is_the_tests_own(interleave: Interleave) -> None:
    made: list[Counter] = []
    make()

    def process() -> None:
        made.append(Counter.objects.get(key="a"))

    interleave(process, invariant=lambda _: None)
    assert len(made) > 2


def test_an_object_whose_row_another_process_deletes(interleave: Interleave) -> None:
    row = make()
    interleave(lambda: Counter.objects.filter(pk=row.pk).delete())
    interleave(row.delete)


def test_an_object_without_a_row_is_refused(interleave: Interleave) -> None:
    row = Counter(id=3, key="c", hits=0)
    with pytest.raises(CannotExplore, match=r"^row is a Counter that is not saved, .* make it in"):
        interleave(lambda: row.save())


def test_an_object_with_changes_is_refused(interleave: Interleave) -> None:
    row = make()
    row.hits = 5
    with pytest.raises(CannotExplore, match=r"whose hits is 5, and 0 in the database. Each"):
        interleave(row.save)


def test_what_django_has_changed_in_a_row_is_no_change(interleave: Interleave) -> None:
    """A login of the test's client sets last_login, and not in the test's object."""
    row = make(7)
    row.hits = F("hits") + 1
    row.save()
    interleave(lambda: row.pk and sql("SELECT 1"))
    user = Visitor.objects.create()
    Visitor.objects.update(last_login=timezone.now())
    interleave(lambda: Visitor.objects.filter(pk=user.pk).exists())


ROW: Counter | None = None


def test_an_object_in_a_variable_of_the_module_is_refused(interleave: Interleave) -> None:
    global ROW
    ROW = make()
    try:
        with pytest.raises(CannotExplore, match=r"uses ROW, a Counter in a variable of the module"):
            interleave(lambda: ROW.delete() if ROW else None)
    finally:
        ROW = None


def set_up_accounts() -> None:
    sql("TRUNCATE verdict_account, verdict_cursor")
    sql("INSERT INTO verdict_account VALUES (1, 0, '2020-01-01')")
    sql("INSERT INTO verdict_cursor VALUES ('2020-01-02')")


def change_account() -> None:
    """Save with auto_now."""
    sql("SELECT balance FROM verdict_account WHERE id = 1")
    change = "UPDATE verdict_account SET balance = 9, updated_at = %s WHERE id = 1"
    sql(change, timezone.now())


def count_changes() -> int:
    ((last,),) = sql("SELECT at FROM verdict_cursor")
    now = timezone.now()
    ((number,),) = sql("SELECT count(*) FROM verdict_account WHERE updated_at > %s", last)
    sql("UPDATE verdict_cursor SET at = %s", now)
    return int(number)


def make_uuid7() -> uuid.UUID:
    milliseconds, rest = divmod(time.time_ns(), 10**6)
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | (rest * 4096 // 10**6) << 64 | 2 << 62)


CLOCKS: dict[str, Callable[[], Any]] = {
    "timestamptz": timezone.now,
    "numeric": time.time,
    "bigint": time.time_ns,
    "text": lambda: timezone.now().isoformat(),
    "jsonb": lambda: Jsonb({"at": timezone.now()}, dumps=DjangoJSONEncoder().encode),
    "uuid": make_uuid7,
}


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("kind", CLOCKS)
def test_a_change_that_is_stamped_before_a_query_and_committed_after_it(
    kind: str, reduce: bool
) -> None:
    now = CLOCKS[kind]
    sql(f"ALTER TABLE verdict_account ALTER updated_at TYPE {kind} USING NULL")
    sql(f"ALTER TABLE verdict_cursor ALTER at TYPE {kind} USING NULL")
    earlier, later = now(), now()

    def set_up_accounts() -> None:
        sql("TRUNCATE verdict_account, verdict_cursor")
        sql("INSERT INTO verdict_account VALUES (1, 0, %s)", earlier)
        sql("INSERT INTO verdict_cursor VALUES (%s)", later)

    def change_account() -> None:
        sql("SELECT balance FROM verdict_account WHERE id = 1")
        sql("UPDATE verdict_account SET balance = 9, updated_at = %s WHERE id = 1", now())

    def count_changes() -> int:
        sql("SELECT at FROM verdict_cursor")
        seen_at = now()
        last = "SELECT at FROM verdict_cursor"
        ((number,),) = sql(f"SELECT count(*) FROM verdict_account WHERE updated_at > ({last})")
        sql("UPDATE verdict_cursor SET at = %s", seen_at)
        return int(number)

    def counts_once(outcomes: list[Outcome]) -> str:
        numbers = [outcomes[1].returned, count_changes()]
        return "" if sum(map(int, numbers)) == 1 else f"counted {numbers}"

    found = explore_all(
        change_account, count_changes, setup=set_up_accounts, invariant=counts_once, reduce=reduce
    )
    assert found.violating
    assert len(found.orders) < found.schedules or not reduce


def test_times_that_nobody_compares_cost_few_orders() -> None:
    found = explore_all(change_account, change_account, setup=set_up_accounts, reduce=True)
    assert len(found.orders) < found.schedules / 2


def test_a_time_that_is_read_before_the_first_statement_is_a_limit() -> None:
    def change() -> None:
        sql("UPDATE verdict_account SET updated_at = %s WHERE id = 1", timezone.now())

    found = explore_all(change, count_changes, setup=set_up_accounts, reduce=True)
    assert "which process reads its clock first, before its first statement" in found.limits


MONTH = timedelta(days=30)


@pytest.mark.parametrize("is_atomic", [False, True])
def test_a_time_that_is_computed_from_now_is_compared(
    interleave: Interleave, is_atomic: bool
) -> None:
    """Two months are paid, and one is lost."""
    sql("INSERT INTO verdict_subscription VALUES (1, '2020-01-01')")
    lock = " FOR UPDATE" if is_atomic else ""

    @transaction.atomic
    def renew() -> None:
        ((until,),) = sql(f"SELECT until FROM verdict_subscription WHERE id = 1{lock}")
        until = max(until, timezone.now()) + MONTH
        sql("UPDATE verdict_subscription SET until = %s WHERE id = 1", until)

    if is_atomic:
        assert not [limit for limit in interleave(renew).limits if "clock" in limit]
    else:
        with pytest.raises(
            AssertionError, match=r"until \(id = 1\) is now \+ 30 days\. .* it is now \+ 60 days"
        ):
            interleave(renew)


def test_a_clock_that_stands_still_in_the_code_is_not_the_explorers() -> None:
    """freezegun sets variables of modules."""

    def process() -> None:
        with mock.patch("time.monotonic", return_value=time.monotonic() + 3600):
            counter.update_returning()

    explore_all(process, process).assert_safe()


LOCK = threading.Lock()
LOCKS = {"a": threading.RLock()}


def with_a_lock() -> None:
    with LOCK:
        counter.naive()


def with_an_acquisition() -> None:
    LOCKS["a"].acquire()
    try:
        counter.naive()
    finally:
        LOCKS["a"].release()


def reads_and_waits() -> None:
    """Which process gets the lock depends on the order of two reads."""
    counter.hits()
    with LOCK:
        counter.naive()


SEMAPHORE = threading.Semaphore()


def with_a_semaphore() -> None:
    with SEMAPHORE:
        counter.naive()


@pytest.mark.parametrize(
    "process", [with_a_lock, with_an_acquisition, reads_and_waits, with_a_semaphore]
)
def test_a_lock_of_python_is_waited_for(process: Callable[[], None]) -> None:
    """The processes of a server do not share it, and the result says so."""
    processes = [process, counter.naive] if process is with_an_acquisition else [process, process]
    found = explore_all(*processes, invariant=counter.expect_hits(2), reduce=True)
    assert bool(found.violating) is (process is with_an_acquisition)
    assert (LOCK_LIMIT in found.limits) is (process is not with_an_acquisition)


def test_three_processes_wait_for_a_lock_of_python() -> None:
    explore_all(*[with_a_lock] * 3, invariant=counter.expect_hits(3)).assert_safe()


def test_a_look_at_a_lock_leaves_it_as_it_was() -> None:
    lock = threading.Lock()
    assert [python_locks._is_held(lock), lock.locked()] == [False, False]
    with lock:
        assert [python_locks._is_held(lock), lock.locked()] == [True, True]


def test_a_lock_of_a_file_is_waited_for(tmp_path: Path) -> None:
    """The processes of a server share it."""

    def with_a_file() -> None:
        with (tmp_path / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            counter.naive()

    found = explore_all(with_a_file, with_a_file, invariant=counter.expect_hits(2))
    found.assert_safe()
    assert LOCK_LIMIT not in found.limits


@pytest.mark.parametrize("wait", ["queue", "event", "condition"])
def test_a_wait_for_what_another_process_gives(wait: str) -> None:
    given, event, condition = queue.Queue[int](), threading.Event(), threading.Condition()
    done: list[int] = []

    def give() -> None:
        counter.naive()
        given.put(1)
        event.set()
        with condition:
            done.append(1)
            condition.notify()

    def take() -> None:
        if wait == "queue":
            given.get()
        elif wait == "event":
            event.wait()
        else:
            with condition:
                condition.wait_for(lambda: done)
        counter.naive()

    def setup() -> None:
        counter.setup()
        event.clear()
        done.clear()
        given.queue.clear()

    found = explore_all(give, take, setup=setup, invariant=counter.expect_hits(2), reduce=True)
    found.assert_safe()
    assert LOCK_LIMIT in found.limits
    with pytest.raises(StepTimeout, match=r"take.*\n.*nobody may end the wait \(give an invariant"):
        explore_all(give, take, setup=setup, invariant=None, step_timeout=0.5)
    if wait == "queue":
        given.put(1)  # for the thread that is left


class RowHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'b'")


def test_a_handler_of_logging_that_writes_a_row_takes_no_lock() -> None:
    logger = logging.getLogger("verdicts")
    logger.addHandler(RowHandler())
    found = explore_all(*[partial(logger.error, "failed")] * 2, reduce=True)
    found.assert_safe()
    assert found.limits == ()


async def count_async() -> int:
    row = await Counter.objects.aget(key="a")
    row.hits += 1
    await row.asave()
    await sync_to_async(counter.update_returning)()
    first, second = await asyncio.gather(
        Counter.objects.acount(),
        Counter.objects.filter(key="b").acount(),
    )
    return first + second


def test_a_step_of_async_code_names_the_line_that_waits_for_it() -> None:
    (first, *others) = explore_all(
        async_to_sync(count_async), invariant=lambda _: "shown"
    ).violations
    assert not others
    lines = [(step.filename, step.lineno) for step in first.timeline if step.kind != "COMMIT"]
    of_coroutine = [
        line - count_async.__code__.co_firstlineno for file, line in lines if file == __file__
    ]
    assert of_coroutine == [1, 3, 5, 5]  # both of gather() are at its line
    assert {file for file, _ in lines} == {__file__, counter.__file__}


class Mark(Unmanaged):
    label = models.ForeignKey(Label, models.CASCADE, db_constraint=False, related_name="+")


def make_tag_and_note(own: str, *, refers_to_first: bool = False) -> str:
    """Make a tag that both make, whose loser uses an id up, and then one with a note on it."""
    Label.objects.bulk_create([Label(name="both")], ignore_conflicts=True)
    with transaction.atomic():
        tag = Label.objects.create(name=own)
        noted = Label.objects.order_by("-id")[0] if refers_to_first else tag
        kind = ContentType.objects.get_for_model(Label)
        Note.objects.create(target=noted, content_type=kind, object_id=str(noted.pk))
    return f"/tags/{tag.pk}/"


def test_ids_are_shifted_without_a_difference(interleave: Interleave) -> None:
    """In a GenericForeignKey, in a text log and in a returned address."""
    ContentType.objects.get_for_model(Label)
    found = interleave(*[partial(make_tag_and_note, own) for own in "ab"])
    assert not [limit for limit in found.limits if "clock or chance" in limit]
    wrong = [partial(make_tag_and_note, own, refers_to_first=True) for own in "ab"]
    with pytest.raises(AssertionError, match="as no serial order does"):
        interleave(*wrong)


def test_a_deletion_that_empties_a_cache_has_the_same_steps_each_time(
    interleave: Interleave,
) -> None:
    """As that of a Site does: before the next schedule the cache is filled again."""
    kind = ContentType.objects.get_for_model(Label).pk

    def delete() -> None:
        ContentType.objects.filter(pk=kind).delete()
        ContentType.objects.clear_cache()

    def look_up() -> int:
        sql("SELECT 1")
        return ContentType.objects.get_for_model(ContentType).pk

    assert interleave(delete, look_up, invariant=anything).schedules > 2


def test_a_foreign_key_without_a_constraint_is_one(interleave: Interleave) -> None:
    @transaction.atomic
    def mark(own: str) -> None:
        sql("INSERT INTO recipes_label (name) VALUES ('both') ON CONFLICT DO NOTHING")
        Mark.objects.create(label=Label.objects.create(name=own))

    interleave(*[partial(mark, own) for own in "ab"])
