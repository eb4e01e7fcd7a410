"""A wait for a safe snapshot, which is no wait for a lock and stands in no table of locks."""

import itertools

import pytest
from django.db import transaction

from pginterleave import Outcome, explore, run_schedule

from . import counter
from .counter import counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")


def write() -> None:
    with transaction.atomic():
        sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        counter.update_returning()


def report() -> int:
    with transaction.atomic():
        sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE")
        return counter.hits()


def test_a_deferrable_transaction_waits_for_a_safe_snapshot() -> None:
    """Process 2 asks for its snapshot as step 4, and has it with the COMMIT of process 1."""
    schedule = run_schedule(
        "112212",
        [write, report],
        setup=counter.setup,
        invariant=counter.anything,
        step_timeout=2.0,
    )
    waited = schedule.timeline[3]
    assert (waited.kind, waited.waited_for, waited.until) == ("SELECT", (1,), 5)
    assert schedule.outcomes[1].returned == 0


def test_every_schedule_in_which_one_may_wait_for_a_safe_snapshot() -> None:
    def shown(outcomes: list[Outcome]) -> str:
        assert not any(outcome.raised for outcome in outcomes), outcomes
        return f"reports {outcomes[1].returned}"

    found = explore([write, report], setup=counter.setup, invariant=shown, step_timeout=2.0)
    assert found.complete
    every = {"".join(order) for order in itertools.permutations("111222")}
    # Process 2 cannot commit before process 1 when it asks between the UPDATE and the COMMIT.
    assert set(found.orders) == every - {"112221", "121221", "211221"}
    # What waited reports what held when it asked.
    reported = {
        schedule.order for schedule in found.violations if schedule.violation == "reports 1"
    }
    assert reported == {"111222", "112122", "121122", "211122"}
