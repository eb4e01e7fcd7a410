"""Changes of a session end with the schedule; no exploration leaves a session or a thread."""

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction

from pginterleave import InterleaveError, Outcome, StepTimeout

from . import counter
from .counter import all_outcomes, explore_all, lock, sql, transact

pytestmark = pytest.mark.usefixtures("nothing_is_left")

STATE = """
    SET work_mem = '1MB';
    CREATE TEMP TABLE left_over (id int);
    PREPARE left_over AS SELECT 1;
    DECLARE left_over CURSOR WITH HOLD FOR SELECT 1;
    SELECT nextval('left_over_sequence');
    SELECT pg_try_advisory_lock(7), count(*) FROM pg_locks WHERE locktype = 'advisory';
    SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE;
    SET ROLE pg_monitor;
    SET SESSION AUTHORIZATION pg_monitor
"""


@pytest.mark.parametrize("more", ["", ";LISTEN left_over"])
def test_the_state_of_a_session_does_not_reach_the_next_schedule(more: str) -> None:
    """The connection is kept, but after LISTEN."""
    sql("CREATE SEQUENCE left_over_sequence OWNED BY interleave_counter.id")  # dropped with it
    probe = (
        "SELECT current_setting('work_mem'), current_setting('TimeZone'), current_user,"
        " current_setting('default_transaction_isolation'),"
        " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),"
        " (SELECT count(*) FROM pg_listening_channels())"
    )

    def process() -> list[Any]:
        before = sql(probe)
        with pytest.raises(DatabaseError, match="lastval is not yet defined"):
            sql("SELECT lastval()")
        for statement in (STATE + more).split(";"):
            sql(statement)
        return before

    expected = sql(probe)
    runs = all_outcomes(process, counter.hits)
    # Its steps, with three COMMITs and CLOSE, and one SELECT anywhere between them.
    assert len(runs) == 16 + bool(more)
    for outcomes in runs.values():
        assert outcomes[0].raised is None
        assert outcomes[0].returned == expected


def test_no_timeout_of_the_server_ends_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    known = "FROM pg_settings WHERE name IN ('transaction_timeout', 'idle_session_timeout')"
    names = sql(f"SELECT name {known}")
    given = " ".join(f"-c {name}=9s" for (name,) in names)
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", given)
    runs = all_outcomes(partial(sql, f"SELECT setting {known}"), counter.hits)
    assert len(runs) > 1  # so RESET ALL between two schedules keeps it
    assert all(each[0].returned == [("0",)] * len(names) for each in runs.values())


def test_hooks_and_wrappers_do_not_reach_the_next_schedule() -> None:
    called: list[str] = []

    def wrapper(execute: Callable[..., Any], *args: Any) -> Any:
        called.append("wrapper")
        return execute(*args)

    def process() -> None:
        transaction.atomic().__enter__()
        transaction.on_commit(lambda: called.append("hook"))
        counter.hits()
        connection.execute_wrappers.append(wrapper)

    runs = all_outcomes(process, counter.naive)
    assert len(runs) == 10
    assert all(outcome.raised is None for outcomes in runs.values() for outcome in outcomes)
    assert called == []


def held_by_a_copy() -> Any:
    copy = connection.copy()
    with copy.cursor() as cursor:
        cursor.execute("BEGIN; UPDATE interleave_counter SET hits = 5 WHERE id = 1")
    return copy


def test_a_copy_of_the_connection_ends_with_its_process() -> None:
    """A test keeps it, and the setup of the next schedule needs its row."""
    kept = []

    def process() -> None:
        kept.append(held_by_a_copy())
        sql("SELECT 1")

    found = explore_all(process, counter.hits)
    assert (found.schedules, found.complete) == (2, False)
    assert "by a connection that the thread 'process 1' has opened" in str(found)


def test_a_process_that_waits_for_its_own_copy() -> None:
    def process() -> None:
        copy = held_by_a_copy()
        counter.update_returning()
        copy.close()

    message = r"Process 1 has sent .UPDATE .* waits for session \d+, which belongs to no process"
    with pytest.raises(StepTimeout, match=message):
        all_outcomes(process, step_timeout=0.5)


def test_a_session_that_a_process_closes_holds_no_lock_after_that_step() -> None:
    """PostgreSQL first drops 100 temporary tables, which takes long, and then releases locks."""

    def lock_and_close() -> None:
        transact(
            "DO $$ BEGIN FOR i IN 1..100 LOOP"
            " EXECUTE format('CREATE TEMP TABLE t%s (id int PRIMARY KEY)', i); END LOOP; END $$",
            "SELECT pg_advisory_lock(1)",
        )()
        connection.close()

    try_lock = partial(sql, "SELECT pg_try_advisory_xact_lock(1)")
    runs = all_outcomes(lock_and_close, try_lock)
    assert len(runs) == 11  # if process 2 has the lock, process 1 waits
    refused = [order for order, outcomes in runs.items() if outcomes[1].returned == [(False,)]]
    assert {*refused} == {"112112", "112121", "112211", "111212", "111221"}


def test_a_lock_of_the_session_is_released_in_a_step() -> None:
    def hold() -> None:
        sql("SELECT pg_advisory_lock(1)")
        counter.update_returning()

    found = explore_all(hold, hold, invariant=counter.expect_hits(2))
    one_waits = {"11112222", "11121222", "11211222", "12111222"}
    orders = one_waits | {each.translate({49: 50, 50: 49}) for each in one_waits}
    assert (found.violating, set(found.orders)) == (0, orders)
    timeline = counter.replay("12111222", hold, hold).timeline
    assert (timeline[1].waited_for, timeline[1].until) == ((1,), 5)
    assert timeline[4].kind == "CLOSE"


@pytest.mark.parametrize(
    ("level", "lost", "refused"),
    [("", 12, 0), ("read committed", 12, 0), ("Repeatable Read", 0, 12), ("serializable", 0, 12)],
)
def test_the_isolation_level_is_that_of_the_processes(level: str, lost: int, refused: int) -> None:
    refusals: list[str] = []

    def nothing_is_lost(outcomes: list[Outcome]) -> str:
        failed = [str(outcome.raised) for outcome in outcomes if outcome.raised]
        refusals.extend(failed)
        return "" if counter.hits() == 2 - len(failed) else "lost"

    pair = [counter.atomic_only] * 2
    found = explore_all(*pair, invariant=nothing_is_lost, isolation_level=level)
    assert (found.violating, len(refusals)) == (lost, refused)
    assert all("could not serialize access" in each for each in refusals)
    assert not sql("SELECT 1 WHERE current_setting('transaction_isolation') != 'read committed'")


WAITING = (
    "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE NOT granted AND locktype = 'transactionid' AND datname = current_database()"
)


@pytest.mark.parametrize(
    ("part", "note"), [("setup", "in setup"), ("invariant", "schedule 111222")]
)
def test_nothing_is_left_after_an_error_and_it_says_where(part: str, note: str) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        all_outcomes(counter.atomic_only, counter.atomic_only, **{part: lambda *outcomes: 1 / 0})
    assert note in raised.value.__notes__[0]


def test_nothing_is_left_after_an_interrupted_schedule() -> None:
    """Ctrl-C comes while process 1 is in a transaction and process 2 waits for its lock."""
    strikes = iter(["", "", KeyboardInterrupt])

    def strike() -> None:
        if next(strikes) is KeyboardInterrupt:
            assert len(sql(WAITING)) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        counter.replay("112122", *[counter.select_for_update] * 2, observe=strike)


def spin() -> None:
    counter.hits()
    while True:
        pass


def test_a_process_that_hangs_in_python_is_named_with_its_line() -> None:
    """Process 2 is in a transaction then, and process 1 never reaches its next step."""
    with pytest.raises(StepTimeout) as raised:
        all_outcomes(spin, counter.select_for_update, step_timeout=0.5)
    line = spin.__code__.co_firstlineno + 2
    place = rf"{re.escape(__file__)}:({line}|{line + 1}) \(spin\)"
    assert re.search(rf"after '1'. Process 1 is in Python at {place}", str(raised.value))
    assert "0.5 seconds" in str(raised.value)


def test_a_thread_that_cannot_be_stopped_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits in C for a lock that only the test releases."""
    monkeypatch.setattr("pginterleave.processes.control.Control.close_timeout", 0.1)
    gate = threading.Lock()
    gate.acquire()

    def hang() -> None:
        counter.hits()
        with gate:
            counter.hits()

    line = r"Process 1 is in Python at .* \(hang\): with gate:"
    with pytest.raises(StepTimeout, match=line) as raised:
        all_outcomes(hang, step_timeout=0.5)
    assert "The thread of process 1 could not be stopped" in raised.value.__notes__[0]
    (thread,) = [each for each in threading.enumerate() if each.name == "process 1"]
    gate.release()
    thread.join()


def test_a_process_that_hangs_in_the_database_is_named_with_its_statement() -> None:
    with pytest.raises(StepTimeout, match=r"Process 1 has sent 'SELECT pg_sleep\(60\)', at .*sql"):
        all_outcomes(partial(sql, "SELECT pg_sleep(60)"), counter.naive, step_timeout=0.5)


def test_a_retry_loop_without_an_end_is_ended_though_it_swallows_exceptions() -> None:
    """`except Exception` does not catch the end."""
    caught: list[Exception] = []

    def retry() -> None:
        while True:
            try:
                counter.hits()
            except Exception as error:
                caught.append(error)

    message = "max_steps=9; a loop may never end. Process 1 is about to send 'SELECT"
    with pytest.raises(InterleaveError, match=message) as raised:
        all_outcomes(retry, retry, max_steps=9)
    assert caught == []
    assert not hasattr(raised.value, "__notes__")  # which would admit that a thread is left


def test_a_process_with_a_killed_session_has_an_outcome() -> None:
    """Process 2 ends the session of process 1 before, between or after its steps."""
    kill = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'interleave process 1' AND datname = current_database()"
    )
    runs = all_outcomes(counter.atomic_only, partial(sql, kill))
    assert sorted(runs) == ["1112", "1121", "121", "21"]
    assert runs["1112"][0].raised is None
    failed = [outcomes[0].raised for order, outcomes in runs.items() if order != "1112"]
    assert all(isinstance(error, DatabaseError) for error in failed)


def test_a_process_that_cannot_connect_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = connections.settings["default"] | {"OPTIONS": {"application_name": "x" * 5}}
    monkeypatch.setitem(settings, "PORT", "1")
    monkeypatch.setattr(connections["default"], "settings_dict", settings)
    with pytest.raises(Exception, match=r"Process [12] cannot go on"):
        all_outcomes(counter.naive, counter.naive)


def test_observe_does_not_wait_for_ever() -> None:
    """It waits for a lock of a process that continues only after the observation."""
    settings = "SELECT name, setting FROM pg_settings ORDER BY name"
    before = sql(settings)
    with pytest.raises(DatabaseError, match="lock timeout") as raised:
        all_outcomes(partial(lock, 1), observe=partial(lock, 1), step_timeout=0.5)
    raised_in, doing = raised.value.__notes__
    assert raised_in == "Raised in observe."
    assert doing.startswith("Process 1 is about to send 'COMMIT'")
    assert sql(settings) == before
