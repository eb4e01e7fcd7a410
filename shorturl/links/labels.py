"""The rules for titles and tags.

The tags of a link are an array in its row. A table of tags would need a unique constraint and an
upsert, because two requests can make the same tag at the same moment. An array has nothing that two
links share, and its index answers which links have a tag.
"""

import re
from collections.abc import Iterable

from django.core.exceptions import ValidationError

from shorturl.links.validators import shortened

# With the longest title and tags, PostgreSQL stores a target of more than 1,100 random characters
# in another table (TOAST): it moves the longest column of a row above 2 kB. See validators.py.
TITLE_MAX_LENGTH = 512
TAG_MAX_LENGTH = 50
TAGS_MAX = 20
# Commas separate tags on the pages and in CSV, and bars in the CSV of Shlink.
SEPARATOR = re.compile("[,|]")
# PostgreSQL stores no NUL, and UTF-8 encodes no lone surrogate. A space replaces line breaks.
FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def clean_title(title: str) -> str:
    title = one_line(title, "The title")
    if len(title) > TITLE_MAX_LENGTH:
        raise ValidationError(
            f"The title has {len(title):,} characters: use at most {TITLE_MAX_LENGTH}.",
            code="too_long",
        )
    return title


def cut_title(title: str) -> str:
    """Return what of a title is valid."""
    return " ".join(FORBIDDEN.sub(" ", title).split())[:TITLE_MAX_LENGTH]


def clean_tags(tags: str | Iterable[str]) -> list[str] | None:
    """Return the tags in lower case, each once, in their order; None for no tags.

    `tags` can be a text with separators.
    """
    if isinstance(tags, str):
        tags = SEPARATOR.split(tags)
    known = dict.fromkeys(filter(None, (one_line(tag, "A tag").lower() for tag in tags)))
    for tag in known:
        if len(tag) > TAG_MAX_LENGTH:
            raise ValidationError(
                f"The tag {shortened(tag)!r} has {len(tag):,} characters: "
                f"use at most {TAG_MAX_LENGTH}.",
                code="too_long",
            )
        if separator := SEPARATOR.search(tag):
            raise ValidationError(
                f"The tag {tag!r} contains {separator[0]!r}, which separates tags: leave it out.",
                code="forbidden_character",
            )
    if len(known) > TAGS_MAX:
        raise ValidationError(
            f"The link has {len(known):,} tags: use at most {TAGS_MAX}.", code="too_many"
        )
    return list(known) or None


def cut_tags(tags: str) -> list[str]:
    """Return the first tags of a text with separators, each cut to what is valid."""
    words = [" ".join(FORBIDDEN.sub(" ", tag).split()) for tag in SEPARATOR.split(tags.lower())]
    known = dict.fromkeys(word[:TAG_MAX_LENGTH].strip() for word in words if word)
    return list(known)[:TAGS_MAX]


def one_line(text: str, what: str) -> str:
    text = " ".join(text.split())
    if forbidden := FORBIDDEN.search(text):
        raise ValidationError(
            f"{what} contains the character U+{ord(forbidden[0]):04X} at position "
            f"{forbidden.start() + 1}: leave it out.",
            code="forbidden_character",
        )
    return text
