"""What is marked in the schedules that violate their invariant, of real explorations."""

from typing import Any

import pytest

from lab.conftest import Kept
from lab.pages.marks import Step, marks

pytestmark = pytest.mark.django_db  # else there is no database to explore in


def marked(explored: dict[str, Kept], what: str, order: str) -> dict[int, list[str]]:
    return marks(explored[what].schedule(order).steps)


@pytest.mark.parametrize(
    ("order", "stale", "other"), [("1212", 2, 1), ("1221", 1, 2), ("2121", 2, 2)]
)
def test_the_stale_read_and_the_lost_write(
    explored: dict[str, Kept], order: str, stale: int, other: int
) -> None:
    """Both read 0, one writes 1, and the other, whose read is stale by then, writes 1 too."""
    assert marked(explored, "lost_update/naive", order) == {
        stale: [f"stale read: process {other} writes after it"],
        3: ["lost update: overwritten by step 4"],
        4: ["overwrites step 3"],
    }


def test_the_edit_that_is_written_over_and_the_insert_that_fails(explored: dict[str, Kept]) -> None:
    # Process 1 reads the old target, process 2 edits it, and process 1 saves all it has read.
    assert marked(explored, "clobbered_edit/f_expression_full_save", "121") == {
        1: ["stale read: process 2 writes after it"],
        2: ["lost update: overwritten by step 3"],
        3: ["overwrites step 2"],
    }
    # Both see that the key is free, process 1 takes it, and process 2 cannot.
    assert marked(explored, "toctou/check_first", "1212") == {
        2: ["stale read: process 1 writes after it"],
        4: ["fails: what it read is out of date"],
    }


def test_those_that_break_have_marks_and_no_others(explored: dict[str, Kept]) -> None:
    schedules = [each for kept in explored.values() for each in kept.schedules]
    assert sum(bool(each.violation) for each in schedules) == 17
    for schedule in schedules:
        assert bool(marks(schedule.steps)) is bool(schedule.violation)


def step(process: int, kind: str, table: str = "links", rows: int = 1, **more: Any) -> Step:
    values = {"condition": {"id": "1"}, "read": {}, "wrote": {}}
    return {"process": process, "kind": kind, "table": table, "rows": rows, "error": "",
            **values, **more}  # fmt: skip


def numbered(*steps: Step) -> list[Step]:
    return [{"until": number, **each} for number, each in enumerate(steps, start=1)]


def read(process: int, row: str = "1", **more: Any) -> Step:
    return step(process, "SELECT", read={"id": row, "hits": "0"}, **more)


def write(process: int, row: str = "1", **more: Any) -> Step:
    return step(process, "UPDATE", condition={"id": row}, wrote={"hits": "1"}, **more)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([read(1), read(2, "2"), write(2, "2"), write(1)], id="another row"),
        pytest.param([read(1), step(2, "INSERT", "notes"), write(1)], id="another table"),
        pytest.param(
            [read(1), write(2), step(2, "ROLLBACK", ""), write(1)], id="what is rolled back"
        ),
        # Process 1's read was sent before the write of process 2, waited for it, and saw it.
        pytest.param(
            [read(1, until=3), write(2), step(2, "COMMIT", ""), write(1)], id="what waited"
        ),
    ],
)
def test_is_not_marked(steps: list[Step]) -> None:
    assert marks(numbered(*steps)) == {}


def test_what_is_added_is_not_lost() -> None:
    added = step(1, "UPDATE", wrote={})  # hits = hits + 1
    assert marks(numbered(read(1), write(2), added)) == {
        1: ["stale read: process 2 writes after it"]
    }


def test_one_commit_lets_two_writes_go_on() -> None:
    """Process 3 held the row; process 1 queued first, so that process 2 overwrites it."""
    steps = numbered(
        read(1), read(2), write(1, until=5), write(2, until=5), step(3, "COMMIT", "")
    )  # fmt: skip
    assert marks(steps) == {
        2: ["stale read: process 1 writes after it"],
        3: ["lost update: overwritten by step 4"],
        4: ["overwrites step 3"],
    }
