"""The places in a picture: no two boxes overlap, a text is in its box; and the words in it."""

import re
from itertools import combinations, pairwise
from typing import Any

import pytest

from pginterleave.picture.cells import Picture, judge_end
from pginterleave.picture.grid import DENSE, NARROW, WIDE, Grid, Size
from pginterleave.picture.history import cut_steps
from pginterleave.picture.layout import Drawing, Path, Rect, Text, draw, draw_for_screens
from pginterleave.picture.wording import shorten

from .discovery.test_page import make_step, make_write, number_steps

ROW = {"condition": {"id": "1"}, "read": [{"id": "1", "hits": "0"}]}
WRITE = {"condition": {"id": "1"}, "wrote": {"hits": "1"}, "lock": "FOR NO KEY UPDATE"}
LOCK = {"kind": "SELECT", "lock": "advisory", "lock_name": "a", "rows": 0}
WAIT = {"waited_for": [3], "until": 5}
STEPS = number_steps(
    [
        make_step(1, "", **LOCK, in_transaction=[1], observed="hits = 0"),
        make_step(1, "items", **ROW, in_transaction=[1], observed="hits = 0"),
        make_write(3, "items") | WRITE | {"in_transaction": [1, 3], "observed": "hits = 0"},
        make_write(2, "items")
        | WRITE
        | WAIT
        | {"in_transaction": [1, 2, 3], "observed": "hits = 0"},
        make_step(3, "", in_transaction=[1, 2], observed="hits = 1, of links that are long"),
        make_write(1, "items") | WRITE | {"error": "IntegrityError", "in_transaction": [1, 2]},
        make_step(2, "", in_transaction=[1], observed="hits = 2"),
        make_step(1, "", kind="ROLLBACK", observed="hits = 2"),
    ]
)
SIZES = pytest.mark.parametrize("size", [WIDE, DENSE, NARROW], ids=lambda size: size.name)


def make_picture(number: int = len(STEPS)) -> Picture:
    """Return the picture of the first steps; the others are hidden."""
    hidden = "".join(str(step["process"]) for step in STEPS[number:])
    outcomes = ["IntegrityError: twice", "", ""]
    verdict = judge_end("hits = 2, not 3. " * 20, raises=False, due="Every hit is counted.")
    return Picture(STEPS, cut_steps(STEPS, number), 3, "hits = 0", verdict, outcomes, hidden)


PICTURE = make_picture()


def find_texts(drawing: Drawing, box: Rect) -> list[Text]:
    """Return the texts that begin in a box, from top to bottom."""
    texts = [text for text in drawing.texts if box.y < text.y < box.y + box.height]
    texts = [text for text in texts if box.x <= text.x <= box.x + box.width]
    return sorted(texts, key=lambda text: text.y)


def do_overlap(box: Rect, other: Rect) -> bool:
    beside = box.x + box.width <= other.x or other.x + other.width <= box.x
    return not (beside or box.y + box.height <= other.y or other.y + other.height <= box.y)


@SIZES
def test_the_lanes_fill_the_width_side_by_side(size: Size) -> None:
    grid = Grid(PICTURE, size)
    lanes = [grid.lanes[1], grid.row_lane, grid.lanes[2], grid.lanes[3]]
    assert lanes[0].left == size.gutter
    assert lanes[-1].right == pytest.approx(size.width)
    assert all(lane.right == pytest.approx(after.left) for lane, after in pairwise(lanes))
    assert all(bottom - top >= size.font * 1.3 for top, bottom in pairwise(grid.tops))
    for process, lane in grid.lanes.items():
        left, right = grid.find_sides(process)
        outer, inner = (left, right) if process == 1 else (right, left)
        assert abs(outer - (lane.left if process == 1 else lane.right)) == pytest.approx(
            size.margin
        )
        edge = grid.find_inner_edge(process)
        assert lane.left < min(outer, inner) < max(outer, inner) < lane.right
        assert abs(edge - outer) > abs(inner - outer)  # the bars of its locks are between
        assert lane.left < edge < lane.right


def test_the_mode_of_a_lock_is_beside_the_words_or_below_them_if_it_does_not_fit() -> None:
    modes = [text for text in draw(PICTURE, WIDE).texts if text.style == "mode"]
    anchors = {text.text: text.anchor for text in modes}
    assert anchors == {"advisory": "end", "FOR NO KEY UPDATE": "start"}


@SIZES
@pytest.mark.parametrize("number", range(len(STEPS) + 1))
def test_no_two_boxes_overlap_and_each_text_is_in_its_box(size: Size, number: int) -> None:
    """Also while a wait and a transaction go on."""
    drawing = draw(make_picture(number), size)
    boxes = drawing.above
    assert not [pair for pair in combinations(boxes, 2) if do_overlap(*pair)]
    in_boxes: list[Text] = []
    for box in boxes:
        assert 0 < box.y < box.y + box.height <= drawing.height
        texts = find_texts(drawing, box)
        in_boxes += texts
        assert bool(texts) is not box.style.startswith("lock")
        assert not texts or texts[0].style != "mode"  # it comes behind the words or below them
        assert box.title == "" or not box.style.startswith("step back")
        for text in texts:
            font = size.font if re.match("said|held|verdict", text.style) else size.small
            width = len(text.text) * font * 0.6
            begin = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
            assert box.x <= begin < begin + width <= box.x + box.width, text
    others = [text for text in drawing.texts if text not in in_boxes]
    assert {text.style for text in others} == {"head", "number"}
    assert [text.text for text in others if text.style == "number"] == [*"12345678"]
    assert len({(text.x, text.y) for text in drawing.texts}) == len(drawing.texts)
    assert len(drawing.ends) == number + 1
    releases = [shape for shape in drawing.below if shape.style == "release"]
    assert len(releases) == (number >= STEPS[3]["until"])  # before it, who ends the wait is hidden


@SIZES
def test_each_line_leads_from_its_row_to_its_row_beside_the_boxes(size: Size) -> None:
    grid, drawing = Grid(PICTURE, size), draw(PICTURE, size)
    assert [arrow.style for arrow in drawing.arrows] == ["conflict stale", "conflict refused"]
    for arrow, conflict in zip(drawing.arrows, PICTURE.conflicts, strict=True):
        x, y, bend, _, _, _, to_x, to_y = map(float, re.findall(r"[\d.]+", arrow.d))
        for at, number in ((y, conflict.source or 0), (to_y, conflict.target)):
            assert grid.tops[number] < at < grid.bottoms[number]
        for at, number in ((x, conflict.source or 0), (to_x, conflict.target)):
            lane = grid.lanes[STEPS[number - 1]["process"]]
            assert lane.left < at < lane.right
        assert arrow.step == conflict.target
        if conflict.kind == "stale":  # of one process: a bow in the margin
            assert bend < x == to_x == pytest.approx(grid.find_sides(1)[0], abs=0.1)
    lines = [shape for shape in drawing.below if isinstance(shape, Path) and shape.head]
    assert [line.style for line in lines] == ["for-whom", "release", "flow", "flow", "flow"]
    for line in lines:
        x, y, to_x = map(float, re.findall(r"[\d.]+", line.d))
        assert size.gutter <= min(x, to_x) < max(x, to_x) <= size.width
        assert grid.tops[line.step] < y < grid.bottoms[line.step]
        ends = min(x, to_x) + 1, max(x, to_x) - 1  # they are rounded
        way = Rect(ends[0], y, ends[1] - ends[0], 1, "")
        kinds = {box: box.style.split(" has-")[0] for box in drawing.above}
        boxes = [box for box in drawing.above if kinds[box] in ("step", "value")]
        assert line.head == "wait" or not [box for box in boxes if do_overlap(way, box)]


@SIZES
def test_a_transaction_and_a_lock_go_as_far_as_they_are_held(size: Size) -> None:
    grid, drawing = Grid(PICTURE, size), draw(PICTURE, size)
    frames = [shape for shape in drawing.below if shape.style.startswith("transaction")]
    assert [frame.style.split()[1] for frame in frames] == ["commit", "commit", "rollback"]
    bars = [box for box in drawing.above if box.style == "lock"]
    frame_of = {}
    for frame, transaction in zip(frames, PICTURE.transactions, strict=True):
        assert isinstance(frame, Rect)
        frame_of[transaction.process] = frame
        own = [n for n, step in enumerate(STEPS, start=1) if step["process"] == transaction.process]
        cells = [box for box in drawing.above if box.style.split(" has-")[0] == "step"]
        for box in [box for box in cells if box.step in own]:
            gaps = box.x - frame.x, frame.x + frame.width - box.x - box.width
            assert min(gaps) > 0
            assert gaps[transaction.process != 1] < 4  # outside of it, arrows have the margin
            assert frame.y < box.y < box.y + box.height < frame.y + frame.height
    for bar, lock in zip(bars, PICTURE.locks, strict=True):
        assert grid.tops[lock.first] < bar.y < grid.bottoms[lock.first]
        assert grid.tops[lock.last] < bar.y + bar.height < grid.bottoms[lock.last]
        frame = frame_of[lock.process]
        assert frame.x - 1 < bar.x < bar.x + bar.width < frame.x + frame.width + 1
    modes = " ".join(text.text for text in drawing.texts if text.style == "mode")
    assert "advisory" in modes
    assert "FOR NO" in modes


def test_a_row_has_the_value_where_it_changes_and_the_last_one_has_the_exceptions() -> None:
    changed = {number: row.value for number, row in enumerate(PICTURE.rows) if row.value}
    assert changed == {0: "hits = 0", 5: STEPS[4]["observed"], 7: "hits = 2"}
    exceptions = PICTURE.rows[-1].lines
    assert {process: line.text for process, [line] in exceptions.items()} == {
        1: "⊘ raises IntegrityError"
    }
    assert len(PICTURE.rows) == len(STEPS) + 2


def test_a_high_picture_is_dense() -> None:
    low = Picture(STEPS[:2], STEPS[:2], 3, "", judge_end("", raises=False), [""] * 3)
    assert [drawing.size for drawing in draw_for_screens(low)] == [WIDE, NARROW]
    assert [drawing.size for drawing in draw_for_screens(PICTURE)] == [DENSE, NARROW]
    tops = Grid(low, WIDE).tops
    assert all(bottom - top >= WIDE.font * 1.3 for top, bottom in pairwise(tops))


ITEM = {"condition": {"id": "1"}}
CHANGE = make_write(2, "items") | ITEM | {"wrote": {"hits": "5"}}


@pytest.mark.parametrize(
    ("kind", "facts", "words", "sentence"),
    [
        ("SELECT", ROW, "read hits = 0", "reads hits = 0"),
        ("SELECT", ITEM, "read 1: no row", "finds no row of 1"),
        ("SELECT", ITEM | {"read": [{"id": "1"}]}, "read 1: found", "finds 1"),
        ("SELECT", {"table": "", "read": [{"n": "7"}]}, "read n = 7", "reads n = 7"),
        (
            "SELECT",
            ROW | {"lock": "FOR UPDATE"},
            "lock 1, read hits = 0",
            "locks 1 and reads hits = 0",
        ),
        ("SELECT", ITEM | {"lock": "FOR UPDATE"}, "lock 1, no row", "finds no row to lock 1"),
        ("SELECT", LOCK | {"table": ""}, "lock a", "locks a"),
        ("LOCK", {"lock": "EXCLUSIVE"}, "lock table", "locks the table"),
        ("INSERT", {"wrote": {"id": "9", "n": None, "hits": "1"}}, "insert hits = 1", ""),
        ("INSERT", {}, "insert", "inserts"),
        (
            "UPDATE",
            ITEM | {"computed": {"hits": "hits + 1"}, "read": [{"hits": "6"}]},
            "write hits = hits + 1 → hits = 6",
            "writes hits = hits + 1, which makes hits = 6",
        ),
        (
            "UPDATE",
            ITEM | {"computed": {"at": "CURRENT_TIMESTAMP"}},
            "write at = now",
            "writes at = now",
        ),
        ("UPDATE", WRITE | {"rows": 0}, "write hits = 1 no row", "finds no row to write hits = 1"),
        ("DELETE", ITEM, "delete 1", "deletes 1"),
        ("DELETE", ITEM | {"rows": 0}, "delete 1 no row", "finds no row to delete 1"),
        ("COMMIT", {}, "commit", "commits"),
        ("ROLLBACK", {}, "rollback", "rolls back"),
        ("SAVEPOINT", {}, "savepoint", "sets a savepoint"),
        ("RELEASE", {}, "release savepoint", "releases its savepoint"),
        ("ROLLBACK TO", {}, "rollback to savepoint", "rolls back to its savepoint"),
        ("SET", {}, "set isolation level", "sets the isolation level"),
        ("CLOSE", {}, "close", "closes its cursor"),
        ("FETCH", {}, "fetch", "fetches rows"),
        ("CALL", {}, "call", "sends CALL"),
        (
            "SELECT",
            ROW | {"alone": True},
            "",
            "tries again, after all have ended, and reads hits = 0",
        ),
        (
            "UPDATE",
            WRITE | {"error": "IntegrityError"},
            "write hits = 1 IntegrityError",
            "wants to write hits = 1, and is refused: IntegrityError",
        ),
        (
            "UPDATE",
            WRITE | {"error": "DeadlockDetected"},
            "",
            "is ended by PostgreSQL, as each waits for the other",
        ),
        (
            "UPDATE",
            WRITE | {"error": "SerializationFailure", "pivot": True},
            "",
            "wants to write hits = 1, and PostgreSQL ends it as the pivot of a write skew",
        ),
        (
            "UPDATE",
            WRITE | {"waited_for": [2, 3], "until": 2},
            "write hits = 1",
            "wants to write hits = 1, and waits for processes 2 and 3",
        ),
    ],
)
def test_a_step_in_words_and_in_a_sentence(
    kind: str, facts: dict[str, Any], words: str, sentence: str
) -> None:
    writes = ["items"] if kind in ("INSERT", "UPDATE", "DELETE") else []
    step = make_step(1, "items") | {"sql": kind, "kind": kind, "writes": writes} | facts
    steps = number_steps([step, CHANGE])
    picture = Picture(steps, steps, 2, "", judge_end("", raises=False), ["", ""])
    assert str(picture.words[0]) == words or not words
    sentence = sentence or "inserts hits = 1"
    assert picture.sentences[0] == f"Process 1 {sentence}."
    if step["waited_for"]:
        assert picture.sentences[1] == "Process 2 writes hits = 5, and process 1 writes hits = 1."
        assert "waits for processes 2 and 3" in [line.text for line in picture.rows[1].lines[1]]


def test_a_value_is_shown_as_short_text() -> None:
    texts = {
        None: "NULL",
        "https://a.example/b/": "a.example/b",
        "2022-04-29 12:00:00+00:00": "2022-04-29",
        "1 day, 0:00:00": "1 day",
        "30 days, 0:00:00": "30 days",
        "x" * 24: "x" * 24,
        "x" * 25: f"{'x' * 23}…",
    }
    assert {value: shorten(value) for value in texts} == texts
