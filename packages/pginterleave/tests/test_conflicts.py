"""The conflicts that explain violations, in constructed steps."""

from typing import Any

import pytest

from pginterleave.picture.conflicts import find_conflicts, find_cycles, find_marks
from pginterleave.picture.wording import RecordedStep

OUT_OF_DATE = "changes no row: what it read is out of date"


def step(process: int, kind: str, table: str = "links", rows: int = 1, **more: Any) -> RecordedStep:
    values: RecordedStep = {
        "condition": {"id": "1"},
        "read": [],
        "wrote": {},
        "computed": {},
        "lock": "",
        "subquery": False,
        "tables": [table],
        "writes": [] if kind == "SELECT" else [table],
    }
    return {"process": process, "kind": kind, "table": table, "rows": rows, "error": "",
            "in_transaction": [], **values, **more}  # fmt: skip


def number_steps(*steps: RecordedStep) -> list[RecordedStep]:
    return [{"until": number, **each} for number, each in enumerate(steps, start=1)]


def list_conflicts(*steps: RecordedStep) -> set[tuple[str, int | None, int]]:
    return {(each.kind, each.source, each.target) for each in find_conflicts(number_steps(*steps))}


def read(process: int, row: str = "1", **more: Any) -> RecordedStep:
    return step(process, "SELECT", read=[{"id": row, "hits": "0"}], condition={}, **more)


def write(process: int, row: str = "1", **more: Any) -> RecordedStep:
    return step(process, "UPDATE", condition={"id": row}, wrote={"hits": "1"}, **more)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([read(1), read(2, "2"), write(2, "2"), write(1)], id="another row"),
        pytest.param([read(1), step(2, "INSERT", "notes"), write(1)], id="another table"),
        pytest.param([read(1), write(2), step(2, "ROLLBACK", ""), write(1)], id="rolled back"),
        # Process 1's read was sent before the write of process 2, waited for it, and saw it.
        pytest.param([read(1, until=3), write(2), step(2, "COMMIT", ""), write(1)], id="waited"),
    ],
)
def test_is_no_conflict(steps: list[RecordedStep]) -> None:
    assert find_conflicts(number_steps(*steps)) == []


def test_a_process_that_writes_nothing_is_unwritten_without_another_conflict() -> None:
    hit = number_steps(read(1), read(2), write(2), step(2, "COMMIT", ""))
    assert [(each.kind, each.target) for each in find_conflicts(hit)] == [("unwritten", 1)]
    assert find_conflicts(number_steps(read(1), write(1), read(2), write(2))) == []


def test_a_read_does_not_see_a_later_commit() -> None:
    """As in the race expiry: a hit that is not committed is missing in the read."""
    hit = step(1, "INSERT", "counts", subquery=True, tables=["links"], in_transaction=[1])
    bill = read(2, tables=["links", "counts"])
    commits = [step(process, "COMMIT", "") for process in (2, 1)]
    assert list_conflicts(hit, write(2), commits[0], bill, commits[1]) == {("late", 1, 4)}


def test_a_check_of_one_table_and_a_write_to_another() -> None:
    """The condition is in one table, and the count in another does not change it."""
    hits = [
        step(process, "INSERT", "counts", subquery=True, tables=["links"]) for process in (1, 2)
    ]
    (only,) = find_conflicts(number_steps(*hits))
    assert (only.kind, only.source, only.target) == ("elsewhere", 1, 2)
    assert only.text_at_target == "has not seen step 1: it rests on links, not on counts"
    looks = list_conflicts(hits[0], read(2, tables=["counts"]), hits[1])
    assert "elsewhere" not in {kind for kind, *_ in looks}


def test_a_roll_up_deletes_more_than_it_has_added() -> None:
    """A roll-up adds up some rows and deletes more: a row written in between is lost."""
    moved = step(2, "INSERT", "visits", subquery=True, tables=["visits"], condition={})
    visit = step(1, "UPDATE", "links", writes=["links", "visits"])
    gone = step(2, "DELETE", "visits", condition={})
    assert ("stale", 1, 3) in list_conflicts(moved, visit, gone)


def test_a_read_of_a_deleted_row_is_stale() -> None:
    """Rows that the process inserts between its read and its DELETE do not change that."""
    looks = read(2, tables=["visits"], table="visits")
    adds = step(2, "INSERT", "visits", condition={}, wrote={"unit": "day"})
    gone = [step(process, "DELETE", "visits", rows=2 - process) for process in (1, 2)]
    steps = (looks, gone[0], adds, gone[1])
    assert ("stale", 1, 4) in list_conflicts(*steps)
    assert OUT_OF_DATE in find_marks(find_conflicts(number_steps(*steps)))[4]


def test_a_read_between_two_commits_sees_one_of_two_writes() -> None:
    both = step(
        2, "SELECT", "links", read=[{"hits": "1", "visits": "0"}], tables=["links", "visits"]
    )
    steps = number_steps(write(1, table="links"), both, step(1, "INSERT", "visits"))
    (torn,) = find_conflicts(steps)
    assert (torn.kind, torn.source, torn.target) == ("late", 3, 2)
    assert torn.text_at_target == "has seen step 1, and not step 3"


def test_a_killed_process_has_written_one_of_two_tables() -> None:
    hits = [step(process, "UPDATE", wrote={}, computed={"hits": "hits + 1"}) for process in (1, 2)]
    (only,) = find_conflicts(number_steps(hits[0], hits[1], step(2, "INSERT", "visits")))
    assert (only.kind, only.target) == ("unwritten", 1)
    assert only.text_at_target == "no write to visits follows"


def test_a_snapshot_is_as_old_as_the_first_query() -> None:
    """The second read comes after the write of process 2, and does not see it."""
    steps = number_steps(
        read(1, in_transaction=[1]), write(2, in_transaction=[1]), read(1, in_transaction=[1]),
        write(1, in_transaction=[1]), step(1, "COMMIT", ""),
    )  # fmt: skip
    assert find_conflicts(steps) == []
    assert {each.kind for each in find_conflicts(steps, snapshots=True)} == {"stale", "lost"}


def test_two_rows_are_read_and_each_writes_one() -> None:
    """Write skew: neither overwrites the other, and both decide by an old state."""
    both: list[RecordedStep] = [
        step(process, "SELECT", read=[{"id": "1"}, {"id": "2"}], condition={"team": "7"})
        for process in (1, 2)
    ]
    skew = find_cycles(number_steps(*both, write(1, "1"), write(2, "2")))
    assert [(each.kind, each.source, each.target) for each in skew] == [
        ("skew", 1, 4), ("skew", 2, 3),
    ]  # fmt: skip
    assert find_cycles(number_steps(both[0], write(1, "1"), both[1], write(2, "2"))) == []
    assert find_cycles(number_steps(*both, write(1, "1"), write(2, "1"))) == []  # a lost update


def test_the_marks_of_the_steps() -> None:
    steps = number_steps(read(1), read(2), write(1), write(2))
    assert find_marks(find_conflicts(steps)) == {
        2: ["stale read: process 1 commits a change after it"],
        3: ["lost update: overwritten by step 4"],
        4: ["rests on the stale read of step 2", "overwrites step 3"],
    }


def test_a_write_of_no_row_overwrites_nothing() -> None:
    """A compare-and-swap that failed: without a check of the row count, the hit is lost."""
    lost = find_conflicts(number_steps(read(1), read(2), write(1), write(2, rows=0)))
    assert [each.kind for each in lost] == ["stale"]
    assert find_marks(lost)[4] == [OUT_OF_DATE]


def test_an_addition_is_not_lost() -> None:
    added = step(1, "UPDATE", wrote={}, computed={"hits": "hits + 1"})
    assert {kind for kind, *_ in list_conflicts(read(1), write(2), added)} == {"stale", "missed"}


def test_one_commit_lets_two_writes_continue() -> None:
    """Process 3 held the row; process 1 queued first, so that process 2 overwrites it."""
    steps = read(1), read(2), write(1, until=5), write(2, until=5), step(3, "COMMIT", "")
    assert list_conflicts(*steps) == {("stale", 2, 4), ("lost", 3, 4)}
