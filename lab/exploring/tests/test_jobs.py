"""The explorations that pages and tables show, and their names."""

import pytest

from lab.exceptions import NotFound
from lab.exploring.jobs import (
    ISOLATED,
    LEVELS,
    counted,
    every_job,
    jobs_named,
    queue,
    workshop,
)
from lab.races import EVERY_RACE


def test_every_page_is_found_by_its_name_and_the_workshop_comes_first() -> None:
    every = every_job()
    assert 10 < len(workshop()) < len(every)
    assert every[: len(workshop())] == workshop()
    assert [jobs_named(str(job)) for job in every] == [[job] for job in every]
    assert len(set(map(str, every))) == len(every)
    at_each = {
        level: {job.race.name for job in every if job.isolation == level} for level in LEVELS
    }
    assert at_each == {
        LEVELS[0]: set(EVERY_RACE),
        **{level: set(ISOLATED) for level in LEVELS[1:]},
    }
    assert queue() in every
    assert set(map(str, every)) < set(map(str, counted()))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("", "There is no race ''. The nearest one is"),
        ("workshp/naive", "no race 'workshp'. The nearest one is workshop; `manage.py race list`"),
        ("lost-update/naive", "There is no race 'lost-update'. The nearest one is lost_update;"),
        ("lost_update", "lost_update has no strategy ''; it has naive"),
        ("lost_update/naive/4", "lost_update takes 2 or 3 processes, not 4"),
        ("lost_update/naive/2/strict", "read committed, repeatable read, serializable, not 'st"),
        ("lost_update/naive/2/serializable/x", "The isolation levels are"),
    ],
)
def test_unknown_names(what: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        jobs_named(what)
