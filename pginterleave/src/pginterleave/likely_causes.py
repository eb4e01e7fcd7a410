"""The likely cause of an error of the exploration, as a note for the error."""

import contextlib
import re
from collections.abc import Iterator

from pginterleave.explorer_errors import NotDeterministic, StepTimeout

# The caches of Django that hold rows, by the table that they read.
CACHES = {
    "django_content_type": "ContentType.objects, which ContentType.objects.clear_cache() empties",
    "django_site": "Site.objects, which Site.objects.clear_cache() empties",
}
SQLALCHEMY = (
    "The first connection of a SQLAlchemy engine asks for the server's version, and no other "
    "connects meanwhile: connect once before the exploration, with `engine.connect().close()`."
)


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Enter to add a note to an error of the exploration whose cause is likely."""
    try:
        yield
    except (NotDeterministic, StepTimeout) as error:
        if note := likely_cause(error):
            error.add_note(note)
        raise


def likely_cause(error: Exception) -> str:
    """Return what most likely is the cause of an error of the exploration, or ""."""
    if isinstance(error, StepTimeout):
        return SQLALCHEMY if "sqlalchemy" in str(error) else ""
    tables = [*dict.fromkeys(re.findall(r'SELECT (?:(?!SELECT).)*? FROM "?(\w+)"?', str(error)))]
    if not tables:
        return ""
    known = [CACHES[table] for table in tables if table in CACHES]
    what = " and ".join(known or [f"one that keeps what was read from {' or '.join(tables)}"])
    return (
        f"A cache is likely, as it sends its query only the first time: {what}. Fill or empty it "
        "in setup; the fixture `interleave` does so with Django's."
    )
