"""How far a long command is: a line every few seconds, at a terminal and in a file alike."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from shorturl.exceptions import counted

INTERVAL = 5  # seconds
T = TypeVar("T")


def with_progress(
    links: Iterable[T], write: Callable[[str], object], *, total: int = 0
) -> Iterator[T]:
    """Yield the links, and write every few seconds how many there were, and of how many."""
    written_at = time.monotonic()
    for number, link in enumerate(links, 1):
        yield link
        if time.monotonic() - written_at >= INTERVAL:
            done = f"{number:,} of {counted(total, 'link')}" if total else counted(number, "link")
            write(f"{done} so far.")
            written_at = time.monotonic()
