"""How many kinds of visits a link may have: beyond that, a new one is recorded as one of OTHER.

Anybody can send any Referer and any User-Agent, and each kind is a row of its own. What is counted
is the memory of a process: rows stay bounded by its limit for each process and hour, and no
statement has to look.
"""

import threading
import time

from shorturl.visits import OTHER, OTHER_FAMILY, Visit

HOUR = 3600  # seconds
MOST_OF_A_LINK = 500  # in an hour, in each process
MOST = 50_000  # that are remembered, some 20 MB; links that were followed first are forgotten


class KindsOfVisits:
    """The kinds of links' visits that this process has recorded in this hour."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hour, self.number = 0, 0
        self.of_links: dict[str, set[Visit]] = {}

    def bounded(self, key: str, visit: Visit) -> Visit:
        """Return the kind that a visit of the link may be recorded as.

        Who asks at the same moment gets the same answer, before either has been added: there may be
        as many more as requests are answered at once. So nobody has to wait for the lock to ask.
        """
        if int(time.time()) // HOUR != self.hour:
            with self.lock:
                self._begin_hour()
        known = self.of_links.get(key, ())
        if visit in known or len(known) < MOST_OF_A_LINK:
            return visit
        return Visit(OTHER, OTHER_FAMILY, OTHER_FAMILY, OTHER_FAMILY, "", visit.is_bot)

    def add(self, key: str, visit: Visit) -> None:
        """Remember the kind of a visit that is recorded."""
        if visit in self.of_links.get(key, ()):
            return
        with self.lock:
            self._begin_hour()
            known = self.of_links.setdefault(key, set())
            self.number += visit not in known
            known.add(visit)
            while self.number > MOST:
                self.number -= len(self.of_links.pop(next(iter(self.of_links))))

    def _begin_hour(self) -> None:
        hour = int(time.time()) // HOUR
        if hour != self.hour:
            self.hour, self.number = hour, 0
            self.of_links.clear()
