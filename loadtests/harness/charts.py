"""Two kinds of charts as SVG, for a page that opens without a network and without a script."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH = 720
NAME_WIDTH, VALUE_WIDTH = 190, 110
LINE = 26
PLOT_HEIGHT, LEFT, BOTTOM, TOP = 380, 60, 44, 28
LABEL_GAP = 15


class Bar(NamedTuple):
    """A share from 0 to 1, with its name, its value in words, and whether it is a wrong one's."""

    name: str
    share: float
    value: str
    wrong: bool


class Point(NamedTuple):
    """A point with its name, and whether it is a wrong one's."""

    name: str
    x: float
    y: float
    wrong: bool


def bars(title: str, of: Sequence[Bar]) -> str:
    """Return horizontal bars, whose whole width is 100 %."""
    room = WIDTH - NAME_WIDTH - VALUE_WIDTH
    parts = []
    for place, bar in enumerate(of):
        y = place * LINE
        # What is not nothing is to be seen.
        width = max(bar.share * room, 2 if bar.share else 0)
        kind = "wrong" if bar.wrong else "right"
        parts.append(
            f'<text x="{NAME_WIDTH - 10}" y="{y + 17}" class="end">{escape(bar.name)}</text>'
            f'<rect x="{NAME_WIDTH}" y="{y + 4}" width="{width:.1f}" height="18" class="{kind}"/>'
            f'<text x="{NAME_WIDTH + width + 8:.1f}" y="{y + 17}">{escape(bar.value)}</text>'
        )
    height = len(of) * LINE
    axis = f'<path d="M{NAME_WIDTH} 0V{height}" class="axis"/>'
    return svg(title, height, axis + "".join(parts))


def scatter(title: str, x_name: str, y_name: str, of: Sequence[Point]) -> str:
    """Return a plot of the points, from zero on, with a label for each."""
    x_ticks = ticks(max(point.x for point in of))
    y_ticks = ticks(max(point.y for point in of))
    plot_width, plot_height = WIDTH - LEFT - 170, PLOT_HEIGHT - TOP - BOTTOM
    bottom = TOP + plot_height

    def at(point: Point) -> tuple[float, float]:
        x = LEFT + point.x / x_ticks[-1] * plot_width
        return x, bottom - point.y / y_ticks[-1] * plot_height

    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{LEFT + plot_width}" class="axis"/>']
    for tick in x_ticks:
        x = LEFT + tick / x_ticks[-1] * plot_width
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" class="middle">{tick:,}</text>')
    for tick in y_ticks:
        y = bottom - tick / y_ticks[-1] * plot_height
        parts.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + plot_width}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" class="end">{tick:,}</text>')
    parts.append(
        f'<text x="{LEFT + plot_width / 2}" y="{PLOT_HEIGHT - 6}" class="middle">'
        f"{escape(x_name)}</text>"
        f'<text x="{LEFT - 8}" y="14">{escape(y_name)}</text>'
    )
    # Labels stand right of their points, and move apart where they would cover each other.
    label_y = -LABEL_GAP * 1.0
    for point in sorted(of, key=lambda point: at(point)[1]):
        x, y = at(point)
        label_y = max(y + 4, label_y + LABEL_GAP)
        kind = "wrong" if point.wrong else "right"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}"/>'
            f'<path d="M{x + 6:.1f} {y:.1f}L{x + 14:.1f} {label_y - 4:.1f}" class="axis"/>'
            f'<text x="{x + 16:.1f}" y="{label_y:.1f}">{escape(point.name)}</text>'
        )
    return svg(title, max(PLOT_HEIGHT, round(label_y) + 8), "".join(parts))


def ticks(most: float) -> list[int]:
    """Return round numbers from 0 to at least `most`, some four to six of them."""
    step = 1
    while step * 5 < most:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, step * 6, step))[: int(-(-most // step)) + 1] if most > 0 else [0, 1]


def svg(title: str, height: int, content: str) -> str:
    """Return the picture, with a title for who does not see it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{content}</svg>"
    )
