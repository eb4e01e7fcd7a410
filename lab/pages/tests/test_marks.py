"""What is marked in the schedules that break, of explorations that were really run."""

import pytest

from lab.conftest import Kept
from lab.pages.marks import marks

pytestmark = pytest.mark.django_db  # else there is no database to explore in


def marked(explored: dict[str, Kept], what: str, order: str) -> dict[int, list[str]]:
    schedule = explored[what].schedule(order)
    assert schedule.violation
    return marks(schedule.steps)


@pytest.mark.parametrize(
    ("order", "stale", "other"), [("1212", 2, 1), ("1221", 1, 2), ("2121", 2, 2)]
)
def test_the_stale_read_and_the_lost_write(
    explored: dict[str, Kept], order: str, stale: int, other: int
) -> None:
    """Both read 0, one writes 1, and the other, whose read is stale by then, writes 1 too."""
    assert marked(explored, "lost_update/naive", order) == {
        stale: [f"stale: process {other} writes after it"],
        3: ["lost: overwritten by step 4"],
        4: ["overwrites step 3"],
    }


def test_the_edit_that_is_written_over(explored: dict[str, Kept]) -> None:
    """Process 1 reads the old target, process 2 edits it, and process 1 saves all it has read."""
    assert marked(explored, "clobbered_edit/f_expression_full_save", "121") == {
        1: ["stale: process 2 writes after it"],
        2: ["lost: overwritten by step 3"],
        3: ["overwrites step 2"],
    }


def test_the_insert_that_fails(explored: dict[str, Kept]) -> None:
    """Both see that the key is free, process 1 takes it, and process 2 cannot."""
    assert marked(explored, "toctou/check_first", "1212") == {
        2: ["stale: process 1 writes after it"],
        4: ["fails: what it read is no longer so"],
    }


def test_every_broken_schedule_has_marks(explored: dict[str, Kept]) -> None:
    broken = [each for kept in explored.values() for each in kept.schedules if each.violation]
    assert len(broken) == 17
    assert all(marks(schedule.steps) for schedule in broken)


def test_nothing_is_marked_where_nothing_breaks(explored: dict[str, Kept]) -> None:
    held = [each for kept in explored.values() for each in kept.schedules if not each.violation]
    assert {each.recording.strategy for each in held} > {"naive", "select_for_update"}
    assert not any(marks(schedule.steps) for schedule in held)


def step(process: int, sql: str, result: str = "", rows: int = 1) -> dict[str, object]:
    kind = sql.split()[0]
    return {"process": process, "kind": kind, "sql": sql, "result": result, "error": "",
            "rows": rows}  # fmt: skip


def numbered(*steps: dict[str, object]) -> list[dict[str, object]]:
    return [each | {"until": number} for number, each in enumerate(steps, start=1)]


def read(process: int, row: int) -> dict[str, object]:
    return step(process, f"SELECT … FROM links WHERE id = {row}", f"→ id = {row}, hits = 0")


def write(process: int, row: int, hits: str = "1") -> dict[str, object]:
    return step(process, f"UPDATE links SET hits = {hits} WHERE id = {row}")


def test_another_row_is_another_matter() -> None:
    assert marks(numbered(read(1, 1), read(2, 2), write(2, 2), write(1, 1))) == {}


def test_another_table_is_another_matter() -> None:
    note = step(2, "INSERT INTO notes (id, text) VALUES (1, 'x')")
    assert marks(numbered(read(1, 1), note, write(1, 1))) == {}


def test_what_is_rolled_back_is_not_lost() -> None:
    assert marks(numbered(read(1, 1), write(2, 1), step(2, "ROLLBACK"), write(1, 1))) == {}


def test_what_is_added_is_not_lost() -> None:
    found = marks(numbered(read(1, 1), write(2, 1), write(1, 1, "(links.hits + 1)")))
    assert found == {1: ["stale: process 2 writes after it"]}
