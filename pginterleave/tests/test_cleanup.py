"""However an exploration ends, no session, lock or thread is left behind."""

import inspect
import re
import threading
from functools import partial

import pytest
from django.db import DatabaseError, connections, transaction

from pginterleave import InterleaveError, StepTimeout

from . import counter
from .counter import all_outcomes, explored, lock, sql

pytestmark = pytest.mark.usefixtures("nothing_is_left")

WAITING = (
    "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE NOT granted AND locktype = 'transactionid' AND datname = current_database()"
)


@pytest.mark.parametrize(
    ("part", "note"), [("setup", "in setup"), ("invariant", "schedule 111222")]
)
def test_after_an_error_which_says_when_it_was_raised(part: str, note: str) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        all_outcomes(counter.atomic_only, counter.atomic_only, **{part: lambda *outcomes: 1 / 0})
    assert note in raised.value.__notes__[0]


def test_after_an_interruption_in_the_middle_of_a_schedule() -> None:
    """Ctrl-C is struck while process 1 is in a transaction and process 2 waits for its lock."""
    strikes = iter(["", "", KeyboardInterrupt])

    def strike() -> None:
        if next(strikes) is KeyboardInterrupt:
            assert len(sql(WAITING)) == 1
            raise KeyboardInterrupt

    found = explored(*[counter.select_for_update] * 2)
    with pytest.raises(KeyboardInterrupt):
        found.replay("112122", observe=strike)


def spin() -> None:
    counter.hits()
    while True:
        pass


def test_a_process_that_hangs_in_python_is_named_with_its_line() -> None:
    """Process 2 is in a transaction at that time, and process 1 never comes to its next step."""
    with pytest.raises(StepTimeout) as raised:
        all_outcomes(spin, counter.select_for_update, step_timeout=0.5)
    line = inspect.getsourcelines(spin)[1] + 3
    place = re.escape(f"{__file__}:{line}") + "|" + re.escape(f"{__file__}:{line - 1}")
    assert re.search(rf"after '1'. Process 1 is in Python at ({place}) \(spin\)", str(raised.value))
    assert "0.5 seconds" in str(raised.value)


def test_a_thread_that_cannot_be_stopped_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits in C for something that only the test will give."""
    monkeypatch.setattr("pginterleave.control.Control.close_timeout", 0.1)
    gate = threading.Lock()
    gate.acquire()

    def hang() -> None:
        counter.hits()
        with gate:
            counter.hits()

    with pytest.raises(
        StepTimeout, match=r"Process 1 is in Python at .* \(hang\): with gate:"
    ) as raised:
        all_outcomes(hang, step_timeout=0.5)
    assert "The thread of process 1 could not be stopped" in raised.value.__notes__[0]
    (thread,) = [each for each in threading.enumerate() if each.name == "process 1"]
    gate.release()
    thread.join()


def test_a_process_that_hangs_in_the_database_is_named_with_its_statement() -> None:
    with pytest.raises(StepTimeout, match=r"Process 1 has sent 'SELECT pg_sleep\(60\)', at .*sql"):
        all_outcomes(partial(sql, "SELECT pg_sleep(60)"), counter.naive, step_timeout=0.5)


def test_a_retry_loop_without_an_end_is_ended_though_it_swallows_exceptions() -> None:
    """`except Exception` sees nothing; a bare one does, again and again, and holds a lock."""
    caught: list[Exception] = []

    def retry() -> None:
        while True:
            try:
                counter.hits()
            except Exception as error:
                caught.append(error)

    def retry_bare() -> None:
        while True:
            try:
                with transaction.atomic():
                    counter.select_for_update()
                    counter.naive()
            except:  # noqa: E722
                pass

    message = "max_steps=9; a loop may never end. Process 1 is about to send 'UPDATE"
    with pytest.raises(InterleaveError, match=message) as raised:
        all_outcomes(retry_bare, retry, max_steps=9)
    assert caught == []
    assert not hasattr(raised.value, "__notes__")  # which would admit that a thread is left


def test_a_process_killed_in_the_database_has_an_outcome_and_goes_on_afterwards() -> None:
    """Process 2 ends the session of process 1, which may be before, in or after its steps."""
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
    """For a lock of a process, which goes on only when the observation has ended."""
    before = sql("SHOW synchronous_commit")
    sql("SET lock_timeout = 0")
    try:
        with pytest.raises(DatabaseError, match="lock timeout") as raised:
            all_outcomes(partial(lock, 1), observe=partial(lock, 1), step_timeout=0.5)
        raised_in, doing = raised.value.__notes__
        assert raised_in == "Raised in observe."
        assert doing.startswith("Process 1 is about to send 'COMMIT'")
        assert sql("SHOW lock_timeout") == [("0",)]
        assert sql("SHOW synchronous_commit") == before
    finally:
        sql("RESET lock_timeout")
