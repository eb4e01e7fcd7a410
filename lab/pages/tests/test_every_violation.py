"""Every violation of every race has a mark in its picture, which fits on one screen."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from lab.pages.schedules import sheet_of
from lab.recording import store
from lab.recording.jobs import READ_COMMITTED, Job, jobs_named
from lab.scratch_database import scratch_database
from pginterleave.picture.layout import drawings
from shorturl.strategies import Verdict

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
    "repeated_request/look_up_then_store/",
    "same_hour/get_then_create/",
    "several_keys/naive/",
    "several_keys_one_use_left/naive/",
    "two_workers/naive/",
    "two_workers/watermark/",
)  # fmt: skip


def is_left(job: Job) -> bool:
    """Stricter isolation levels violate in the same few ways, and a right strategy not at all."""
    right = job.strategy.verdict is Verdict.RIGHT
    return right or str(job).startswith(MARATHON) or job.isolation != READ_COMMITTED


JOBS = [
    pytest.param(each, id=str(each), marks=[pytest.mark.marathon] * is_left(each))
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
        for schedule in schedules:
            sheet = sheet_of(of, schedule, len(schedule.steps))
            if schedule.violation:
                assert sheet.conflicts, schedule.order
                violating += 1
            wide, _narrow = drawings(sheet)
            # A second try is below the schedule, and has to be scrolled to.
            height = wide.ends[len(schedule.steps)] if schedule.second_tries else wide.height
            assert height < LAPTOP, schedule.order

    monkeypatch.setattr(store, "replace", look)
    recording = store.record(job)
    assert (violating > 0) is (recording.violating > 0)
