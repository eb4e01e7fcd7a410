"""The style sheet: enough contrast in both colour schemes, as WCAG 2.2 AA measures it."""

import re
from pathlib import Path

import pytest

STYLE = (Path(__file__).parent.parent / "static/shorturl/shorturl.css").read_text()
LIGHT, DARK = re.findall(r":root \{(.+?)\}", STYLE, re.DOTALL)

TEXT, FIELD = 4.5, 3.0  # https://www.w3.org/TR/WCAG22/#contrast-minimum, #non-text-contrast
PAIRS = [
    ("text", "page", TEXT),
    ("text", "card", TEXT),
    ("text", "tint", TEXT),
    ("muted", "page", TEXT),
    ("muted", "card", TEXT),
    ("accent", "page", TEXT),
    ("accent", "card", TEXT),
    ("accent-strong", "page", TEXT),
    ("accent-strong", "card", TEXT),
    ("error", "card", TEXT),
    ("on-accent", "accent", TEXT),
    ("on-accent", "accent-strong", TEXT),
    ("field", "page", FIELD),
    ("field", "card", FIELD),
]


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour like #0f6b5c or #fff, from 0 to 1."""
    digits = colour if len(colour) == 6 else "".join(digit * 2 for digit in colour)
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("foreground", "background", "least"), PAIRS)
def test_contrast(scheme: str, foreground: str, background: str, least: float) -> None:
    colours = dict(re.findall(r"--([a-z-]+): #([0-9a-f]+);", scheme))
    darker, lighter = sorted(luminance(colours[name]) for name in (foreground, background))
    assert (lighter + 0.05) / (darker + 0.05) >= least


def test_nothing_is_loaded_from_elsewhere() -> None:
    assert not re.search(r"url\(|@import|@font-face", STYLE)
