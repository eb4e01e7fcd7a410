"""Every race with every strategy: the counts are those of the documents, and are explained."""

import re
import time
from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from lab.exploring import explorer
from lab.exploring.explored import Explored
from lab.exploring.jobs import READ_COMMITTED, Job, counted, every_job
from lab.pages.schedules import sheet_of
from lab.races import EVERY_RACE, OPERATIONS, RACES, counts, matrix
from lab.races.counts import COUNTS, Count
from lab.races.matrix import MatrixCell
from lab.races.race_definition import worst_case
from lab.scratch_database import scratch_database
from pginterleave import Exploration
from pginterleave.picture.layout import drawings
from project.docs import ROOT
from shorturl.strategies.creating import timestamp_key
from shorturl.strategies.strategy import Verdict

TEXT = (ROOT / "docs" / "races.md").read_text()
MATRIX, THREE = TEXT.split("<!-- [[[end]]] -->")[0], TEXT.split("\n## With three processes\n")[1]
AT_EACH_LEVEL = (
    (ROOT / "docs" / "isolation-levels.md").read_text().split("## The races at each level")[1]
)
CONDITIONS = {"last_use", "limit_raised", "expiry"}


def cells(text: str) -> Iterator[tuple[str, str, str, str]]:
    corner, columns = "", list[str]()
    for first, rest in re.findall(r"^\| (\w+) \| (.+) \|$", text, re.MULTILINE):
        if first in OPERATIONS or first in EVERY_RACE:
            corner, columns = first, rest.split(" | ")
            continue
        for column, cell in zip(columns, rest.split(" | "), strict=True):
            if cell != "–":
                yield corner, column, first, cell


TWO_COUNTS, THREE_COUNTS = (
    {(race, strategy): count for _, race, strategy, count in cells(text)}
    for text in (MATRIX, THREE)
)
CELLS = {
    (race, strategy): MatrixCell(race, strategy, schedules, violating, complete=True)
    for (race, strategy), count in TWO_COUNTS.items()
    for violating, schedules in [map(int, re.findall(r"\d+", count))]
}


def test_the_document_shows_the_matrix_as_the_command_prints_it() -> None:
    assert set(CELLS) == {(name, one) for name, race in RACES.items() for one in race.strategies}
    assert MATRIX.endswith(
        f'"manage.py race matrix --markdown")) ]]] -->\n{matrix.markdown([*CELLS.values()])}\n'
    )


def test_the_tables_for_three_processes_show_every_strategy() -> None:
    races = {race for race, _ in THREE_COUNTS}
    assert races >= {name for name, race in RACES.items() if 3 in race.counts[1:]}
    assert set(THREE_COUNTS) == {(race, one) for race in races for one in RACES[race].strategies}
    for count in THREE_COUNTS.values():
        assert count == "…" or count.startswith("**") is not count.startswith("0 /")


def test_the_tables_for_each_isolation_level_show_every_strategy() -> None:
    shown = {(race, strategy) for race, _, strategy, _ in cells(AT_EACH_LEVEL)}
    races = ("lost_update", "write_skew")
    every = {(race, one) for race in races for one in EVERY_RACE[race].strategies}
    assert every - shown == {("lost_update", "in_memory")}
    for race, level, strategy, cell in cells(AT_EACH_LEVEL):
        if (race, level) == ("lost_update", READ_COMMITTED):
            assert cell.strip("*") == str(CELLS[race, strategy])


def test_the_verdicts_are_right() -> None:
    """A strategy is wrong, or right alone, if and only if a race shows it."""
    for operation, (_, strategies, races) in OPERATIONS.items():
        names = {race.name for race in races}
        for name, strategy in strategies.items():
            violated = {
                race for race in names if (race, name) in CELLS and CELLS[race, name].violating
            }
            found = Verdict.WRONG if violated else Verdict.RIGHT
            if violated and all(race.endswith("_in_a_transaction") for race in violated):
                found = Verdict.RIGHT_ALONE
            if violated and violated <= CONDITIONS:
                found = Verdict.RIGHT_WITHOUT_CONDITION
            assert strategy.verdict is found, (operation, name, violated)


def test_what_is_said_of_whole_races_holds() -> None:
    for cell in ("toctou", "get_or_create"), ("toctou_in_a_transaction", "forgiveness"):
        assert CELLS[cell].violating == CELLS[cell].schedules
    for strategy in RACES["custom_key"].strategies:
        assert str(CELLS["custom_key", strategy]) == str(CELLS["toctou", strategy])
    assert {
        cell.strategy
        for cell in CELLS.values()
        if cell.race == "deleted_meanwhile" and cell.violating
    } == {"naive", "atomic_only", "f_expression_full_save", "in_memory"}
    for race in "lost_update", "clobbered_edit", "crossed_locks":
        assert CELLS[race, "in_memory"].violating == CELLS[race, "in_memory"].schedules


def test_the_clock_stands_still_for_an_exploration_only() -> None:
    with worst_case():
        assert timestamp_key.time_ns() == timestamp_key.time_ns()  # type: ignore[attr-defined]
    assert timestamp_key.time_ns is time.time_ns  # type: ignore[attr-defined]


def job(race: str, strategy: str, processes: int = 0, level: str = READ_COMMITTED) -> Job:
    found = EVERY_RACE[race]
    return Job(found, found.strategies[strategy], processes or found.counts[0], level)


# What the documents say of each exploration.
DOCUMENTED = {
    **{str(job(*cell)): count for cell, count in TWO_COUNTS.items()},
    **{str(job(*cell, 3)): count for cell, count in THREE_COUNTS.items()},
    **{
        str(job(race, strategy, level=level)): cell
        for race, level, strategy, cell in cells(AT_EACH_LEVEL)
    },
}
KNOWN = {name: str(count) for name, count in COUNTS.items()}
# Those that no page shows have too many processes for the table of their race.
UNSHOWN = {name for name, count in DOCUMENTED.items() if name not in KNOWN and count != "…"}


def test_the_file_and_the_documents_have_the_same_counts() -> None:
    """The file has every cell of a page, but for what has more schedules than are explored."""
    for name, count in DOCUMENTED.items():
        assert name in UNSHOWN or KNOWN.get(name, "…") == count.strip("*"), name
    missing = {str(each) for each in counted()} - set(KNOWN)
    assert missing == {name for name in missing if DOCUMENTED[name] == "…"}
    assert set(KNOWN) <= {str(each) for each in counted()}
    assert all(job_named(*name.split("/")).processes == 3 for name in UNSHOWN)


def job_named(race: str, strategy: str, processes: str, level: str) -> Job:
    return job(race, strategy, int(processes), level.replace("-", " "))


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
    job_named(*name.split("/")) for name in [*KNOWN, *UNSHOWN] if name not in map(str, DRAWN)
]
# Of what the service runs, these are explored with the other tests, too.
QUICK = {
    "creates_beside_a_create", "creates_that_draw_crossed_keys", "deliveries_at_once",
    "expiries_told_at_once", "expiry_beside_an_edit", "quotas_of_one_spender",
}  # fmt: skip


@pytest.fixture(scope="module")
def scratch(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """One database for all, as in `manage.py explore`: creating one takes longer than a race."""
    with django_db_blocker.unblock(), scratch_database():
        yield


def is_counted(job: Job, found: Exploration | Explored) -> None:
    """Compare with the file, or with the document."""
    name, refused = str(job), found.refused if isinstance(found, Explored) else found.raising
    count = Count(found.violating, found.schedules, refused)
    assert count == COUNTS[name] if name in COUNTS else str(count) == DOCUMENTED[name].strip("*")


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
