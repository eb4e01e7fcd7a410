"""The explorations that can be recorded, and their names."""

from itertools import product

import pytest

from lab.exceptions import NotFound
from lab.races import RACES
from lab.races.museum import MUSEUM
from lab.recording import jobs
from lab.recording.jobs import jobs_named


def test_a_group_is_every_strategy_of_its_races_and_each_is_found_by_its_name() -> None:
    groups = {group: jobs_named(group) for group in jobs.GROUPS}
    every = groups.pop("all")
    named = [str(job) for group in groups.values() for job in group]
    assert [str(job) for job in every] == list(dict.fromkeys(named))  # the workshop's come first
    assert len(groups["workshop"]) > 10
    assert [jobs_named(str(job)) for job in every] == [[job] for job in every]
    assert len(set(map(str, every))) == len(every)
    assert {job.race.name for job in groups["matrix"]} == set(RACES)
    assert {job.race.name for job in groups["museum"]} == set(MUSEUM)
    levels = {(job.race.name in RACES, job.isolation) for job in groups["isolation"]}
    strict = {"repeatable read", "serializable"}
    assert levels == {*product((True, False), strict), (False, "read committed")}
    assert {job.race.name for job in groups["isolation"]} == set(jobs.ISOLATED)
    assert [job.processes for job in groups["queue"]] == [3]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "",
            "no group or race ''; there are all, workshop, queue, matrix, museum, isol",
        ),
        ("lost_update", "lost_update has no strategy ''; it has naive"),
        ("lost_update/naive/4", "lost_update takes 2 or 3 processes, not 4"),
        ("lost_update/naive/2/strict", "read committed, repeatable read, serializable, not 'st"),
        ("lost_update/naive/2/serializable/x", "The isolation levels are"),
    ],
)
def test_unknown_names(what: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        jobs_named(what)
