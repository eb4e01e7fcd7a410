"""A drawing as SVG, to stand in a page of HTML; its colours are those of `picture.css`."""

from collections.abc import Iterator
from html import escape

from pginterleave.picture.layout import Drawing, Path, Rect, Text

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
