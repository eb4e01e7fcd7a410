"""The cardinality limit: above it, a new kind of visit is recorded as OTHER.

Any client can send any Referer and any User-Agent, and each kind of visit is a row. Each process
counts kinds in memory, so the rows of an hour are bounded without a further statement.
"""

import time

from shorturl.models import Visit
from shorturl.visits.classification import OTHER, OTHER_FAMILY

HOUR = 3600  # seconds
MOST_OF_A_LINK = 500  # kinds in an hour, in each process
MOST = 200_000  # kinds of all links in an hour, in each process


class CardinalityLimit:
    """It takes no lock: threads that answer at the same moment may exceed a limit by some kinds."""

    def __init__(self) -> None:
        self._begin_hour()

    def bounded(self, key: str, visit: Visit) -> Visit:
        """Return the kind that a visit of the link may be recorded as."""
        if time.time() >= self.ends:
            self._begin_hour()
        if key not in self.crowded and len(self.seen) < MOST:
            return visit
        if hash((key, visit)) in self.seen:
            return visit
        return Visit(OTHER, OTHER_FAMILY, OTHER_FAMILY, OTHER_FAMILY, "", visit.is_bot)

    def add(self, key: str, visit: Visit) -> None:
        """Remember a recorded kind."""
        kind = hash((key, visit))
        if kind in self.seen or len(self.seen) >= MOST:
            return
        self.seen.add(kind)
        number = self.of_links[key] = self.of_links.get(key, 0) + 1
        if number >= MOST_OF_A_LINK:
            self.crowded.add(key)

    def _begin_hour(self) -> None:
        now = time.time()
        self.ends = now - now % HOUR + HOUR
        self.seen: set[int] = set()  # hashes of a link's key and a kind: text would take more
        self.of_links: dict[str, int] = {}  # how many of these each link has
        self.crowded: set[str] = set()  # links with MOST_OF_A_LINK kinds
