"""The grid of a picture: the width of its lanes, the height of its rows, and wrapped text."""

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from pginterleave.picture.cells import LOCK, SAID, CellLine, Row, Sheet, shorten_urls

CHARACTER_WIDTH = 0.605  # the width of a monospaced character, as a share of the font size


class Size(NamedTuple):
    """The measures of a drawing for one kind of screen."""

    name: str
    width: float
    font: float
    small: float
    gutter: float  # on the left, for the numbers of the steps
    margin: float  # on the outer side of a lane, for arrows
    pad: float


WIDE = Size("wide", 760, 14, 12.5, 26, 20, 7)
DENSE = Size("dense", 760, 12, 11.5, 26, 20, 2.5)  # for many steps
NARROW = Size("narrow", 340, 12, 12, 18, 5, 2.5)  # for a phone
MAX_WIDE_HEIGHT = 470  # the height of WIDE that a laptop shows without scrolling

LOCK_WIDTH = 6.0  # the width of a lock
ROWS_SHARE = 0.6  # the width of the lane of the rows, relative to the lane of a process
NARROW_SHARE = 0.2  # the same, if no value of the rows was observed


class Lane(NamedTuple):
    """A column of the picture; `inner` is the side next to the rows: 1 right, -1 left."""

    left: float
    right: float
    inner: int


class PlacedLine(NamedTuple):
    """A line of a cell; `beside` is the mode of a lock at the end of the line."""

    text: str
    kind: str
    height: float
    beside: str = ""


class Grid:
    """Where the lanes and rows of a sheet are; row 0 shows the initial value of the table."""

    def __init__(self, sheet: Sheet, size: Size) -> None:
        self.sheet = sheet
        self.size = size
        holds = sheet.initial or any(row.value for row in sheet.rows)
        share = ROWS_SHARE if holds else NARROW_SHARE
        unit = (size.width - size.gutter) / (sheet.processes + share)
        self.row_lane = Lane(size.gutter + unit, size.gutter + (1 + share) * unit, 0)
        self.lanes = {1: Lane(size.gutter, size.gutter + unit, 1)}
        for process in range(2, sheet.processes + 1):
            left = size.gutter + (process - 1 + share) * unit
            self.lanes[process] = Lane(left, left + unit, -1)
        self.tops = [*self._measure_rows()]
        self.bottoms = self.tops[1:]

    def list_locked(self, process: int) -> list[str]:
        """Return what a process locks; each lock has a separate column in the lane."""
        return list(dict.fromkeys(lock.on for lock in self.sheet.locks if lock.process == process))

    def find_sides(self, process: int) -> tuple[float, float]:
        """Return the left and the right side of the cells in a lane."""
        lane = self.lanes[process]
        size = self.size
        locks = len(self.list_locked(process)) * (LOCK_WIDTH + 2)
        if lane.inner > 0:
            return lane.left + size.margin, lane.right - size.pad - locks
        return lane.left + size.pad + locks, lane.right - size.margin

    def _measure_rows(self) -> Iterator[float]:
        """Yield where each row begins, and where the last one ends."""
        size = self.size
        top = size.font * 2.1
        yield top
        for row in (Row(0, value=shorten_urls(self.sheet.initial)), *self.sheet.rows):
            needed = [size.font * 1.3, len(self.wrap_value(row.value)) * size.font * 1.3]
            for process, lines in row.lines.items():
                needed.append(sum(line.height for line in self.place_lines(process, lines)))
            top += max(needed) + size.pad * 2
            yield top

    def place_lines(self, process: int, lines: list[CellLine]) -> list[PlacedLine]:
        """Return the lines of a cell; a lock's mode is put beside the first line if it fits."""
        left, right = self.find_sides(process)
        width = right - left - 2 * self.size.pad
        placed: list[PlacedLine] = []
        for line in sorted(lines, key=lambda line: line.kind == LOCK):
            first_line = len(placed[0].text) * self.size.font if placed else width
            needed = first_line + len(line.text) * self.size.small + self.size.font
            if line.kind == LOCK and needed * CHARACTER_WIDTH < width and not placed[0].beside:
                placed[0] = placed[0]._replace(beside=line.text)
                continue
            font = self.size.font if line.kind == SAID else self.size.small
            texts = textwrap.wrap(line.text, max(6, int(width / (font * CHARACTER_WIDTH)))) or [""]
            placed += [PlacedLine(text, line.kind, font * 1.3) for text in texts]
        return placed

    def wrap_value(self, value: str) -> list[str]:
        width = self.row_lane.right - self.row_lane.left - 4 * self.size.pad
        return textwrap.wrap(value, max(6, int(width / (self.size.font * CHARACTER_WIDTH))))

    def wrap_verdict(self) -> list[tuple[str, str, float]]:
        """Return the lines below the rows, each with its style and the size of its font."""
        if not self.sheet.ended:
            return []
        verdict = self.sheet.verdict
        size = self.size
        texts = [(f"{verdict.sign} {verdict.text}", f"verdict {verdict.kind}", size.font)]
        if verdict.due:
            texts.append((f"Due: {verdict.due}", "due", size.small))
        lines: list[tuple[str, str, float]] = []
        for text, style, font in texts:
            characters = (size.width - size.gutter - 4 * size.pad) / (font * CHARACTER_WIDTH)
            lines += [(line, style, font) for line in textwrap.wrap(text, int(characters))]
        return lines

    def find_middle(self, row: int) -> float:
        return self.tops[row] + self.size.pad + self.size.font * 0.65

    def find_inner_edge(self, process: int) -> float:
        """Return the side of a lane next to the rows."""
        lane = self.lanes[process]
        return lane.right - self.size.pad if lane.inner > 0 else lane.left + self.size.pad
