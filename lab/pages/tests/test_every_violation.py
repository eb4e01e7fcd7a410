"""Every violation of every race has a mark in its picture, which fits on one screen."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from lab.pages.picture.conflicts import conflicts
from lab.pages.schedules import drawings
from lab.recording import store
from lab.recording.jobs import READ_COMMITTED, Job, jobs_named
from lab.scratch_database import scratch_database

# What is left of 800 pixels below the title and the list of schedules, in the units of a picture.
LAPTOP = 590
# Of each schedule with a deadlock a member is ended, which takes a while; `atomic_only` has them
# all. The others have the most schedules.
MARATHON = (
    *(
        f"crossed_locks/{each}/2/read-committed"
        for each in (
            "naive", "f_expression", "f_expression_full_save", "compare_and_swap", "advisory_lock",
        )
    ),
    "same_target_in_a_transaction/advisory_lock/",
    "toctou_in_a_transaction/get_or_create/",
    "toctou_in_a_transaction/table_lock/",
    "repeated_request/insert_first/",
)  # fmt: skip
JOBS = [
    pytest.param(each, id=str(each), marks=[pytest.mark.marathon] * str(each).startswith(MARATHON))
    for each in jobs_named("all")
]


@pytest.fixture(scope="module")
def scratch(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A database for all, as for `manage.py record`: to make one takes longer than most races."""
    with django_db_blocker.unblock(), scratch_database():
        yield


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.usefixtures("scratch")
def test_every_violation_of_every_race_is_explained_on_one_screen(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    violating = 0

    def look(_: Job, of: Any, schedules: list[Any]) -> None:
        nonlocal violating
        snapshots = job.isolation != READ_COMMITTED
        for schedule in schedules:
            found = []
            if schedule.violation:
                found = conflicts(schedule.steps, snapshots=snapshots)
                assert found, schedule.order
                violating += 1
            wide, _narrow = drawings(of, schedule, len(schedule.steps), found)
            assert wide.height < LAPTOP, schedule.order

    monkeypatch.setattr(store, "replace", look)
    recording = store.record(job)
    assert (violating > 0) is (recording.violating > 0)
