"""Processes that wait for each other, or that continue at the same moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from unittest import mock

import pytest
from django.db import connection, transaction

from pginterleave import Exploration, Outcome
from pginterleave.processes import monitor, scheduler

from . import counter
from .counter import explore_all, lock, replay, sql, transact

pytestmark = pytest.mark.usefixtures("counter_table")


ADD_HIT = "UPDATE interleave_counter SET hits = hits + 1 WHERE id = {}"
bystander = partial(sql, "SELECT 1")


# The process that closes the cycle checks for a deadlock late: the explorer has to see it.
LATE_CHECK = "SET LOCAL deadlock_timeout = '250ms'"
GIVES_UP = "SET LOCAL deadlock_timeout = '60s'; SET LOCAL lock_timeout = '250ms'"


@pytest.mark.parametrize("settings", [LATE_CHECK, GIVES_UP])
def test_a_cycle_of_two_ends_before_a_third_goes_on(settings: str) -> None:
    """2 takes lock 2, 1 takes lock 1 and waits for 2, 2 waits for 1; process 3 could go on."""
    closing = partial(lock, 2, 1, settings=settings)
    schedule = replay("221122" + "13", partial(lock, 1, 2), closing, bystander)
    waits, closes, then = schedule.timeline[3:6]
    assert (waits.waited_for, waits.until) == ((2,), 5)
    assert (closes.waited_for, closes.until) == ((1,), 5)
    victim = "DeadlockDetected" if settings == LATE_CHECK else "LockNotAvailable"
    assert (closes.error, then.kind) == (victim, "ROLLBACK")


def test_a_cycle_of_three_ends_before_a_fourth_goes_on() -> None:
    """1 waits for 2, 2 waits for 3, and 3 for 1."""
    closing = partial(lock, 3, 1, settings=LATE_CHECK)
    first, second = partial(lock, 1, 2), partial(lock, 2, 3)
    schedule = replay("33" + "1212" + "33" + "214", first, second, closing, bystander)
    assert [step.waited_for for step in schedule.timeline[4:7]] == [(2,), (3,), (1,)]
    closes = schedule.timeline[6]
    assert (closes.error, closes.until) == ("DeadlockDetected", 7)


def test_a_second_deadlock_after_the_end_of_a_victim() -> None:
    """1 waits for 2, 2 for row 1 behind 3, and 3 for 1. After the end of 3, 2 waits for 1."""
    one = transact(ADD_HIT.format(1), ADD_HIT.format(2))
    other = transact(ADD_HIT.format(2), ADD_HIT.format(1))
    schedule = replay("13221c" + "321", one, other, one)
    ended = [type(outcome.raised).__name__ for outcome in schedule.outcomes]
    assert ended == ["NoneType", "OperationalError", "OperationalError"]
    assert counter.hits() == 1


def test_a_wait_without_a_cycle_does_not_end_while_a_third_can_go_on() -> None:
    """2 waits for 1 until 3 is done and 1 commits, though its lock_timeout is short."""
    waits = partial(lock, 1, settings=GIVES_UP)
    schedule = replay("1223" + "12", partial(lock, 1), waits, bystander)
    assert [outcome.raised for outcome in schedule.outcomes] == [None] * 3
    assert (schedule.timeline[2].waited_for, schedule.timeline[2].until) == ((1,), 5)


def test_either_of_two_that_share_a_lock_may_be_the_victim() -> None:
    """Both update the row."""
    share = "SELECT hits FROM interleave_counter WHERE id = 1 FOR SHARE"
    processes = [transact(share, ADD_HIT.format(1))] * 2
    for reduce in (False, True):
        found = explore_all(*processes, invariant=counter.expect_hits(2), reduce=reduce)
        assert (found.violating, found.schedules) == (16, 20)
        assert found.counterexample
        assert found.counterexample.order == "122112"


@pytest.mark.big
def test_a_process_that_continues_after_a_wait_closes_a_cycle() -> None:
    """After 1's COMMIT, 2 asks for lock 2, which 3 holds, and 3 waits for lock 3 of process 2."""
    first, second, third = (f"SELECT pg_advisory_xact_lock({number})" for number in (1, 2, 3))
    several = transact(third, f"{first}; {second}")
    found = explore_all(partial(lock, 1), several, partial(lock, 2, 3))
    assert found.complete
    assert "1232313" in {order[:7] for order in found.orders}


@contextmanager
def connect_with(options: str) -> Iterator[None]:
    connection.close()
    with mock.patch.dict(connection.settings_dict["OPTIONS"], {"options": options}):
        yield
        connection.close()


@pytest.fixture
def role_that_may_not() -> Iterator[None]:
    """Connect as a role that may not set deadlock_timeout, which is 20 ms."""
    role = f"{connection.settings_dict['NAME']}_role"  # unique, as all databases share the roles
    sql(f"CREATE ROLE {role}")
    with connect_with(f"-c role={role} -c deadlock_timeout=20ms"):
        yield
    sql(f"DROP ROLE {role}")


def explore_deadlock(setup: Callable[[], None] = lambda: None) -> Exploration:
    return explore_all(
        partial(lock, 1, 2),
        partial(lock, 2, 1),
        setup=setup,
        invariant=lambda outcomes: " ".join(str(each.raised) for each in outcomes if each.raised),
    )


def test_a_lock_timeout_of_the_victim_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The victim of 221121b checks after 0.6 s, its lock_timeout is 0.2 s."""
    monkeypatch.setattr(monitor, "MIN_LATE_CHECK", 0.6)
    with connect_with("-c lock_timeout=200ms"):
        found = explore_deadlock()
    assert (found.violating, found.schedules) == (16, 20)
    assert all("deadlock detected" in each.violation for each in found.violations)


def test_another_victim_is_a_limit_of_other_roles(request: pytest.FixtureRequest) -> None:
    prompt = explore_deadlock()
    assert prompt.violations
    request.getfixturevalue("role_that_may_not")
    attempts: list[int] = []
    slow = explore_deadlock(setup=lambda: attempts.append(1))
    # PostgreSQL ends the process that waited longest: no attempt is discarded for its victim.
    assert len(attempts) < slow.schedules + 4 * scheduler.MAX_FAIR_ATTEMPTS
    assert (prompt.violating, prompt.schedules, prompt.limits) == (16, 20, ())
    assert (slow.violating, slow.schedules) == (8, 12)
    limit = "another victim of a deadlock of processes 1 and 2 than process"
    assert set(slow.limits) == {f"{limit} 1", f"{limit} 2"}
    assert all("deadlock detected" in each.violation for each in slow.violations)


def test_the_error_code_of_a_deadlock_alone_makes_none(role_that_may_not: None) -> None:
    says = partial(sql, "DO $$ BEGIN RAISE 'no' USING ERRCODE = '40P01'; END $$")
    assert explore_all(says, says, setup=lambda: None).schedules == 2


# Waits for process 1 and then, in the same step, writes the number of its process into row `a`.
# The process that row `b` names continues when the other process has finished its step.
WAIT_AND_WRITE = """
    SELECT pg_advisory_xact_lock_shared(1);
    DO $$ BEGIN
        WHILE EXISTS (
            SELECT FROM pg_stat_activity, interleave_counter
            WHERE interleave_counter.id = 2 AND interleave_counter.hits = {number}
            AND application_name = 'interleave process {other}' AND state = 'active'
            AND datname = current_database()
        ) LOOP
            PERFORM pg_stat_clear_snapshot();
        END LOOP;
    END $$;
    UPDATE interleave_counter SET key = key || {number} WHERE id = 1
"""


class Woken:
    """Processes 2 and 3 wait for process 1, and then write their numbers into row `a`.

    The COMMIT of process 1 wakes both at the same moment. In the first attempt at a schedule,
    process 2 is delayed until process 3 has written; in every later one, process 3 is delayed.
    """

    def __init__(self, *, in_a_transaction: bool) -> None:
        self.in_a_transaction = in_a_transaction
        self.attempts = 0

    def setup(self) -> None:
        self.attempts += 1
        delayed = 2 if self.attempts == 1 else 3
        sql("DELETE FROM interleave_counter")
        sql("INSERT INTO interleave_counter VALUES (1, 'a', 0), (2, 'b', %s)", delayed)

    def explore(self) -> Exploration:
        waits = partial(self.waits, 2, 3), partial(self.waits, 3, 2)
        found = explore_all(self.holds, *waits, setup=self.setup, invariant=self.written)
        assert not found.truncated
        return found

    def holds(self) -> None:
        lock(1)

    def waits(self, number: int, other: int) -> None:
        with transaction.atomic() if self.in_a_transaction else nullcontext():
            sql(WAIT_AND_WRITE.format(number=number, other=other))

    def written(self, outcomes: list[Outcome]) -> str:
        self.attempts = 0
        assert not any(outcome.raised for outcome in outcomes), outcomes
        return str(sql("SELECT substr(key, 2) FROM interleave_counter WHERE id = 1")[0][0])


@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_the_first_that_waited_writes_first_in_every_schedule(in_a_transaction: bool) -> None:
    """Process 1 locks, 2 and 3 wait, 1 commits. If 3 writes first, the schedule is tried again."""
    found = Woken(in_a_transaction=in_a_transaction).explore()
    written = {schedule.order: schedule.violation for schedule in found.violations}
    assert len(written) == found.schedules
    assert written == {
        order: "".join(dict.fromkeys(order.replace("1", ""))) for order in found.orders
    }
    assert len([order for order in found.orders if order[:4] in ("1231", "1321")]) == 2


class WokenTheOtherWayRound(Woken):
    """Process 3 writes first until such a schedule counts. Later it does so in a second attempt.

    Process 1 has a step after its COMMIT, so that several schedules begin with the same steps.
    """

    kept = False

    def setup(self) -> None:
        super().setup()
        delayed = 3 if self.kept and self.attempts == 1 else 2
        sql("UPDATE interleave_counter SET hits = %s WHERE id = 2", delayed)

    def holds(self) -> None:
        super().holds()
        sql("SELECT 1")

    def written(self, outcomes: list[Outcome]) -> str:
        self.kept = self.kept or self.attempts > 1
        return super().written(outcomes)


def test_equal_first_steps_have_one_order_after_a_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """When no fair attempt is left, 3 may write first. Then 3 does so in all schedules of 1231."""
    monkeypatch.setattr(scheduler, "MAX_FAIR_ATTEMPTS", 1)
    found = WokenTheOtherWayRound(in_a_transaction=True).explore()
    begun = {
        each.order: each.violation for each in found.violations if each.order.startswith("1231")
    }
    assert begun == {"1231132": "32", "1231312": "32", "1231321": "32"}
