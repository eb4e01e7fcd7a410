"""The rules for titles and tags.

The tags of a link are an array in its row, whose index answers which links have a tag. A table of
tags would be rows that two links share, and so a race.
"""

import re
from collections.abc import Iterable

from django.core.exceptions import ValidationError

from shorturl.links.validators import shortened

TITLE_MAX_LENGTH = 512
TAG_MAX_LENGTH = 50
TAGS_MAX = 20
# Commas or semicolons separate tags on the pages, commas in CSV, and bars in the CSV of Shlink.
SEPARATOR = re.compile("[,;|]")
# PostgreSQL stores no NUL, and UTF-8 encodes no lone surrogate. A space replaces line breaks.
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def clean_title(title: str) -> str:
    title = clean_line(title, "The title")
    if len(title) > TITLE_MAX_LENGTH:
        message = f"The title has {len(title):,} characters: use at most {TITLE_MAX_LENGTH}."
        raise ValidationError(message, code="too_long")
    return title


def cut_title(title: str) -> str:
    """Return a title in one line, without forbidden characters, cut to its maximal length."""
    return in_one_line(FORBIDDEN.sub(" ", title))[:TITLE_MAX_LENGTH]


def clean_tags(tags: str | Iterable[str]) -> list[str] | None:
    """Return tags, or a text of tags, in lower case, each once; None for no tags."""
    if isinstance(tags, str):
        tags = SEPARATOR.split(tags)
    unique = dict.fromkeys(filter(None, (clean_line(tag, "A tag").lower() for tag in tags)))
    for tag in unique:
        if len(tag) > TAG_MAX_LENGTH:
            length = f"{len(tag):,} characters: use at most {TAG_MAX_LENGTH}."
            raise ValidationError(f"The tag {shortened(tag)!r} has {length}", code="too_long")
        if separator := SEPARATOR.search(tag):
            message = f"contains {separator[0]!r}, which separates tags: leave it out."
            raise ValidationError(f"The tag {tag!r} {message}", code="forbidden_character")
    if len(unique) > TAGS_MAX:
        message = f"The link has {len(unique):,} tags: use at most {TAGS_MAX}."
        raise ValidationError(message, code="too_many")
    return list(unique) or None


def cut_tags(tags: str) -> list[str]:
    """Return the first tags of a text with separators, each cut to what is valid."""
    words = [in_one_line(FORBIDDEN.sub(" ", tag)) for tag in SEPARATOR.split(tags.lower())]
    unique = dict.fromkeys(word[:TAG_MAX_LENGTH].strip() for word in words if word)
    return list(unique)[:TAGS_MAX]


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def clean_line(text: str, name: str) -> str:
    """Return a text in one line; raise ValidationError, which begins with `name`."""
    text = in_one_line(text)
    if forbidden := FORBIDDEN.search(text):
        where = f"U+{ord(forbidden[0]):04X} at position {forbidden.start() + 1}"
        message = f"{name} contains the character {where}: leave it out."
        raise ValidationError(message, code="forbidden_character")
    return text
