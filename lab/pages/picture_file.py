"""A picture as a file of its own, in light colours and for programs that know no CSS variables."""

import re
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders

from pginterleave.picture.cells import WRONG, Picture
from pginterleave.picture.layout import draw_for_screens

VALUE = re.compile(r"--([\w-]+): (.+?);")
VARIABLE = re.compile(r"var\(--([\w-]+)\)")
MEDIA = re.compile(r"@media[^{]+\{(\s*[^{}]+\{[^{}]*\})*\s*\}")


def make_file_context(picture: Picture) -> dict[str, Any]:
    """Return the drawing of a picture for a window, its style, and the colour of the page."""
    drawing = draw_for_screens(picture)[0]
    colours, style = [
        MEDIA.sub("", Path(str(finders.find(name))).read_text())
        for name in ("shorturl/shorturl.css", "pginterleave/picture.css")
    ]
    values = dict(VALUE.findall(colours.partition("}")[0] + style.partition("}")[0]))
    # An error is in another colour than what is silently wrong. In the style a variable says so.
    style += ".picture text.error { fill: var(--refused) }"
    style += ".conflict.cycle { stroke: var(--refused) }"
    if drawing.kind != WRONG:
        values |= {"bad": values["refused"], "bad-tint": values["refused-tint"]}
    style = VARIABLE.sub(lambda variable: values[variable[1]], style)
    return {"drawing": drawing, "style": style, "page": values["page"]}
