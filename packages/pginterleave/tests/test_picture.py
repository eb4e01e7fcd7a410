"""The places in a picture: boxes do not overlap, lanes do not, and a text is in its box."""

import re
from itertools import combinations, pairwise

import pytest

from pginterleave.picture.cells import Picture, judge_end
from pginterleave.picture.grid import CHARACTER_WIDTH, DENSE, NARROW, WIDE, Grid, Size
from pginterleave.picture.layout import Path, Rect, Text, draw, draw_for_screens

from .discovery.test_page import make_step, make_write, number_steps

ROW = {"condition": {"id": "1"}, "read": [{"id": "1", "hits": "0"}]}
WRITE = {"condition": {"id": "1"}, "wrote": {"hits": "1"}, "lock": "FOR NO KEY UPDATE"}
LOCK = {"lock": "advisory", "lock_name": "a", "rows": 0}
STEPS = number_steps(
    [
        make_step(1, "", kind="SELECT", **LOCK, in_transaction=[1], observed="hits = 0"),
        make_step(1, "items", **ROW, in_transaction=[1], observed="hits = 0"),
        make_write(3, "items") | WRITE | {"in_transaction": [1, 3], "observed": "hits = 0"},
        make_write(2, "items")
        | WRITE
        | {"waited_for": [3], "until": 5, "in_transaction": [1, 2, 3], "observed": "hits = 0"},
        make_step(3, "", in_transaction=[1, 2], observed="hits = 1, of links that are long"),
        make_write(1, "items") | WRITE | {"error": "IntegrityError", "in_transaction": [1, 2]},
        make_step(2, "", in_transaction=[1], observed="hits = 2"),
        make_step(1, "", kind="ROLLBACK", observed="hits = 2"),
    ]
)
PICTURE = Picture(
    all_steps=STEPS,
    steps=STEPS,
    processes=3,
    initial="hits = 0",
    verdict=judge_end("hits = 2, not 3", raises=False, due="Every hit is counted."),
    outcomes=["IntegrityError: twice", "", ""],
)
SIZES = pytest.mark.parametrize("size", [WIDE, DENSE, NARROW], ids=lambda size: size.name)


def do_overlap(box: Rect, other: Rect) -> bool:
    beside = box.x + box.width <= other.x or other.x + other.width <= box.x
    return not (beside or box.y + box.height <= other.y or other.y + other.height <= box.y)


def find_ends(text: Text, size: Size) -> tuple[float, float]:
    """Return where a text begins and ends."""
    font = size.font if text.style in ("said", "held", "verdict wrong") else size.small
    width = len(text.text) * font * CHARACTER_WIDTH
    begin = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    return begin, begin + width


@SIZES
def test_the_lanes_fill_the_width_side_by_side(size: Size) -> None:
    grid = Grid(PICTURE, size)
    lanes = [grid.lanes[1], grid.row_lane, grid.lanes[2], grid.lanes[3]]
    assert lanes[0].left == size.gutter
    assert lanes[-1].right == pytest.approx(size.width)
    assert all(lane.right == pytest.approx(after.left) for lane, after in pairwise(lanes))
    for process, lane in grid.lanes.items():
        left, right = grid.find_sides(process)
        before, after = (lane.left, lane.right) if process == 1 else (-lane.right, -lane.left)
        outside, inside = (left, right) if process == 1 else (-right, -left)
        assert outside == pytest.approx(before + size.margin)
        assert outside < inside < after
        assert lane.left < grid.find_inner_edge(process) < lane.right
    assert [len(grid.list_locked(process)) for process in (1, 2, 3)] == [1, 1, 1]


@SIZES
def test_no_two_boxes_overlap_and_each_text_is_in_its_box(size: Size) -> None:
    drawing = draw(PICTURE, size)
    boxes = drawing.above
    assert not [pair for pair in combinations(boxes, 2) if do_overlap(*pair)]
    assert {box.style.split()[0] for box in boxes} == {"step", "value", "lock", "verdict"}
    for text in drawing.texts:
        if text.style in ("head", "number"):
            continue
        begin, end = find_ends(text, size)
        around = [box for box in boxes if box.y < text.y < box.y + box.height]
        assert any(box.x <= begin and end <= box.x + box.width for box in around), text
    numbers = [text.text for text in drawing.texts if text.style == "number"]
    assert numbers == [str(number) for number in range(1, 9)]


@SIZES
def test_each_arrow_leads_from_its_row_to_its_row_within_the_picture(size: Size) -> None:
    grid, drawing = Grid(PICTURE, size), draw(PICTURE, size)
    assert [arrow.style for arrow in drawing.arrows] == ["conflict stale", "conflict refused"]
    for arrow, conflict in zip(drawing.arrows, PICTURE.conflicts, strict=True):
        x, y, *_, to_x, to_y = map(float, re.findall(r"[\d.]+", arrow.d))
        for at, number in ((y, conflict.source or 0), (to_y, conflict.target)):
            assert grid.tops[number] < at < grid.bottoms[number]
        for at, number in ((x, conflict.source or 0), (to_x, conflict.target)):
            lane = grid.lanes[STEPS[number - 1]["process"]]
            assert lane.left < at < lane.right
        assert arrow.step == conflict.target
    lines = [shape for shape in drawing.below if isinstance(shape, Path) and shape.head]
    assert [line.style for line in lines if line.head == "wait"] == ["for-whom", "release"]
    for line in lines:
        x, y, to_x = map(float, re.findall(r"[\d.]+", line.d))
        assert size.gutter <= min(x, to_x) < max(x, to_x) <= size.width
        assert grid.tops[line.step] < y < grid.bottoms[line.step]


@SIZES
def test_the_frame_of_a_transaction_is_around_its_cells_and_in_its_lane(size: Size) -> None:
    grid, drawing = Grid(PICTURE, size), draw(PICTURE, size)
    frames = [shape for shape in drawing.below if shape.style.startswith("transaction")]
    assert [frame.style.split()[1] for frame in frames] == ["commit", "commit", "rollback"]
    for frame, transaction in zip(frames, PICTURE.transactions, strict=True):
        assert isinstance(frame, Rect)
        lane = grid.lanes[transaction.process]
        assert lane.left <= frame.x < frame.x + frame.width <= lane.right
        own = [n for n, step in enumerate(STEPS, start=1) if step["process"] == transaction.process]
        cells = [box for box in drawing.above if box.style.split(" has-")[0] == "step"]
        for box in [box for box in cells if box.step in own]:
            assert frame.x < box.x < box.x + box.width < frame.x + frame.width
            assert frame.y < box.y < box.y + box.height < frame.y + frame.height


def test_a_high_picture_is_dense() -> None:
    low = Picture(STEPS[:2], STEPS[:2], 3, "", judge_end("", raises=False), [""] * 3)
    assert [drawing.size for drawing in draw_for_screens(low)] == [WIDE, NARROW]
    assert [drawing.size for drawing in draw_for_screens(PICTURE)] == [DENSE, NARROW]
