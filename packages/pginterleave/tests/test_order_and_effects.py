"""Without an invariant: the order of new ids, and what processes do outside of rows and results."""

import functools
import io
import logging
import os
import queue
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core import mail
from django.db import OperationalError, transaction

from pginterleave import Exploration, NotProven, explore
from pginterleave.judging.effects import Effects
from pginterleave.judging.values import make_plain_value
from pginterleave.processes import watching
from pginterleave.pytest_plugin import Interleave

from . import counter
from .counter import Counter, Process, hits, sql, transact, update_returning, violation_of

pytestmark = pytest.mark.usefixtures("tables")

TABLES = """
    CREATE TABLE effect_revision (id serial PRIMARY KEY, text text, at timestamptz);
    CREATE TABLE effect_article (
        id int PRIMARY KEY, current int REFERENCES effect_revision, title text);
    CREATE TABLE effect_log (id serial PRIMARY KEY, entry jsonb);
    CREATE TABLE effect_tag (id serial PRIMARY KEY, name text UNIQUE);
    CREATE SEQUENCE effect_number
"""


def setup() -> None:
    sql("TRUNCATE effect_article, effect_revision, effect_log, effect_tag RESTART IDENTITY")
    sql("INSERT INTO effect_article VALUES (1, NULL, '')")
    sql("SELECT setval('effect_number', 1)")
    counter.setup()


def explore_effects(*processes: Process, **options: Any) -> Exploration:
    return explore(processes, **{"setup": setup, **options})


def insert(text: str) -> int:
    return int(sql("INSERT INTO effect_revision (text) VALUES (%s) RETURNING id", text)[0][0])


@transaction.atomic
def send(text: str, *, lock: bool, points: bool = False) -> None:
    """Insert a revision; with `points`, the article refers to it."""
    if lock:
        sql("SELECT 1 FROM effect_article WHERE id = 1 FOR UPDATE")
    new = insert(text)
    if points:
        sql("UPDATE effect_article SET current = %s WHERE id = 1", new)


def make_two_articles() -> None:
    setup()
    sql("INSERT INTO effect_article VALUES (2, NULL, '')")


DELETE = partial(sql, "DELETE FROM effect_article WHERE id = 2")


@pytest.mark.parametrize("others", [[], pytest.param([DELETE], marks=pytest.mark.big)])
def test_a_pointer_to_the_newest_row_is_compared(others: list[Process]) -> None:
    """The article may point to the first of two new revisions, as after no serial order."""
    senders = [partial(send, text, lock=False, points=True) for text in "ab"]
    found = explore_effects(*senders, *others, setup=make_two_articles)
    assert 0 < found.violating < found.schedules
    assert violation_of(found) == (
        "the new rows of effect_revision have their ids in an order that no serial order gives, "
        "and effect_article refers to one of them."
    )
    explore_effects(*[partial(send, text, lock=True, points=True) for text in "ab"]).assert_safe()


@transaction.atomic
def consume() -> list[str]:
    last = sql("SELECT current FROM effect_article WHERE id = 1 FOR UPDATE")[0][0]
    after = "SELECT id, text FROM effect_revision WHERE id > %s ORDER BY id"
    if new := sql(after, last or 0):
        sql("UPDATE effect_article SET current = %s WHERE id = 1", new[-1][0])
    return [text for _, text in new]


@pytest.mark.big
@pytest.mark.parametrize("lock", [False, True])
def test_a_consumer_may_pass_over_a_row_with_a_smaller_id(lock: bool) -> None:
    """It becomes visible later, and is never read."""
    senders = [partial(send, text, lock=lock) for text in "ab"]
    found = explore_effects(*senders, consume, max_schedules=2_000)
    assert found.complete
    assert bool(found.violating) is not lock


def test_the_order_of_ids_that_nothing_asks_for_is_a_limit() -> None:
    def inserts_two(text: str) -> None:
        insert(f"{text}1")
        insert(f"{text}2")

    found = explore_effects(partial(inserts_two, "a"), partial(inserts_two, "b"))
    found.assert_safe()
    limit = "the order of the new ids of effect_revision"
    assert limit in found.limits
    assert limit not in explore_effects(partial(insert, "a"), partial(insert, "b")).limits


@pytest.mark.parametrize(
    ("statement", "asks"),
    [
        ("SELECT max(id) FROM effect_revision", True),
        ('SELECT "t"."id" FROM "effect_revision" "t" ORDER BY "t"."id" DESC LIMIT 1', True),
        ("SELECT text FROM effect_revision WHERE id > 1", True),
        ("SELECT text FROM effect_revision ORDER BY id", False),
        ("SELECT max(id) FROM effect_revision WHERE text = 'a1'", False),
        ("SELECT text FROM effect_revision ORDER BY text LIMIT 1", False),
    ],
)
def test_which_statements_ask_for_the_order_of_ids(statement: str, asks: bool) -> None:
    """The first and the last row are of the same process, as after no serial order."""
    add = "INSERT INTO effect_revision (text) VALUES ('{}')"
    two, one = transact(add.format("a1"), add.format("a2")), transact(add.format("b"))
    found = explore_effects(two, one, partial(sql, statement))
    order = "ids in an order that no serial order gives"
    assert any(order in schedule.violation for schedule in found.violations) is asks


@pytest.mark.parametrize("way", ["SKIP LOCKED", "NOWAIT"])
@pytest.mark.parametrize("level", ["repeatable read", "read committed"])
def test_a_commit_between_a_snapshot_and_its_locks_is_a_limit(way: str, level: str) -> None:
    """PostgreSQL refuses the lock then, in no schedule."""
    free = "SELECT id FROM interleave_counter WHERE hits = 0 ORDER BY id LIMIT 1 FOR UPDATE"
    takes = transact(f"{free} {way}", "UPDATE interleave_counter SET hits = 1 WHERE id = 1")
    found = explore_effects(takes, takes, isolation_level=level, expected=OperationalError)
    named = any(limit.startswith("a serialization failure, if another") for limit in found.limits)
    assert named is (level == "repeatable read")


def test_python_before_the_first_statement_runs_in_turn_in_a_serial_order() -> None:
    """The clock of process 1 is read before process 2 has begun: 2, 1 is no serial order."""

    def inserts_now() -> None:
        sql("INSERT INTO effect_revision (at) VALUES (to_timestamp(%s))", time.time())

    def in_order(_: object) -> str:
        times = [at for (at,) in sql("SELECT at FROM effect_revision ORDER BY id")]
        return "" if times == sorted(times) else "a later row has an earlier time"

    found = explore_effects(inserts_now, inserts_now, invariant=in_order)
    assert found.violating
    assert found.serial_failure is None
    with pytest.raises(AssertionError, match="Run wholly one after the other, they hold"):
        found.assert_safe()


class Shop:
    @functools.cached_property
    def hits(self) -> int:
        return hits()


def test_a_cached_property_that_both_processes_use_may_query() -> None:
    shop = Shop()

    def forget() -> None:
        setup()
        vars(shop).clear()

    def counts() -> None:
        Counter.objects.filter(key="a").update(hits=shop.hits + 1)

    assert explore_effects(counts, counts, setup=forget).violating


def test_the_calls_of_a_mock_are_compared(interleave: Interleave) -> None:
    """A charge is no row: only a comparison of the calls shows that it happens twice."""
    setup()
    charge = Mock(name="charge")

    def pay(amount: int = 10) -> None:
        counter = Counter.objects.get(key="a")
        if not counter.hits:
            charge(amount)
            counter.hits = 1
            counter.save()

    twice = "the number of calls of charge is 2. One after the other, it is 1"
    with pytest.raises(AssertionError, match=twice):
        interleave(pay)
    with pytest.raises(
        AssertionError, match=r"Race: what also= returns is 2\. One after the other, it is 1\."
    ):
        interleave(pay, also=lambda: charge.call_count)
    with pytest.raises(AssertionError, match="end as no serial order does"):
        interleave(pay, also=lambda: charge.call_args_list)
    interleave(pay, also=lambda: None)


def test_a_mock_is_called_with_what_a_serial_order_calls_it_with(interleave: Interleave) -> None:
    """What it is called with is compared, new ids by their rows; a Mock of sleep() is not."""
    setup()
    notify, sleep = Mock(name="notify"), Mock(name="sleep")

    def add() -> None:
        sleep(time.time())
        notify(insert("a"), hits())
        update_returning()

    with pytest.raises(AssertionError, match="what notify is called with is"):
        interleave(add)

    @transaction.atomic
    def add_with_lock() -> None:
        sql("SELECT 1 FROM interleave_counter WHERE key = 'a' FOR UPDATE")
        add()

    interleave(add_with_lock)


def test_a_refused_process_calls_a_mock_when_it_runs_once_more(interleave: Interleave) -> None:
    setup()
    charge = Mock(name="charge")

    @transaction.atomic
    def pay() -> None:
        sql("SELECT 1 FROM interleave_counter WHERE key = 'a' FOR UPDATE NOWAIT")
        charge(10)

    interleave(pay, expected=OperationalError)


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (3, 5, 2),
        (1.5, 2, 0.5),
        (False, True, True),
        (["a"], ["a", "b"], ["b"]),
        (["a"], ["b"], ["b"]),
        ("x", "y", "y"),
        (None, 1, 1),
    ],
)
def test_what_also_returns_is_compared_by_what_was_added(
    before: object, after: object, value: object
) -> None:
    values = iter([before, after])
    effects = Effects(lambda: next(values), {})
    effects.begin()
    assert effects.collect_values()["what also= returns"] == make_plain_value(value)


@pytest.mark.parametrize("name", ["charge", "time.sleep", "now", "time", "monotonic"])
def test_the_calls_of_a_mock_count_unless_it_stands_for_a_clock(name: str) -> None:
    effects, mock = Effects(None, {}), Mock(name=name)
    for number in (1, 2):  # schedules
        effects.begin()
        effects.mocks.note(mock)
        mock(number)
        values = effects.collect_values()
        called = values.get(f"the number of calls of {name}")
        assert called == (make_plain_value(1) if name == "charge" else None)


def test_a_number_of_calls_is_no_id(interleave: Interleave) -> None:
    """Two new rows have the ids 1 and 2, and are equal otherwise."""
    setup()
    charge = Mock(name="charge")

    def pay() -> None:
        insert("a")
        if not hits():
            charge()
            sql("UPDATE interleave_counter SET hits = 1 WHERE key = 'a'")

    with pytest.raises(AssertionError, match=r"what also= returns is 2\. One after .* it is 1"):
        interleave(pay, also=lambda: charge.call_count)


def test_a_returned_number_that_may_be_an_id_is_a_limit(interleave: Interleave) -> None:
    setup()

    def add(own: str) -> int:
        sql("INSERT INTO effect_tag (name) VALUES ('both') ON CONFLICT DO NOTHING")
        return int(sql("INSERT INTO effect_tag (name) VALUES (%s) RETURNING id", own)[0][0])

    limit = "whether a returned number is the id of a new row of effect_tag"
    assert limit in interleave(partial(add, "a"), partial(add, "b")).limits
    limits = interleave(partial(insert, "a"), partial(insert, "b")).limits
    assert not [limit for limit in limits if "returned number" in limit]


@pytest.mark.parametrize(
    "value",
    ["%s", "'post-' || %s", "'T-' || lpad(%s::text, 6, '0')", "jsonb_build_object('id', %s)"],
)
def test_a_violation_says_that_only_ids_are_shifted(interleave: Interleave, value: str) -> None:
    """The column is no foreign key, so a number in it may be anything."""
    setup()

    def add(own: str) -> None:
        sql("INSERT INTO effect_tag (name) VALUES ('both') ON CONFLICT DO NOTHING")
        new = sql("INSERT INTO effect_tag (name) VALUES (%s) RETURNING id", own)
        sql(f"INSERT INTO effect_revision (text) VALUES ({value}::text)", new[0][0])

    with pytest.raises(AssertionError, match="Only numbers differ that may be ids of new rows of "):
        interleave(partial(add, "a"), partial(add, "b"))
    with pytest.raises(AssertionError) as raised:
        interleave(counter.naive)
    assert "Only numbers" not in str(raised.value)


def test_mails_are_compared_by_their_recipients(interleave: Interleave) -> None:
    setup()
    mail.outbox = []

    def welcome() -> None:
        if not hits():
            sql("UPDATE interleave_counter SET hits = 1 WHERE key = 'a'")
            mail.outbox.append(mail.EmailMessage("Welcome", to=["a@example.org"]))

    twice = (
        "Race: the list of the mails' recipients is 'a@example.org; a@example.org'. One after the "
        "other, it is 'a@example.org'."
    )
    with pytest.raises(AssertionError, match=twice):
        interleave(welcome)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Return what is open before an exploration."""
    reader, writer = os.pipe()
    with (
        (tmp_path / "text").open("w") as text,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connected,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        os.fdopen(reader, "rb"),
        os.fdopen(writer, "wb") as pipe,
        ThreadPoolExecutor(1) as pool,
    ):
        yield SimpleNamespace(
            text=text,
            server=server,
            connected=connected,
            datagrams=datagrams,
            pipe=pipe,
            pool=pool,
            queue=queue.Queue(),
        )


def send_to_nobody(_: object) -> None:
    """As the event loop of asyncio tries to wake itself up when it is closed."""
    with socket.socket() as sender:
        pass
    with suppress(OSError):
        sender.send(b"x")


FILE, COMPARE = ", which a process writes", ": compare it with also="
SENT = "what a process sends to 127.0.0.1:"
THREAD = f"what a thread does that a process starts{COMPARE}"


@pytest.mark.parametrize(
    ("effect", "limit"),
    [
        (lambda opened: opened.text.write("x"), f"text{FILE}"),
        (lambda opened: print("x", file=opened.text), f"text{FILE}"),
        (lambda opened: os.write(opened.text.fileno(), b"x"), f"text{FILE}"),
        (lambda opened: opened.pipe.write(b"x"), f"a pipe{FILE}"),
        (lambda opened: os.write(opened.pipe.fileno(), b"x"), f"to a pipe{COMPARE}"),
        (lambda opened: os.write(opened.connected.fileno(), b"x"), f"{SENT}port{COMPARE}"),
        (lambda opened: opened.connected.sendall(b"x"), f"{SENT}port{COMPARE}"),
        (send_to_nobody, ""),
        (lambda opened: opened.datagrams.sendto(b"x", ("127.0.0.1", 9)), f"{SENT}9{COMPARE}"),
        (
            lambda opened: socket.create_connection(opened.server.getsockname()).close(),
            f"{SENT}port{COMPARE}",
        ),
        (lambda opened: opened.queue.put(1), f"what a process puts into a Queue{COMPARE}"),
        (lambda opened: threading.Thread(target=bool).start(), THREAD),
        (lambda opened: opened.pool.submit(bool).result(), THREAD),
        (lambda opened: async_to_sync(sync_to_async(bool, thread_sensitive=False))(), ""),
        (lambda opened: async_to_sync(sync_to_async(lambda: opened.pool.submit(bool)))(), THREAD),
        (lambda opened: logging.getLogger().error("x"), ""),
    ],
)
def test_what_goes_to_something_that_is_open_is_named(
    opened: SimpleNamespace, effect: Callable[[Any], object], limit: str
) -> None:
    """A pool connects before the exploration. A log line and asgiref's threads are no effects."""

    def acts() -> None:
        if not hits():
            effect(opened)
            update_returning()

    found = explore_effects(acts, acts)
    limits = [each for each in found.limits if FILE in each or COMPARE in each]
    assert bool(limits) is bool(limit), found
    limit = limit.replace(":port", f":{opened.server.getsockname()[1]}")
    assert any(each.endswith(limit) for each in limits or [""])


def fork(_: object) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def send_by_tls(opened: SimpleNamespace) -> None:
    context = ssl.create_default_context()
    options: dict[str, Any] = {"server_hostname": "a", "do_handshake_on_connect": False}
    with context.wrap_socket(opened.connected, **options) as sender:
        sender.settimeout(0)
        sender.send(b"x")


ADDRESS = ("127.0.0.1", 9)


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize(
    ("use", "noted"),
    [
        (lambda opened: opened.connected.sendmsg([b"x"]), ("effect", SENT)),
        (lambda opened: opened.connected.send(b"x"), ("effect", SENT)),
        (lambda opened: opened.datagrams.sendmsg([b"x"], [], 0, ADDRESS), ("effect", f"{SENT}9")),
        (lambda opened: opened.datagrams.connect(ADDRESS), ("effect", f"{SENT}9")),
        (send_by_tls, ("effect", SENT)),
        (fork, ("program", "a fork")),
        (lambda _: os.system("true"), ("program", "true")),
        (
            lambda _: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
            ("program", "/bin/true"),
        ),
        *(
            (lambda opened, mode=mode: Path(opened.text.name).open(mode).close(), ("file", "/"))
            for mode in ("w", "a", "r+b")
        ),
        (lambda opened: Path(opened.text.name).open().close(), None),
    ],
)
def test_each_way_to_send_to_start_and_to_open_is_noted(
    opened: SimpleNamespace, use: Callable[[Any], object], noted: tuple[str, str] | None
) -> None:
    notes: list[tuple[str, str]] = []
    with watching.watch(lambda kind, name: notes.append((kind, str(name)))), suppress(OSError):
        use(opened)
    assert [kind for kind, _ in notes][:1] == [kind for kind, _ in filter(None, [noted])]
    assert not noted or notes[0][1].startswith(noted[1])


def test_a_handler_of_logging_keeps_its_filter() -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.addFilter(lambda record: record.levelno > logging.INFO)
    with watching.watch(lambda *_: None):
        for level in (logging.INFO, logging.ERROR):
            record = logging.LogRecord("shop", level, "shop.py", 1, f"{level}", None, None)
            assert bool(handler.handle(record)) is (level == logging.ERROR)
    assert lines.getvalue() == f"{logging.ERROR}\n"


@pytest.mark.parametrize("kind", ["text", "pipe"])
def test_what_the_test_runner_has_open_is_no_effect(
    opened: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As in `pytest --numprocesses=2 >report.txt`: another process writes both meanwhile."""
    file = getattr(opened, kind)
    monkeypatch.setitem(watching.OPEN_AT_START, 1_000_000, os.fstat(file.fileno()))
    found = explore_effects(lambda: file.write("x" if kind == "text" else b"x"))
    assert not any(FILE in limit for limit in found.limits)


def test_a_file_is_watched_though_a_descriptor_of_the_terminal_was_closed(
    opened: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As standard input in `pytest -s <&-`: another file gets its descriptor."""
    monkeypatch.delitem(watching.OPEN_AT_START, 0, raising=False)
    kept = os.dup(0)
    try:
        os.dup2(opened.text.fileno(), 0)
        found = explore_effects(lambda: opened.text.write("x"))
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert any(FILE in limit for limit in found.limits)


def test_a_program_is_named_and_proves_nothing() -> None:
    """It may write to the database, too."""

    def prints() -> None:
        hits()
        subprocess.run([sys.executable, "-c", ""], check=True)

    found = explore_effects(prints, hits)
    assert f"what the program {sys.executable!r} does: compare it with also=" in found.limits
    (program,) = found.unobserved
    assert program.startswith(f"a program, {sys.executable!r} at ")
    assert "prints" in program
    with pytest.raises(NotProven, match="sent past the explorer"):
        found.assert_safe()


def test_a_notification_is_named() -> None:
    def notifies() -> None:
        if not hits():
            sql("NOTIFY paid; UPDATE interleave_counter SET hits = 1 WHERE key = 'a'")

    assert "the notifications that NOTIFY sends" in explore_effects(notifies, notifies).limits


def test_a_value_that_the_clock_sets_in_part_is_named() -> None:
    """Both count the same number of rows; the time in the value hides it."""

    def logs() -> None:
        number = sql("SELECT count(*) FROM effect_log")[0][0]
        entry = f'{{"at": {time.time()}, "number": {number + 1}}}'
        sql("INSERT INTO effect_log (entry) VALUES (%s)", entry)

    found = explore_effects(logs, logs)
    assert found.violating or (
        "the value of effect_log.entry, which clock or chance sets" in found.limits
    )


@functools.lru_cache
def cached_hits() -> int:
    return hits()


def test_a_cache_that_is_cleared_and_filled_again_is_named() -> None:
    """Afterwards its counts are the same as before."""

    def warm() -> None:
        setup()
        cached_hits.cache_clear()
        cached_hits()

    def write() -> None:
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE key = 'a'")
        cached_hits.cache_clear()

    name = "the cache of cached_hits, which the processes of a server do not share"
    assert name in explore_effects(write, cached_hits, setup=warm).limits
    assert name not in explore_effects(hits, hits, setup=warm).limits


def test_a_sequence_that_is_a_counter_is_compared() -> None:
    def counts() -> None:
        (last,) = sql("SELECT last_value FROM effect_number")[0]
        sql("SELECT setval('effect_number', %s)", last + 1)

    found = explore_effects(counts, counts)
    violation = "the sequence effect_number is at 2. One after the other, it is at 3."
    assert violation in violation_of(found)
    explore_effects(*[partial(sql, "SELECT nextval('effect_number')")] * 2).assert_safe()
