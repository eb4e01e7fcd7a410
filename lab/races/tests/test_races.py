"""Every race with every strategy: the counts are those of the file, and are explained."""

import re
import time
from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from lab.exploring import explorer
from lab.exploring.explored import Explored
from lab.exploring.jobs import LEVELS, READ_COMMITTED, Job, counted, every_job
from lab.pages.schedules import sheet_of
from lab.races import EVERY_RACE, OPERATIONS, RACES, counts
from lab.races.counts import COUNTS, Count
from lab.races.race_definition import worst_case
from lab.scratch_database import scratch_database
from pginterleave import Exploration
from pginterleave.picture.layout import drawings
from project.docs import ROOT
from shorturl.strategies.creating import timestamp_key
from shorturl.strategies.table import Verdict

CONDITIONS = {"last_use", "limit_raised", "expiry"}


def job(race: str, strategy: str, processes: int = 0, level: str = READ_COMMITTED) -> Job:
    found = EVERY_RACE[race]
    return Job(found, found.strategies[strategy], processes or found.counts[0], level)


def count(race: str, strategy: str) -> Count:
    return COUNTS[str(job(race, strategy))]


def test_the_file_has_every_cell_of_the_pages() -> None:
    """Except for what has, with three processes, more schedules than are explored."""
    every = {str(each): each for each in counted()}
    assert set(COUNTS) <= set(every)
    missing = [each for name, each in every.items() if name not in COUNTS]
    assert [each for each in missing if each.processes == each.race.counts[0]] == []


def test_the_tables_for_each_isolation_level_have_the_counts_of_the_file() -> None:
    text = (ROOT / "docs" / "isolation-levels.md").read_text()
    for race in ("lost_update", "write_skew"):
        rows = text.split(f"\n| {race} | ")[1].split("\n\n")[0]
        found = re.findall(r"^\| (\w+) \| (.+) \|$", rows, re.MULTILINE)
        assert dict(found) == {
            one: " | ".join(
                f"**{each}**" if each.violating else str(each)
                for level in LEVELS
                for each in [COUNTS[str(job(race, one, level=level))]]
            )
            for one in EVERY_RACE[race].strategies
            if one != "in_memory"
        }


def test_the_verdicts_are_right() -> None:
    """A strategy is wrong, or right alone, if and only if a race shows it."""
    for operation, (_, strategies, races) in OPERATIONS.items():
        for name, strategy in strategies.items():
            violated = {
                race.name
                for race in races
                if name in race.strategies and count(race.name, name).violating
            }
            found = Verdict.WRONG if violated else Verdict.RIGHT
            if violated and all(race.endswith("_in_a_transaction") for race in violated):
                found = Verdict.RIGHT_ALONE
            if violated and violated <= CONDITIONS:
                found = Verdict.RIGHT_WITHOUT_CONDITION
            assert strategy.verdict is found, (operation, name, violated)


def test_what_is_said_of_whole_races_holds() -> None:
    always = [("toctou", "get_or_create"), ("toctou_in_a_transaction", "forgiveness")]
    always += [(race, "in_memory") for race in ("lost_update", "clobbered_edit", "crossed_locks")]
    for race, strategy in always:
        assert count(race, strategy).violating == count(race, strategy).schedules
    for strategy in RACES["custom_key"].strategies:
        assert count("custom_key", strategy) == count("toctou", strategy)
    assert {
        strategy
        for strategy in RACES["deleted_meanwhile"].strategies
        if count("deleted_meanwhile", strategy).violating
    } == {"naive", "atomic_only", "f_expression_full_save", "in_memory"}


def test_the_clock_stands_still_for_an_exploration_only() -> None:
    with worst_case():
        assert timestamp_key.time_ns() == timestamp_key.time_ns()  # type: ignore[attr-defined]
    assert timestamp_key.time_ns is time.time_ns  # type: ignore[attr-defined]


# The counterexamples of the museum, and all its violations.
WRONG = {
    "no_unique_constraint/as_found": ("112221", {"2 links are called sale"}),
    "null_in_a_unique_key/as_found": ("112221", {"2 links are called sale"}),
    "retry_without_a_savepoint/as_found": (
        "1122",
        {f"process {process} raises TransactionManagementError" for process in (1, 2)},
    ),
    "next_id_written_back/as_found": (
        "111222111",
        {f"process {process} raises IntegrityError" for process in (1, 2)},
    ),
    "bare_save/as_found": (
        "12222211",
        {"clicks = 1, not 2", "the edit of the target is undone"},
    ),
    "bare_save/mended_by_half": ("12222211", {"the edit of the target is undone"}),
    "row_lock_on_no_row/as_found": ("112221", {"2 rows for one hour"}),
    "limited_use/as_found": ("122211", {"redeemed 2 times, not 1"}),
}

# Counted and not drawn: the most schedules, and deadlocks, which PostgreSQL ends after a while.
# `crossed_locks/atomic_only`, which is drawn, has all deadlocks.
LONG_TO_DRAW = {
    "crossed_locks/naive", "crossed_locks/f_expression", "crossed_locks/f_expression_full_save",
    "crossed_locks/advisory_lock", "toctou_in_a_transaction/get_or_create",
    "repeated_request/look_up_then_store", "same_hour/get_then_create", "several_keys/naive",
    "several_keys_one_use_left/naive", "two_workers/naive", "two_workers/watermark",
}  # fmt: skip
# The rest of 800 pixels below the title and the list of schedules, in the units of a picture.
LAPTOP = 590


def is_drawn(job: Job) -> bool:
    """Stricter levels have the same few violations, and right strategies have none."""
    right = job.strategy.verdict is Verdict.RIGHT
    return not right and short(job) not in LONG_TO_DRAW and job.isolation == READ_COMMITTED


def short(job: Job) -> str:
    return f"{job.race.name}/{job.strategy.name}"


DRAWN = [each for each in every_job() if is_drawn(each)]
ONLY_COUNTED = [
    each for each in counted() if str(each) in COUNTS and str(each) not in map(str, DRAWN)
]
# Of what the service runs, these are explored with the other tests, too.
QUICK = {
    "deliveries_at_once", "expiries_told_at_once", "expiry_beside_an_edit",
}  # fmt: skip


@pytest.fixture(scope="module")
def scratch(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """One database for all, as in `manage.py explore`: creating one takes longer than a race."""
    with django_db_blocker.unblock(), scratch_database():
        yield


def is_counted(job: Job, found: Exploration | Explored) -> None:
    refused = found.refused if isinstance(found, Explored) else found.raising
    assert Count(found.violating, found.schedules, refused) == COUNTS[str(job)]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(each, marks=[] if each.race.name in QUICK else pytest.mark.exhaustive)
        for each in ONLY_COUNTED
    ],
    ids=str,
)
@pytest.mark.usefixtures("scratch")
def test_as_many_violate_it_as_the_file_says(job: Job) -> None:
    found = counts.explore(job)
    assert found.complete
    is_counted(job, found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", DRAWN, ids=str)
@pytest.mark.usefixtures("scratch")
def test_every_violation_is_explained_on_one_screen(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    violations = set()
    monkeypatch.setattr(explorer, "MAX_SECONDS", 600)
    found = explorer.run(job)
    for number in range(found.ran):
        schedule = found.schedule(number)
        sheet = sheet_of(found, schedule, len(schedule.steps))
        if schedule.violation:
            assert sheet.conflicts, schedule.order
            violations.add(schedule.violation)
        wide, _narrow = drawings(sheet)
        # A second try is below the schedule, and has to be scrolled to.
        height = wide.ends[len(schedule.steps)] if schedule.second_tries else wide.height
        assert height < LAPTOP, schedule.order
    assert bool(violations) is (found.violating > 0)
    assert not found.truncated
    is_counted(job, found)
    worst = (found.counterexample, violations)
    assert WRONG.get(short(job), worst) == worst
