"""The drawing of a schedule: rectangles, lines and text, in user units of SVG.

The template `pginterleave/drawing.svg` writes a drawing as an SVG element.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from pginterleave.picture import grid
from pginterleave.picture.cells import LOCK, SAID, Picture
from pginterleave.picture.grid import Grid, PlacedLine, Size


class Rect(NamedTuple):
    """A rectangle; `step` is the number of its step, or 0."""

    x: float
    y: float
    width: float
    height: float
    style: str
    step: int = 0
    title: str = ""


class Path(NamedTuple):
    """A line; `head` is the kind of the arrowhead at its end, or ""."""

    d: str  # as of <path> in SVG
    style: str
    step: int = 0
    head: str = ""


class Text(NamedTuple):
    x: float
    y: float
    text: str
    style: str
    anchor: str = "start"  # what of the text is at x; or "middle", or "end"


@dataclass
class Drawing:
    """A picture of a schedule; `arrows` are drawn between the shapes `below` and `above` them."""

    arrowheads: ClassVar = ("flow", "wait", "bad")
    size: Size
    kind: str  # of the verdict; "" if the picture does not show it
    height: float = 0
    below: list[Rect | Path] = field(default_factory=list)
    above: list[Rect] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    arrows: list[Path] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # the height after each step


def draw_for_screens(picture: Picture) -> list[Drawing]:
    """Return two drawings of a picture: for a window, and for a phone."""
    wide = draw(picture, grid.WIDE)
    return [
        wide if wide.height < grid.MAX_WIDE_HEIGHT else draw(picture, grid.DENSE),
        draw(picture, grid.NARROW),
    ]


def draw(picture: Picture, size: Size) -> Drawing:
    return _Layout(picture, size).drawing


class _Layout(Grid):
    def __init__(self, picture: Picture, size: Size) -> None:
        super().__init__(picture, size)
        self.drawing = Drawing(size, picture.verdict.kind if picture.is_whole else "")
        self._draw_lanes()
        self._draw_transactions()
        self._draw_waits()
        self._draw_values()
        self._draw_cells()
        self._draw_locks()
        self._draw_conflicts()
        self._draw_verdict()

    def _draw_lanes(self) -> None:
        drawing = self.drawing
        size = self.size
        name = "P" if size is grid.NARROW else "process "
        titles = [(f"{name}{process}", lane) for process, lane in self.lanes.items()]
        for title, lane in [*titles, ("rows", self.row_lane)]:
            middle = (lane.left + lane.right) / 2
            drawing.texts.append(Text(middle, size.font * 1.2, title, "head", "middle"))
        for row in range(1, len(self.picture.steps) + len(self.picture.hidden) + 1):
            y = self.find_middle(row) + size.small * 0.36  # half the height of a digit
            drawing.texts.append(Text(size.gutter - 3, y, str(row), "number", "end"))
            d = f"M{size.gutter} {self.tops[row]:.1f}H{size.width}"
            drawing.below.append(Path(d, "guide"))
        middle = (self.row_lane.left + self.row_lane.right) / 2
        d = f"M{middle:.1f} {self.tops[0]:.1f}V{self.bottoms[-1]:.1f}"
        drawing.below.append(Path(d, "axis"))

    def _draw_transactions(self) -> None:
        size = self.size
        for transaction in self.picture.transactions:
            lane = self.lanes[transaction.process]
            last = min(transaction.last, len(self.picture.rows) - 1)
            left = lane.left + (size.margin - 3 if lane.inner > 0 else 3)  # 3 outside of cells
            right = lane.right - (3 if lane.inner > 0 else size.margin - 3)
            top = self.tops[transaction.first] + 1
            bottom = self.bottoms[last] - 1
            end = transaction.end or "still open"
            title = f"transaction of process {transaction.process}, {end}"
            style = f"transaction {transaction.end.lower() or 'open'}"
            box = Rect(left, top, right - left, bottom - top, style, transaction.first, title)
            self.drawing.below.append(box)

    def _draw_waits(self) -> None:
        """Draw how long each process waits and for which others, and which step ends the wait."""
        for wait in self.picture.waits:
            left, right = self.find_sides(wait.process)
            last = min(wait.last, len(self.picture.rows) - 1)
            top = self.bottoms[wait.first]
            if self.tops[last] > top:
                gap = Rect(left, top, right - left, self.tops[last] - top, "waiting", wait.first)
                self.drawing.below.append(gap)
            start = self.find_inner_edge(wait.process)
            y = self.find_middle(wait.first)
            for blocker in wait.waited_for:
                end = self.find_inner_edge(blocker)
                self._draw_line(start, end, y, "for-whom", wait.first, "wait")
            releaser = self.picture.rows[last].process
            if wait.first < wait.last <= len(self.picture.steps) and releaser != wait.process:
                y = self.find_middle(last)
                self._draw_line(self.find_inner_edge(releaser), start, y, "release", last, "wait")

    def _draw_line(self, x: float, to_x: float, y: float, style: str, step: int, head: str) -> None:
        """Draw a horizontal arrow below the text."""
        self.drawing.below.append(Path(f"M{x:.1f} {y:.1f}H{to_x:.1f}", style, step, head))

    def _draw_values(self) -> None:
        """Draw the table's value in each row where it changes, and arrows of reads and writes."""
        size = self.size
        lane = self.row_lane
        left = lane.left + size.pad
        right = lane.right - size.pad
        center = (left + right) / 2
        values = {number: row for number, row in enumerate(self.picture.rows) if row.value}
        for number, row in values.items():
            lines = self.wrap_value(row.value)
            y = self.find_middle(number)
            if number:
                edge = right if self.lanes[row.process].inner < 0 else left
                start = self.find_inner_edge(row.process)
                self._draw_line(start, edge, y, "flow", number, "flow")
            top = self.tops[number] + size.pad / 2
            height = sum(line.height for line in lines) + size.pad
            self.drawing.above.append(Rect(left, top, right - left, height, "value", number))
            self._draw_text(lines, center, self.tops[number] + size.pad, "middle")
        for number, step in enumerate(self.picture.steps, start=1):
            has_read = step["kind"] == "SELECT" and step["table"] and not step["error"]
            if has_read and step["until"] == number and number not in values:
                y = self.find_middle(number)
                left, right = self.find_sides(step["process"])
                edge = right if self.lanes[step["process"]].inner > 0 else left
                self._draw_line(center, edge, y, "flow", number, "flow")

    def _draw_cells(self) -> None:
        size = self.size
        for number, row in enumerate(self.picture.rows):
            for process, lines in row.lines.items():
                left, right = self.find_sides(process)
                placed = self.place_lines(process, lines)
                height = sum(line.height for line in placed) + size.pad
                style = "step" if process == row.process else "step back"  # from a wait
                style += "".join(f" has-{line.kind}" for line in lines if line.kind != SAID)
                top = self.tops[number] + size.pad / 2
                title = row.title if process == row.process else ""
                step = number if number <= len(self.picture.steps) else 0
                self.drawing.above.append(Rect(left, top, right - left, height, style, step, title))
                self._draw_text(placed, left + size.pad, self.tops[number] + size.pad, "start")
                if placed[0].beside:
                    baseline = self.tops[number] + size.pad + placed[0].height * 0.75
                    mode = Text(right - size.pad, baseline, placed[0].beside, LOCK, "end")
                    self.drawing.texts.append(mode)

    def _draw_text(self, lines: list[PlacedLine], x: float, y: float, anchor: str) -> None:
        """Draw lines of text, one below the other."""
        for line in lines:
            baseline = y + line.height * 0.75  # the letters stand on it
            self.drawing.texts.append(Text(x, baseline, line.text, line.kind, anchor))
            y += line.height

    def _draw_locks(self) -> None:
        for lock in self.picture.locks:
            lane = self.lanes[lock.process]
            column = self.list_locked(lock.process).index(lock.on)
            offset = self.size.pad + column * (grid.LOCK_WIDTH + grid.LOCK_GAP)
            left = lane.right - offset - grid.LOCK_WIDTH if lane.inner > 0 else lane.left + offset
            last = min(lock.last, len(self.picture.rows) - 1)
            top = self.tops[lock.first] + 4  # a gap to the lock above
            bottom = self.bottoms[last] - 4
            title = f"process {lock.process} holds {lock.mode} on {lock.on}"
            bar = Rect(left, top, grid.LOCK_WIDTH, bottom - top, "lock", lock.first, title)
            self.drawing.above.append(bar)

    def _draw_verdict(self) -> None:
        """Draw the verdict below the rows, where it is hidden until the last step is shown."""
        size = self.size
        drawing = self.drawing
        y = self.bottoms[-1] + size.pad
        lines = self.wrap_verdict()
        height = sum(line.height for line in lines) + size.pad * 2 if lines else 0
        drawing.height = y + height
        drawing.ends = [*self.bottoms[: len(self.picture.steps)], drawing.height]
        if lines:
            width = size.width - size.gutter - 2
            drawing.above.append(Rect(size.gutter, y, width, height - 1, lines[0].kind))
            self._draw_text(lines, size.gutter + size.pad, y + size.pad / 2, "start")

    def _draw_conflicts(self) -> None:
        """Draw an arrow from the source to the target of each conflict."""
        for conflict in self.picture.conflicts:
            if not conflict.source:
                continue
            process = self.picture.steps[conflict.source - 1]["process"]
            other = self.picture.steps[conflict.target - 1]["process"]
            y = self.find_middle(conflict.source)
            to_y = self.find_middle(conflict.target)
            if process == other:  # a bow on the outer side of the lane
                left, right = self.find_sides(process)
                inner = self.lanes[process].inner
                x = to_x = left if inner > 0 else right
                bend = x - inner * self.size.margin * 1.15  # the curve goes 3/4 as far
            else:
                x = self.find_inner_edge(process)
                to_x = self.find_inner_edge(other)
                bend = (x + to_x) / 2
                y += self.size.font * 0.5  # it leaves below the middle of a row, and ends above it
                to_y -= self.size.font * 0.5
            curve = f"C{bend:.1f} {y:.1f} {bend:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
            style = f"conflict {conflict.kind}"
            step = max(conflict.source, conflict.target)
            self.drawing.arrows.append(Path(f"M{x:.1f} {y:.1f}{curve}", style, step, "bad"))
