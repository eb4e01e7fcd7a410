"""The picture of a schedule: its facts, from real explorations, and their places.

A picture has the facts, without measures; a drawing has the shapes, with their places.
"""

from collections.abc import Iterator

import pytest

from lab.conftest import find_schedule, list_schedules, read_recorded
from lab.pages.schedules import make_picture
from lab.recordings.recording import RecordedSchedule
from pginterleave.picture.cells import Picture
from pginterleave.picture.conflicts import find_conflicts
from pginterleave.picture.grid import DENSE, NARROW, WIDE, Size
from pginterleave.picture.layout import Rect, Text, draw
from pginterleave.picture.wording import word_steps

# Waits, errors, an isolation level, a deadlock with second tries, and a write skew.
CELLS = (
    "lost_update/naive",
    "lost_update/naive/2/serializable",
    "lost_update/select_for_update/3",
    "toctou/check_first",
    "toctou_in_a_transaction/forgiveness",
    "crossed_locks/update_returning",
    "write_skew/with_a_retry/2/serializable",
)

ENDS = ("commit", "rollback")


def find_step_number(schedule: RecordedSchedule, process: int, kind: str) -> int:
    return 1 + [(step["process"], step["kind"]) for step in schedule.steps].index((process, kind))


RETURNING = "write hits = hits + 1 → hits"
# A recording, the order of a schedule, the conflicts that explain its violation (kind, statement
# of the source and of the target: 2U is the UPDATE of process 2), and the steps in words, or "".
EXPLAINED = [
    # Both read 0, one writes 1, and the other, whose read is stale, writes 1 too.
    (
        "lost_update/naive",
        "121122",
        "stale 2S 2U, lost 1U 2U",
        "1 read hits = 0; 2 read hits = 0; 1 write hits = 1; 2 write hits = 1",
    ),
    (
        "row_lock_on_no_row/as_found",
        "121122",
        "stale 2S 2I, missed 1I 2I",
        "1 lock 2022-04-29, no row; 2 lock 2022-04-29, no row; "
        "1 insert hour = 2022-04-29; 2 insert hour = 2022-04-29",
    ),
    # Process 1 reads the old target, process 2 edits it, and process 1 saves every column.
    (
        "clobbered_edit/f_expression_full_save",
        "12121",
        "stale 1S 1U, lost 2U 1U",
        "1 read hits = 0, target_url = old.example; 2 write target_url = new.example; "
        "1 write target_url = old.example, hits = hits + 1",
    ),
    # Both find that the key is free, process 1 takes it, and process 2 cannot.
    (
        "toctou/check_first",
        "12112",
        "stale 2S 2I, refused 1I 2I",
        "1 read same: no row; 2 read same: no row; "
        "1 insert key = same; 2 insert key = same UniqueViolation",
    ),
    ("toctou/get_or_create", "1112", "foreign 1I 2S", ""),
    ("lost_update/update_returning", "1122", "", f"1 {RETURNING} = 1; 2 {RETURNING} = 2"),
]


@pytest.mark.parametrize(("cell", "order", "explained", "in_words"), EXPLAINED)
def test_the_words_of_the_steps_and_the_conflicts_that_explain_a_violation(
    cell: str, order: str, explained: str, in_words: str
) -> None:
    steps = find_schedule(read_recorded(cell), order).steps
    words = zip(steps, word_steps(steps), strict=True)
    texts = [f"{step['process']} {text}" for step, text in words if str(text) not in ENDS]
    if in_words:
        assert in_words == "; ".join(texts)
    statements = {n: f"{step['process']}{step['kind'][0]}" for n, step in enumerate(steps, start=1)}
    assert explained == ", ".join(
        f"{conflict.kind} {statements[conflict.source or 0]} {statements[conflict.target]}"
        for conflict in find_conflicts(steps)
    )


def test_the_first_steps_do_not_reveal_what_follows() -> None:
    recording = read_recorded("lost_update/select_for_update")
    schedule = find_schedule(recording, "121122")
    shown = find_step_number(schedule, 2, "SELECT")  # at this step a wait begins
    picture = make_picture(recording, schedule, shown, hidden=schedule.order[shown:])
    assert [(wait.first, wait.last) for wait in picture.waits] == [(shown, shown + 1)]
    assert picture.sentences[-1].startswith("Process 2 wants to lock a")
    assert {transaction.end for transaction in picture.transactions} == {""}  # none has ended
    texts = [text.text for text in draw(picture, WIDE).texts]
    assert "hits = 1" not in texts
    assert texts.count("?") == len(schedule.steps) - shown


def test_each_step_has_a_sentence_and_the_last_box_says_what_was_due() -> None:
    recording = read_recorded("lost_update/atomic_only")
    schedule = find_schedule(recording, "112122")
    picture = make_picture(recording, schedule, len(schedule.steps))
    assert picture.sentences[1:3] == [
        "Process 1 writes hits = 1.",
        "Process 2 reads hits = 0, although process 1 has written hits = 1.",
    ]
    styles = {text.text: text.style for text in draw(picture, WIDE).texts}
    assert styles["✗ hits = 1, not 2"] == "verdict wrong"
    assert "Due: All are redirected, and every hit is counted." in styles
    first_steps = make_picture(recording, schedule, 3)
    assert not any("verdict" in text.style for text in draw(first_steps, WIDE).texts)


def test_a_stale_read_names_the_write_that_it_has_not_seen() -> None:
    """Process 1 has written before it; the write of process 2 is the fifth step."""
    recording = read_recorded("lost_update/atomic_only/3")
    schedule = find_schedule(recording, "111223233")
    sentence = make_picture(recording, schedule, 6).sentences[5]
    assert sentence == "Process 3 reads hits = 1, although process 2 has written hits = 2."
    # At READ COMMITTED a second statement of a transaction is not stale.
    recording = read_recorded("toctou/table_lock")
    picture = make_picture(recording, find_schedule(recording, "111212222"), 9)
    assert "Process 2 finds same." in picture.sentences


def test_a_violation_with_an_error_is_drawn_as_refused_and_not_as_wrong() -> None:
    recording = read_recorded("toctou/check_first")
    schedule = find_schedule(recording, "12112")
    drawing = draw(make_picture(recording, schedule, len(schedule.steps)), WIDE)
    assert drawing.kind == "refused"
    assert "⊘ process 2 raises IntegrityError" in {text.text for text in drawing.texts}


# An order, the victim of the deadlock, the step of the victim, and the step of the other process.
# In an order `2a` is a step of process 2 that makes process 1 the victim.
@pytest.mark.parametrize(
    ("order", "victim", "ended", "other"), [("121212", 2, 4, 3), ("1212a12", 1, 3, 4)]
)
def test_the_victim_of_a_deadlock_tries_again_when_all_have_ended(
    order: str, victim: int, ended: int, other: int
) -> None:
    recording = read_recorded("crossed_locks/update_returning")
    schedule = find_schedule(recording, order)
    picture = make_picture(recording, schedule, len(schedule.steps))
    conflicts = [(cycle.kind, cycle.source, cycle.target) for cycle in picture.conflicts]
    assert conflicts == [("cycle", ended, other), ("cycle", other, ended)]
    assert "is ended by PostgreSQL" in picture.sentences[3]
    assert picture.conflicts[0].text_at_source.endswith(f"which waits for process {victim}")
    again = schedule.all_steps[len(schedule.steps) :]  # the second try
    assert {step["process"] for step in again} == {victim}
    assert [step["until"] for step in again] == [7, 8, 9]  # their own numbers: no step waits
    assert picture.sentences[6].startswith(
        f"Process {victim} tries again, after all have ended, and"
    )
    assert picture.last_value == "a: 2, b: 2"
    first_steps = make_picture(recording, schedule, 5)
    assert not first_steps.is_whole
    assert len(first_steps.rows) == 7  # with the initial row and that of the open transaction


def test_the_pivot_of_a_write_skew_tries_again() -> None:
    recording = read_recorded("write_skew/with_a_retry/2/serializable")
    schedule = find_schedule(recording, "12112222")
    picture = make_picture(recording, schedule, len(schedule.steps))
    write = find_step_number(schedule, 2, "UPDATE")
    assert picture.sentences[write - 1].endswith(
        "PostgreSQL ends it as the pivot of a write skew, "
        "although process 1 rests on what it read there in step 1."
    )
    assert picture.sentences[-2] == "Process 2 tries again, and reads red: count = 1."
    assert {conflict.kind for conflict in picture.conflicts} == {"skew"}
    assert len(picture.conflicts) == 2


def begins_in(text: Text, box: Rect) -> bool:
    return box.x <= text.x <= box.x + box.width and box.y <= text.y <= box.y + box.height


def make_pictures() -> Iterator[Picture]:
    for recording in map(read_recorded, CELLS):
        for schedule in list_schedules(recording):
            yield make_picture(recording, schedule, len(schedule.steps))


@pytest.mark.parametrize("size", [WIDE, DENSE, NARROW], ids=lambda size: size.name)
def test_all_is_within_the_picture_and_each_text_begins_in_a_box(size: Size) -> None:
    for picture in make_pictures():
        drawing = draw(picture, size)
        for shape in [*drawing.below, *drawing.above]:  # below and above the arrows
            if isinstance(shape, Rect):
                assert shape.x >= 0
                assert shape.height > 0
                assert shape.x + shape.width <= size.width
                assert shape.y + shape.height <= drawing.height
        # A lock is a bar beside the steps, without a text.
        boxes = [box for box in drawing.above if not box.style.startswith("lock")]
        for text in drawing.texts:
            is_in_a_box = any(begins_in(text, box) for box in boxes)
            assert is_in_a_box or text.style in ("number", "head"), text


def test_the_steps_are_drawn_in_their_order_and_each_conflict_with_a_source_has_an_arrow() -> None:
    for picture in make_pictures():
        drawing = draw(picture, WIDE)
        tops = [box.y for box in drawing.above if box.style.startswith("step")]
        assert tops == sorted(tops)
        assert len(drawing.ends) == 1 + len(picture.all_steps)  # that of the first row, too
        sources = [conflict.source for conflict in picture.conflicts if conflict.source]
        assert len(drawing.arrows) == len(sources)
        assert all(arrow.step for arrow in drawing.arrows)
