"""A schedule is replayed from its written form, and the timeline says what happened."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from pginterleave import ImpossibleSchedule, Schedule, explore, run_schedule

from . import counter
from .counter import Counter, counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")


def run(order: str, *processes: Callable[[], object], **options: Any) -> Schedule:
    return run_schedule(
        order, processes, setup=counter.setup, invariant=counter.counted(2), **options
    )


def test_a_replay_runs_the_steps_in_the_written_order() -> None:
    """Both read 0, both write 1."""
    schedule = run("1212", counter.naive, counter.naive, observe=counter.hits)
    assert schedule.order == "1212"
    assert schedule.violation == "hits = 1"
    assert [step.process for step in schedule.timeline] == [1, 2, 1, 2]
    assert [step.kind for step in schedule.timeline] == ["SELECT", "SELECT", "UPDATE", "UPDATE"]
    assert [step.observed for step in schedule.timeline] == [0, 0, 1, 1]


def test_a_step_knows_what_it_sent_and_what_came_back() -> None:
    select, update = run("11", counter.naive).timeline
    assert 'FROM "interleave_counter" WHERE' in select.sql
    assert select.params == ("a",)
    assert (select.columns, select.rows) == (("id", "key", "hits"), ((1, "a", 0),))
    assert (update.rowcount, update.rows, update.error) == (1, (), "")
    lines, first = inspect.getsourcelines(counter.naive)
    assert select.filename == update.filename == counter.__file__
    assert (select.lineno, update.lineno) == (first + 1, first + len(lines) - 1)
    assert select.function == "naive"


def test_a_wait_is_shown_from_step_to_step_and_for_whom() -> None:
    """Process 2 sends its SELECT FOR UPDATE as step 2; the COMMIT of process 1 lets it go on."""
    schedule = run("121122", counter.select_for_update, counter.select_for_update)
    waited = schedule.timeline[1]
    assert (waited.number, waited.waited_for, waited.until) == (2, (1,), 4)
    assert waited.rows == ((1, "a", 1),)
    assert schedule.timeline[3].kind == "COMMIT"
    assert all(not step.waited_for for step in schedule.timeline if step is not waited)


def test_three_in_a_row_wait_for_the_one_before_them() -> None:
    schedule = run("123112233", *[counter.select_for_update] * 3)
    assert [step.waited_for for step in schedule.timeline[:3]] == [(), (1,), (2,)]
    assert [step.until for step in schedule.timeline[:3]] == [1, 5, 7]
    assert schedule.violation == "hits = 3"


def test_a_replay_is_the_same_twenty_times() -> None:
    """What each step returned, and who waited for whom and until when, included."""
    processes = [counter.select_for_update] * 3
    found = explore(processes, setup=counter.setup, invariant=counter.anything, max_schedules=1)
    timelines = {found.replay("123112233").timeline for _ in range(20)}
    assert len(timelines) == 1


def savepoint_and_cursor() -> None:
    with transaction.atomic(), transaction.atomic():
        for _ in Counter.objects.order_by("key").iterator():
            pass


def test_a_replay_does_not_show_names_made_from_the_thread() -> None:
    """Django names savepoints and server-side cursors after the thread."""
    schedules = [run("111111", savepoint_and_cursor) for _ in range(2)]
    assert schedules[0].timeline == schedules[1].timeline
    statements = [step.sql for step in schedules[0].timeline]
    assert statements[0] == 'SAVEPOINT "s1_x1"'
    assert statements[2] == "FETCH FROM _django_curs_1_sync_1"
    kinds = [step.kind for step in schedules[0].timeline]
    assert kinds == ["SAVEPOINT", "SELECT", "FETCH", "FETCH", "RELEASE", "COMMIT"]


def test_an_exploration_replays_its_own_schedules() -> None:
    found = explore([counter.atomic_only] * 2, setup=counter.setup, invariant=counter.counted(2))
    for schedule in found.violations:
        again = found.replay(schedule.order)
        assert (again.timeline, again.violation) == (schedule.timeline, schedule.violation)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("121", "is over before processes 1 and 2"),
        ("1111", "cannot be taken by process 1: only process 2 can go on"),
        ("1311", "cannot be taken by process 3: only processes 1 and 2 can go on"),
        ("12a2", "cannot be taken by process a"),
        ("122", "cannot be taken by process 2: only process 1 can go on after '12'"),
        ("1211223", "goes on after all have ended, at '121122'"),
    ],
)
def test_a_schedule_that_cannot_be_run_is_refused(order: str, message: str) -> None:
    with pytest.raises(ImpossibleSchedule, match=message):
        run(order, counter.select_for_update, counter.select_for_update)


class Number(int):
    """What psycopg makes of a number that it sends, and IntegerChoices of one of theirs."""

    def __repr__(self) -> str:
        return f"Number({int(self)})"


def test_the_parameters_are_drawn_as_they_are_sent() -> None:
    def named() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT %(number)s, %(text)s", {"number": 3, "text": "it"})

    process = partial(sql, "SELECT %s, %s, %s, %s", Number(7), 0.5, "it", None)
    (step, other) = run("12", process, named).timeline
    assert step.statement() == "SELECT 7, 0.5, 'it', NULL"
    assert other.statement() == "SELECT 3, 'it'"


def test_the_first_ten_rows_are_kept() -> None:
    def fetch() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT generate_series(1, 14)")
            cursor.fetchmany(7)
            cursor.fetchmany(7)

    (step,) = run("1", fetch).timeline
    assert step.rows == tuple((number,) for number in range(1, 11))
    assert step.result() == "→ generate_series = 1 (+13)"


def test_an_error_is_drawn_with_its_line() -> None:
    def fails() -> None:
        sql("SELECT 1")
        raise LookupError("gone")

    line = fails.__code__.co_firstlineno + 2
    drawn = run("12", lambda: sql("SELECT 1"), fails).draw(width=20)
    assert f"  raises LookupError: gone (test_replay.py:{line})" in drawn


def test_the_timeline_is_drawn_in_columns() -> None:
    process = counter.update_returning
    drawn = run(
        "1212",
        partial(in_transaction, process),
        partial(in_transaction, process),
        observe=counter.hits,
    ).draw(width=36)
    assert (
        drawn
        == """\
   process 1                             process 2                             afterwards
1  UPDATE interleave_counter SET hits =                                        0
     hits + 1 WHERE key = 'a' RETURNING
     hits
   → hits = 1
2                                        UPDATE interleave_counter SET hits =  0
                                           hits + 1 WHERE key = 'a' RETURNING
                                           hits
                                         … waits for process 1
3  COMMIT                                … resumes step 2                      1
                                         → hits = 2
4                                        COMMIT                                2"""
    )


def in_transaction(process: Callable[[], object]) -> None:
    with transaction.atomic():
        process()


def test_a_wait_that_ends_in_its_own_step_is_drawn_before_its_result() -> None:
    def lock(*numbers: int) -> None:
        with transaction.atomic():
            for number in numbers:
                sql("SELECT pg_advisory_xact_lock(%s)", number)

    drawn = run("12121" + "2", partial(lock, 1, 2), partial(lock, 2, 1)).draw()
    lines = [line[45:] for line in drawn.splitlines()]  # of process 2
    assert lines[lines.index("… waits for process 1") + 1] == "!! DeadlockDetected"
