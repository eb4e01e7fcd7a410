"""The grid of a picture: the width of its lanes, the height of its rows, and wrapped text."""

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from pginterleave.picture.cells import LOCK, SAID, CellLine, Picture

CHARACTER_WIDTH = 0.605  # the width of a monospaced character, as a share of the font size


class Size(NamedTuple):
    """The measures of a drawing for one kind of screen."""

    name: str
    width: float
    font: float  # the font size of a step's words
    small: float  # the font size of other lines
    gutter: float  # on the left, for the numbers of the steps
    margin: float  # on the outer side of a lane, for arrows
    pad: float  # around a cell, and in it around the text


WIDE = Size("wide", width=760, font=14, small=12.5, gutter=26, margin=20, pad=7)
DENSE = Size("dense", width=760, font=12, small=11.5, gutter=26, margin=20, pad=2.5)
NARROW = Size("narrow", width=340, font=12, small=12, gutter=18, margin=5, pad=2.5)  # for a phone
MAX_WIDE_HEIGHT = 470  # as a laptop shows without scrolling; a higher picture is DENSE

LOCK_WIDTH = 6.0  # of the bar of a lock, which is beside the cells of its process
LOCK_GAP = 2.0  # between two of these bars
ROWS_SHARE = 0.6  # the width of the lane of the rows, relative to the lane of a process


class Lane(NamedTuple):
    """A column of the picture, for a process or for the rows of the table."""

    left: float
    right: float
    inner: int  # the side next to the lane of the rows: 1 right, -1 left, 0 for that lane itself


class PlacedLine(NamedTuple):
    """A line of a cell; `beside` is the mode of a lock at the end of the line."""

    text: str
    kind: str
    height: float
    beside: str = ""


class Grid:
    """Where the lanes and rows of a picture are.

    Process 1 has the lane on the left, then comes the lane of the table's rows, then the others.
    """

    def __init__(self, picture: Picture, size: Size) -> None:
        self.picture = picture
        self.size = size
        width = (size.width - size.gutter) / (picture.processes + ROWS_SHARE)
        left = size.gutter + width
        self.lanes = {1: Lane(size.gutter, left, inner=1)}
        self.row_lane = Lane(left, left + width * ROWS_SHARE, inner=0)
        left = self.row_lane.right
        for process in range(2, picture.processes + 1):
            self.lanes[process] = Lane(left, left + width, inner=-1)
            left += width
        self.tops = [*self._measure_rows()]  # of each row, and where the last one ends
        self.bottoms = self.tops[1:]

    def list_locked(self, process: int) -> list[str]:
        """Return what a process locks; each lock has a separate column in the lane."""
        locks = self.picture.locks
        return list(dict.fromkeys(lock.on for lock in locks if lock.process == process))

    def find_sides(self, process: int) -> tuple[float, float]:
        """Return the sides of the cells in a lane: outside are arrows, and inside, locks."""
        lane = self.lanes[process]
        size = self.size
        locks_width = len(self.list_locked(process)) * (LOCK_WIDTH + LOCK_GAP)
        if lane.inner > 0:
            return lane.left + size.margin, lane.right - size.pad - locks_width
        return lane.left + size.pad + locks_width, lane.right - size.margin

    def _measure_rows(self) -> Iterator[float]:
        """Yield where each row begins, and where the last one ends."""
        size = self.size
        top = size.font * 2.1  # below the titles of the lanes
        yield top
        for row in self.picture.rows:
            cells = [self.place_lines(process, lines) for process, lines in row.lines.items()]
            value_lines = self.wrap_value(row.value)
            heights = [sum(line.height for line in lines) for lines in (*cells, value_lines)]
            top += max(size.font * 1.3, *heights) + size.pad * 2
            yield top

    def place_lines(self, process: int, lines: list[CellLine]) -> list[PlacedLine]:
        """Return the lines of a cell; a lock's mode is put beside the first line if it fits."""
        left, right = self.find_sides(process)
        width = right - left - 2 * self.size.pad
        placed: list[PlacedLine] = []
        for line in sorted(lines, key=lambda line: line.kind == LOCK):  # the modes are last
            if line.kind == LOCK and placed and not placed[0].beside:
                font_widths = (len(placed[0].text) + 1) * self.size.font
                font_widths += len(line.text) * self.size.small
                if font_widths * CHARACTER_WIDTH < width:
                    placed[0] = placed[0]._replace(beside=line.text)
                    continue
            font = self.size.font if line.kind == SAID else self.size.small
            placed += _wrap(line.text, line.kind, font, width)
        return placed

    def wrap_value(self, value: str) -> list[PlacedLine]:
        width = self.row_lane.right - self.row_lane.left - 4 * self.size.pad  # 2 on each side
        return _wrap(value, "held", self.size.font, width)

    def wrap_verdict(self) -> list[PlacedLine]:
        """Return the lines below the rows, with the verdict and what was due."""
        verdict = self.picture.verdict
        size = self.size
        width = size.width - size.gutter - 4 * size.pad
        text = f"{verdict.sign} {verdict.text}" if self.picture.is_whole else ""
        due = f"Due: {verdict.due}" if text and verdict.due else ""
        verdict_lines = _wrap(text, f"verdict {verdict.kind}", size.font, width)
        return verdict_lines + _wrap(due, "due", size.small, width)

    def find_middle(self, row: int) -> float:
        """Return the height of the middle of a row's first line."""
        return self.tops[row] + self.size.pad + self.size.font * 0.65  # a line is 1.3 high

    def find_inner_edge(self, process: int) -> float:
        """Return the side of a lane next to the rows."""
        lane = self.lanes[process]
        return lane.right - self.size.pad if lane.inner > 0 else lane.left + self.size.pad


def _wrap(text: str, kind: str, font: float, width: float) -> list[PlacedLine]:
    """Return the lines of a text in a cell of this width; a line has six characters or more."""
    characters = max(6, int(width / (font * CHARACTER_WIDTH)))
    return [PlacedLine(line, kind, font * 1.3) for line in textwrap.wrap(text, characters)]
