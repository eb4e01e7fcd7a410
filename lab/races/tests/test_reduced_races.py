"""Reduction does not change the result of an exploration; coarser steps only hide violations."""

from functools import partial

import pytest

from lab.races import EVERY_RACE
from lab.scratch_database import scratch_database

# Two statements overlap: the snapshot of one does not show what the other has not committed.
HIDDEN = {
    ("write_skew", "one_statement"),
    ("expiry", "append_only"),
    ("expiry", "slotted_counter"),
}
# One race of each kind: a counter, an INSERT, a condition, several rows, and two tables.
EXHAUSTIVE = (
    "lost_update",
    "toctou",
    "expiry",
    "several_keys_one_locked",
    "write_skew",
    "late_commit",
)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("race", "strategies", "processes"),
    [
        ("lost_update", ("naive", "select_for_update"), 2),
        *(
            pytest.param(
                name,
                tuple(EVERY_RACE[name].strategies),
                EVERY_RACE[name].counts[0],
                marks=pytest.mark.exhaustive,
            )
            for name in EXHAUSTIVE
        ),
        pytest.param("clobbered_edit", ("atomic_only",), 3, marks=pytest.mark.exhaustive),
    ],
)
def test_it_is_the_same(race: str, strategies: tuple[str, ...], processes: int) -> None:
    with scratch_database():
        for name in strategies:
            explore = partial(EVERY_RACE[race].explore, EVERY_RACE[race].strategies[name])
            limits = {"max_schedules": 20_000, "max_seconds": 600}
            every = explore(processes, reduce=False, **limits)
            reduced = explore(processes, **limits)
            counts = (every.schedules, every.violating, every.truncated)
            assert counts == (len(every.orders), len(every.violations), "")
            assert (reduced.schedules, reduced.violating, reduced.truncated) == counts
            assert set(reduced.orders) <= set(every.orders)
            first, same = every.counterexample, reduced.counterexample
            assert (first and first.order) == (same and same.order)
            if processes < 3:  # a statement and its COMMIT as one step
                coarse = explore(processes, split_autocommit=False)
                assert coarse.complete
                assert coarse.schedules <= every.schedules
                assert every.violations or not coarse.violations
                hides = bool(coarse.violations) is not bool(every.violations)
                assert hides is ((race, name) in HIDDEN), name


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_what_a_statement_and_its_commit_as_one_step_hide() -> None:
    """At a stricter level, it calls some unsafe strategies safe, and no safe one unsafe."""
    race, blind = EVERY_RACE["lost_update"], set()
    with scratch_database():
        for name, strategy in race.strategies.items():
            explore = partial(
                race.explore, strategy, 2, reduce=True, isolation_level="repeatable read"
            )
            fine, coarse = explore(), explore(split_autocommit=False)
            assert fine.violations or not coarse.violations
            if bool(fine.violations) is not bool(coarse.violations):
                blind.add(name)
            if name == "update_returning":
                counts = (coarse.violating, coarse.schedules, fine.violating, fine.schedules)
                assert counts == (0, 2, 2, 4)  # as docs/races.md says
    assert blind == {
        "f_expression", "f_expression_full_save", "update_returning", "compare_and_swap",
        "combined", "slotted_counter",
    }  # fmt: skip
