"""What a process does to its session does not reach the next schedule."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from pginterleave import Outcome, StepTimeout

from . import counter
from .counter import all_outcomes, explored, sql

pytestmark = pytest.mark.usefixtures("nothing_is_left")

STATE = """
    SET work_mem = '1MB';
    CREATE TEMP TABLE left_over (id int);
    PREPARE left_over AS SELECT 1;
    DECLARE left_over CURSOR WITH HOLD FOR SELECT 1;
    LISTEN left_over;
    SELECT pg_try_advisory_lock(7), count(*) FROM pg_locks WHERE locktype = 'advisory';
    SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE;
    SET ROLE pg_monitor
"""


def test_the_state_of_a_session_does_not_reach_the_next_schedule() -> None:
    probe = (
        "SELECT current_setting('work_mem'), current_setting('TimeZone'), current_user,"
        " current_setting('default_transaction_isolation'),"
        " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),"
        " (SELECT count(*) FROM pg_listening_channels())"
    )

    def process() -> list[Any]:
        before = sql(probe)
        for statement in STATE.split(";"):
            sql(statement)
        return before

    expected = sql(probe)
    runs = all_outcomes(process, counter.hits)
    # Its steps, with three COMMITs and CLOSE, and one SELECT anywhere between them.
    assert len(runs) == 14
    for outcomes in runs.values():
        assert outcomes[0].raised is None
        assert outcomes[0].returned == expected


def test_no_timeout_of_the_server_ends_a_session_that_stands_at_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = sql(
        "SELECT name FROM pg_settings WHERE name IN ('transaction_timeout', 'idle_session_timeout')"
    )
    given = " ".join(f"-c {name}=9s" for (name,) in names)
    options = connection.settings_dict["OPTIONS"] | {"options": given}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)

    def shown() -> list[Any]:
        return [sql(f"SHOW {name}") for (name,) in names]

    runs = all_outcomes(
        shown, counter.hits
    )  # more than one schedule: it is so again after RESET ALL
    assert len(runs) > 1
    assert all(each[0].returned == [[("0",)]] * len(names) for each in runs.values())


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
    """Lock row 1 by a copy of the connection, and return the copy."""
    copy = connection.copy()
    with copy.cursor() as cursor:
        cursor.execute("BEGIN; UPDATE interleave_counter SET hits = 5 WHERE id = 1")
    return copy


def test_a_copy_of_the_connection_ends_with_its_process() -> None:
    """Though it is kept, and the setup of the next schedule wants its row."""
    kept = []

    def process() -> None:
        kept.append(held_by_a_copy())
        sql("SELECT 1")

    found = explored(process, counter.hits)
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
    """PostgreSQL drops temporary tables before it releases locks, which takes a while here."""

    def lock_and_close() -> None:
        sql(
            "DO $$ BEGIN FOR i IN 1..100 LOOP"
            " EXECUTE format('CREATE TEMP TABLE t%s (id int PRIMARY KEY)', i); END LOOP; END $$"
        )
        sql("SELECT pg_advisory_lock(1)")
        connection.close()

    def try_lock() -> bool:
        return bool(sql("SELECT pg_try_advisory_xact_lock(1)")[0][0])

    runs = all_outcomes(lock_and_close, try_lock, split_autocommit=False)
    assert {order: outcomes[1].returned for order, outcomes in runs.items()} == {
        "1112": True,
        "1121": False,
        "1211": True,
        "2111": True,
    }


def test_a_lock_of_the_session_is_released_in_a_step() -> None:
    def hold() -> None:
        sql("SELECT pg_advisory_lock(1)")
        counter.update_returning()

    found = explored(hold, hold, invariant=counter.counted(2))
    one_waits = {"11112222", "11121222", "11211222", "12111222"}
    orders = one_waits | {each.translate({49: 50, 50: 49}) for each in one_waits}
    assert (found.violating, set(found.orders)) == (0, orders)
    timeline = found.replay("12111222").timeline
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

    options = {"invariant": nothing_is_lost, "isolation_level": level}
    found = explored(*[counter.atomic_only] * 2, **options)
    assert (found.violating, len(refusals)) == (lost, refused)
    assert all("could not serialize access" in each for each in refusals)
    assert not sql("SELECT 1 WHERE current_setting('transaction_isolation') != 'read committed'")
