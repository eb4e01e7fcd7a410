"""Bar charts as SVG by pygal, for a page that opens without a network and without a script."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.etree import ElementTree

import pygal
from pygal.style import Style

WIDTH, LINE = 480, 28  # narrow enough for a phone to show it without shrinking it much
FONT_SIZE = 14  # as the page's style sheet has it; pygal makes room for names of that size


class Bar(NamedTuple):
    """A value with its name, its text, and whether it belongs to a wrong strategy."""

    name: str
    value: float
    text: str
    wrong: bool


def bars(title: str, content: Sequence[Bar], *, full: float | None = None) -> str:
    """Return horizontal bars, the first one on top, as an SVG element.

    A bar of `full`, or without it of the greatest value, leaves room for its text to its right. The
    page's style sheet has the colours, so that they follow its light and dark scheme; scripts and
    styles of pygal's own are removed.
    """
    greatest = full or max((bar.value for bar in content), default=0) or 1
    chart = pygal.HorizontalBar(
        style=Style(label_font_size=FONT_SIZE),
        width=WIDTH,
        height=LINE * len(content),
        margin=0,
        range=(0, greatest * 1.7),
        title=None,
        print_values=True,
        print_values_position="top",
        show_legend=False,
        show_x_labels=False,
        show_x_guides=False,
        show_y_guides=False,
    )
    upwards = content[::-1]
    chart.x_labels = [bar.name for bar in upwards]
    values = []
    for bar in upwards:
        color = "var(--wrong)" if bar.wrong else "var(--right)"
        values.append(
            {"value": bar.value, "formatter": lambda _, bar=bar: bar.text, "color": color}
        )
    chart.add(title, values)
    svg = chart.render_tree()
    for parent in list(svg.iter()):
        for child in list(parent):
            if child.tag in ("script", "style", "title") or child.tag is ElementTree.Comment:
                parent.remove(child)
    svg.attrib.update({"role": "img", "aria-label": title})
    return ElementTree.tostring(svg, encoding="unicode")
