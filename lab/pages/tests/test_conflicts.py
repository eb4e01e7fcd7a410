"""The conflicts that explain violations, in real explorations."""

import pytest

from lab.conftest import first_with, recorded, schedules_of
from pginterleave.picture.conflicts import conflicts


def told(what: str, statements: str) -> set[tuple[str, str, str]]:
    """Return the conflicts of a schedule: kind, source statement, target statement."""
    steps = first_with(recorded(what), statements).steps

    def statement(number: int | None) -> str:
        return f"{steps[number - 1]['process']}{steps[number - 1]['kind'][0]}" if number else ""

    return {(c.kind, statement(c.source), statement(c.target)) for c in conflicts(steps)}


@pytest.mark.parametrize(
    ("statements", "stale"),
    [("1S 2S 1U 2U", "2"), ("1S 2S 2U 1U", "1"), ("2S 1S 2U 1U", "1")],
)
def test_the_stale_read_and_the_lost_write(statements: str, stale: str) -> None:
    """Both read 0, one writes 1, and the other, whose read is stale, writes 1 too."""
    other = {"1": "2", "2": "1"}[stale]
    for what in ("lost_update/naive", "lost_update/atomic_only"):
        assert told(what, statements) == {
            ("stale", f"{stale}S", f"{stale}U"),
            ("lost", f"{other}U", f"{stale}U"),
        }


def test_what_is_read_before_the_other_commits_is_stale() -> None:
    assert told("lost_update/atomic_only", "1S 1U 2S 2U") == {
        ("stale", "2S", "2U"),
        ("lost", "1U", "2U"),
    }


def test_a_missing_row_is_read_and_inserted_twice() -> None:
    assert told("row_lock_on_no_row/as_found", "1S 2S 1I 2I") == {
        ("stale", "2S", "2I"),
        ("missed", "1I", "2I"),
    }


def test_the_edit_that_is_written_over_and_the_insert_that_fails() -> None:
    # Process 1 reads the old target, process 2 edits it, and process 1 saves every column.
    assert told("clobbered_edit/f_expression_full_save", "1S 2U 1U") == {
        ("stale", "1S", "1U"),
        ("lost", "2U", "1U"),
    }
    # Both find that the key is free, process 1 takes it, and process 2 cannot.
    assert told("toctou/check_first", "1S 2S 1I 2I") == {
        ("stale", "2S", "2I"),
        ("refused", "1I", "2I"),
    }
    assert ("refused", "1I", "2I") in told("toctou_in_a_transaction/forgiveness", "1I 1I 2I")


def test_the_row_of_another_process() -> None:
    kept = recorded("toctou/get_or_create")
    serial = min(schedules_of(kept), key=lambda each: each.order)
    (only,) = conflicts(serial.steps)
    assert only.kind == "foreign"
    assert only.said_at_target == "takes what process 1 has written"
