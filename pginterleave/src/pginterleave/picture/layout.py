"""Where everything of a schedule goes: a drawing of rectangles, lines and text, in user units."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

from pginterleave.picture.cells import LOCK, SAID, Sheet, readable
from pginterleave.picture.conflicts import Conflict
from pginterleave.picture.grid import BAR, DENSE, FULL, NARROW, TALL, WIDE, Grid, Size


class Rect(NamedTuple):
    """A rectangle; `step` is the one that it belongs to, or 0."""

    x: float
    y: float
    width: float
    height: float
    style: str
    step: int = 0
    title: str = ""


class Path(NamedTuple):
    """A line, with an arrowhead at its end if it has one."""

    d: str
    style: str
    step: int = 0
    head: str = ""


class Text(NamedTuple):
    """A line of text."""

    x: float
    y: float
    text: str
    style: str
    anchor: str = "start"


@dataclass
class Drawing:
    """A picture of a schedule; `arrows` are drawn between the shapes `below` and `above` them.

    `ends` says for each number of steps how high the picture is that shows no more of them.
    """

    size: Size
    kind: str  # of the verdict, once it is known
    height: float = 0
    heads: list[Text] = field(default_factory=list)
    below: list[Rect | Path] = field(default_factory=list)
    above: list[Rect] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    arrows: list[Path] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)


def drawings(sheet: Sheet) -> list[Drawing]:
    """Return a sheet drawn for a window, and for a phone."""
    wide = (draw(sheet, size) for size in (FULL, WIDE))
    fits = next((each for each in wide if each.height < TALL), None)
    return [fits or draw(sheet, DENSE), draw(sheet, NARROW)]


def draw(sheet: Sheet, size: Size) -> Drawing:
    return _Layout(sheet, size).drawing


class _Layout:
    """One drawing on its way."""

    def __init__(self, sheet: Sheet, size: Size) -> None:
        self.sheet, self.size = sheet, size
        self.drawing = Drawing(size, sheet.verdict.kind if sheet.ended else "")
        self.grid = Grid(sheet, size)
        self._lanes()
        self._transactions()
        self._waits()
        self._values()
        self._cells()
        self._locks()
        self._conflicts()
        self._verdict()

    # Shapes

    def _lanes(self) -> None:
        drawing, size = self.drawing, self.size
        drawing.height = self.grid.bottoms[-1] + size.pad
        if lines := self.grid.verdict_lines():
            drawing.height += sum(font * 1.3 for *_, font in lines) + size.pad * 2
        # The verdict of the end is not to be seen before the last step was taken.
        taken = len(self.sheet.steps)
        drawing.ends = [*self.grid.bottoms[:taken], drawing.height]
        short = size is NARROW
        for process, lane in self.grid.lanes.items():
            title = f"{'P' if short else 'process '}{process}"
            middle = (lane.left + lane.right) / 2
            drawing.heads.append(Text(middle, size.font * 1.2, title, "head", "middle"))
        middle = (self.grid.row_lane.left + self.grid.row_lane.right) / 2
        drawing.heads.append(Text(middle, size.font * 1.2, "rows", "head", "middle"))
        for row in range(1, len(self.sheet.steps) + len(self.sheet.hidden) + 1):
            y = self.grid.middle(row) + size.small * 0.36
            drawing.texts.append(Text(size.gutter - 3, y, str(row), "number", "end"))
            d = f"M{size.gutter} {self.grid.tops[row]:.1f}H{size.width}"
            drawing.below.append(Path(d, "guide"))
        d = f"M{middle:.1f} {self.grid.tops[0]:.1f}V{self.grid.bottoms[-1]:.1f}"
        drawing.below.append(Path(d, "axis"))

    def _transactions(self) -> None:
        size = self.size
        for each in self.sheet.transactions:
            lane, last = self.grid.lanes[each.process], min(each.last, len(self.sheet.rows))
            left, right = lane.left + size.margin - 3, lane.right - 3
            if lane.inner < 0:
                left, right = lane.left + 3, lane.right - size.margin + 3
            top, bottom = self.grid.tops[each.first] + 1, self.grid.bottoms[last] - 1
            title = f"transaction of process {each.process}, {each.end or 'still open'}"
            style = f"transaction {each.end.lower() or 'open'}"
            box = Rect(left, top, right - left, bottom - top, style, each.first, title)
            self.drawing.below.append(box)

    def _waits(self) -> None:
        for each in self.sheet.waits:
            left, right = self.grid.box(each.process)
            last = min(each.last, len(self.sheet.rows))
            top = self.grid.bottoms[each.first]
            if self.grid.tops[last] > top:
                gap = Rect(
                    left, top, right - left, self.grid.tops[last] - top, "waiting", each.first
                )
                self.drawing.below.append(gap)
            start, y = self.grid.inner_edge(each.process), self.grid.middle(each.first)
            for other in each.waited_for:
                end = self.grid.inner_edge(other)
                self._line(start, y, end, y, "for-whom", each.first, "wait")
            releaser = self.sheet.rows[last - 1].process
            if each.first < each.last <= len(self.sheet.steps) and releaser != each.process:
                y = self.grid.middle(last)
                self._line(self.grid.inner_edge(releaser), y, start, y, "release", last, "wait")

    def _line(
        self, x: float, y: float, to_x: float, to_y: float, style: str, step: int, head: str
    ) -> None:
        d = f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"
        self.drawing.below.append(Path(d, style, step, head))

    def _values(self) -> None:
        """Draw what the rows hold, whenever it changes, and who has read or written it."""
        size, lane = self.size, self.grid.row_lane
        left, right = lane.left + size.pad, lane.right - size.pad
        values = {0: readable(self.sheet.initial)} if self.sheet.initial else {}
        values |= {number: row.value for number, row in enumerate(self.sheet.rows, 1) if row.value}
        for number, value in values.items():
            lines = self.grid.value_lines(value)
            top, height = (
                self.grid.tops[number] + size.pad / 2,
                len(lines) * size.font * 1.3 + size.pad,
            )
            if number:
                process = self.sheet.rows[number - 1].process
                edge = right if self.grid.lanes[process].inner < 0 else left
                y = self.grid.middle(number)
                self._line(self.grid.inner_edge(process), y, edge, y, "flow", number, "flow")
            self.drawing.above.append(Rect(left, top, right - left, height, "value", number))
            for index, text in enumerate(lines):
                y = self.grid.middle(number) + size.font * (0.36 + 1.3 * index)
                middle = (left + right) / 2
                self.drawing.texts.append(Text(middle, y, text, "held", "middle"))
        middle = (left + right) / 2
        for number, row in enumerate(self.sheet.rows, start=1):
            y = self.grid.middle(number) + size.font * 0.36
            y += self.grid.value_height(row.value) + size.pad / 2 * bool(row.value)
            for index, text in enumerate(self.grid.version_lines(row)):
                at = y + size.small * 1.3 * index
                self.drawing.texts.append(Text(middle, at, text, "version", "middle"))
        for number, step in enumerate(self.sheet.steps, start=1):
            until = step["until"]
            reads = step["kind"] == "SELECT" and step["table"] and not step["error"]
            if reads and until == number not in values:
                y, end = self.grid.middle(number), self.grid.box(step["process"])
                edge = end[1] if self.grid.lanes[step["process"]].inner > 0 else end[0]
                self._line(middle, y, edge, y, "flow", number, "flow")

    def _cells(self) -> None:
        size = self.size
        for number, row in enumerate(self.sheet.rows, start=1):
            for process, lines in row.lines.items():
                left, right = self.grid.box(process)
                placed = self.grid.placed(process, lines)
                pad = self.grid.pad(number)
                height = sum(each.height for each in placed) + pad
                style = "step" if process == row.process else "step back"
                style += "".join(f" has-{line.kind}" for line in lines if line.kind != SAID)
                top = self.grid.tops[number] + pad / 2
                title = row.title if process == row.process else ""
                step = number if number <= len(self.sheet.steps) else 0
                self.drawing.above.append(Rect(left, top, right - left, height, style, step, title))
                y = self.grid.tops[number] + pad
                for text, kind, height, beside in placed:
                    baseline = y + height * 0.75
                    self.drawing.texts.append(Text(left + size.pad, baseline, text, kind))
                    if beside:
                        at = right - size.pad
                        self.drawing.texts.append(Text(at, baseline, beside, LOCK, "end"))
                    y += height

    def _locks(self) -> None:
        for lock in self.sheet.locks:
            lane = self.grid.lanes[lock.process]
            column = self.grid.locked(lock.process).index(lock.on)
            offset = self.size.pad + column * (BAR + 2)
            left = lane.right - offset - BAR if lane.inner > 0 else lane.left + offset
            last = min(lock.last, len(self.sheet.rows))
            top, bottom = self.grid.tops[lock.first] + 4, self.grid.bottoms[last] - 4
            title = f"process {lock.process} holds {lock.mode} on {lock.on}"
            bar = Rect(left, top, BAR, bottom - top, "lock", lock.first, title)
            self.drawing.above.append(bar)

    def _verdict(self) -> None:
        size, drawing, kind = self.size, self.drawing, self.sheet.verdict.kind
        y, lines = self.grid.bottoms[-1] + size.pad, self.grid.verdict_lines()
        if lines:
            height = drawing.height - y - 1
            width = size.width - size.gutter - 2
            drawing.above.append(Rect(size.gutter, y, width, height, f"verdict {kind}"))
        y += size.pad / 2
        for text, style, font in lines:
            drawing.texts.append(Text(size.gutter + size.pad, y + font, text, style))
            y += font * 1.3

    def _conflicts(self) -> None:
        for each in self.sheet.conflicts:
            if each.source:
                path = self._arrow(each, each.source)
                style, step = f"conflict {each.kind}", max(each.source, each.target)
                self.drawing.arrows.append(Path(path, style, step, "bad"))

    def _arrow(self, conflict: Conflict, source: int) -> str:
        steps = self.sheet.steps
        one, two = (steps[number - 1]["process"] for number in (source, conflict.target))
        y, to_y = self.grid.middle(source), self.grid.middle(conflict.target)
        if one == two:
            outer = 0 if self.grid.lanes[one].inner > 0 else 1
            x = self.grid.box(one)[outer]
            bend = x + (outer * 2 - 1) * self.size.margin * 1.15
            return f"M{x:.1f} {y:.1f}C{bend:.1f} {y:.1f} {bend:.1f} {to_y:.1f} {x:.1f} {to_y:.1f}"
        x, to_x = self.grid.inner_edge(one), self.grid.inner_edge(two)
        bend = (to_x - x) * 0.5
        y, to_y = y + self.size.font * 0.5, to_y - self.size.font * 0.5
        return (
            f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {to_x - bend:.1f} {to_y:.1f} "
            f"{to_x:.1f} {to_y:.1f}"
        )


HEADS = ("flow", "wait", "bad")  # the kinds of arrowheads


def svg(drawing: Drawing, described: str, *, name: str = "") -> str:
    """Return the drawing as an element of HTML; `described` is for those who cannot see it.

    `name` is another one for each picture of a page, by which its arrowheads are found.
    """
    return "\n".join(_lines(drawing, described, f"{drawing.size.name}{name}"))


def _lines(drawing: Drawing, described: str, name: str) -> Iterator[str]:
    width, height = f"{drawing.size.width:.0f}", f"{drawing.height:.0f}"
    ends = " ".join(f"{end:.1f}" for end in drawing.ends)
    yield (
        f'<svg class="picture {drawing.size.name} {drawing.kind}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(described)}" data-ends="{ends}">'
    )
    taken = f'<rect width="{width}" height="{height}"/>'
    yield f'<defs>\n<clipPath id="taken-{name}">{taken}</clipPath>'
    for head in HEADS:
        yield (
            f'<marker id="{head}-{name}" class="arrowhead {head}" viewBox="0 0 8 8" refX="7" '
            'refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">'
            '<path d="M0 0L8 4L0 8z"/></marker>'
        )
    yield "</defs>"
    yield from map(_text, drawing.heads)
    group = f'<g clip-path="url(#taken-{name})">'
    yield group
    for shape in drawing.below:
        yield _rectangle(shape) if isinstance(shape, Rect) else _path(shape, name)
    yield "</g>"
    for path in drawing.arrows:
        yield _path(path, name, f' data-step="{path.step}"')
    yield group
    yield from map(_rectangle, drawing.above)
    yield from map(_text, drawing.texts)
    yield "</g>\n</svg>"


def _text(text: Text) -> str:
    return (
        f'<text class="{text.style}" x="{text.x:.1f}" y="{text.y:.1f}" '
        f'text-anchor="{text.anchor}">{escape(text.text)}</text>'
    )


def _path(path: Path, name: str, more: str = "") -> str:
    head = f' marker-end="url(#{path.head}-{name})"' if path.head else ""
    return f'<path class="{path.style}"{more} d="{path.d}"{head}/>'


def _rectangle(rect: Rect) -> str:
    step = f' data-step="{rect.step}"' if rect.step else ""
    title = f"<title>{escape(rect.title)}</title>" if rect.title else ""
    return (
        f'<rect class="{rect.style}" x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.width:.1f}" '
        f'height="{rect.height:.1f}" rx="4"{step}>{title}</rect>'
    )
