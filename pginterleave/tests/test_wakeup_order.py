"""Of several processes that are let go at the same moment, the one that waited first goes first."""

from functools import partial

import pytest
from django.db import transaction

from pginterleave import Exploration, Outcome, scheduler

from .counter import explored, lock, sql

pytestmark = pytest.mark.usefixtures("counter_table")

# What a process sends that waits for process 1 and then, in the same step, writes its number into
# row `a`. The process that row `b` names goes on when the other one has finished its
# step.
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

    def explored(self) -> Exploration:
        waits = partial(self.waits, 2, 3), partial(self.waits, 3, 2)
        found = explored(self.holds, *waits, setup=self.setup, invariant=self.written)
        assert not found.truncated
        return found

    def holds(self) -> None:
        lock(1)

    def waits(self, number: int, other: int) -> None:
        statements = WAIT_AND_WRITE.format(number=number, other=other)
        if self.in_a_transaction:
            with transaction.atomic():
                sql(statements)
        else:
            sql(statements)

    def written(self, outcomes: list[Outcome]) -> str:
        """Show in which order processes 2 and 3 have written."""
        self.attempts = 0
        assert not any(outcome.raised for outcome in outcomes), outcomes
        return str(sql("SELECT substr(key, 2) FROM interleave_counter WHERE id = 1")[0][0])


@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_the_first_that_waited_writes_first_in_every_schedule(in_a_transaction: bool) -> None:
    """Process 1 locks, 2 waits, 3 waits, 1 commits; 3 writes first, and it is tried again."""
    found = Woken(in_a_transaction=in_a_transaction).explored()
    written = {schedule.order: schedule.violation for schedule in found.violations}
    assert len(written) == found.schedules
    assert written == {
        order: "".join(dict.fromkeys(order.replace("1", ""))) for order in found.orders
    }
    assert len([order for order in found.orders if order[:4] in ("1231", "1321")]) == 2


class WokenTheOtherWayRound(Woken):
    """Process 3 writes first until a schedule of that kind counts, and then not at once.

    Process 1 has another step after the one that wakes the others, so that more than one schedule
    begins like that.
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


def test_the_way_that_counted_once_is_the_way_of_all_schedules_that_begin_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the fair attempts are used up, 3 may write first; then 1231 goes on with 3 each time."""
    monkeypatch.setattr(scheduler, "FAIR_ATTEMPTS", 1)
    found = WokenTheOtherWayRound(in_a_transaction=True).explored()
    begun = {
        each.order: each.violation for each in found.violations if each.order.startswith("1231")
    }
    assert begun == {"1231132": "32", "1231312": "32", "1231321": "32"}
