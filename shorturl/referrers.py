"""How many referrers a link may have: beyond that, one that is new is recorded as OTHER.

Anybody can send any Referer, and each would be a row of its own. What is counted is the memory of a
process: rows stay bounded by its limit for each process and hour, and no statement has to look.
"""

import threading
import time

HOUR = 3600  # seconds
MOST_OF_A_LINK = 100  # in an hour, in each process
MOST = 50_000  # that are remembered, some 15 MB; links that were followed first are forgotten


class Referrers:
    """The referrers of links that this process has recorded in this hour."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hour, self.number = 0, 0
        self.of_links: dict[str, set[str]] = {}

    def admits(self, key: str, referrer: str) -> bool:
        """Return whether a visit of the link may be recorded with this referrer.

        Who asks at the same moment gets the same answer, before either has been added: there may be
        as many more as the process has threads.
        """
        with self.lock:
            self._begin_hour()
            known = self.of_links.get(key, ())
            return referrer in known or len(known) < MOST_OF_A_LINK

    def add(self, key: str, referrer: str) -> None:
        """Remember the referrer of a visit that is recorded."""
        with self.lock:
            self._begin_hour()
            known = self.of_links.setdefault(key, set())
            self.number += referrer not in known
            known.add(referrer)
            while self.number > MOST:
                self.number -= len(self.of_links.pop(next(iter(self.of_links))))

    def _begin_hour(self) -> None:
        hour = int(time.time()) // HOUR
        if hour != self.hour:
            self.hour, self.number = hour, 0
            self.of_links.clear()
