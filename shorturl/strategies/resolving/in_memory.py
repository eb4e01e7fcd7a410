import os
from collections import Counter
from threading import Lock, Timer

from django.db import connection
from django.db.models import F

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "counted in memory and written later: a crash loses acknowledged hits"
NOTE = (
    "Its statements do not race. An exploration shows that it answers before it counts: "
    "it ends before the write half a second later, as a killed process does."
)

PERIOD = 0.5  # seconds


class Hits:
    """Hits that this process has answered and not yet written, by the link's id."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiting: Counter[int] = Counter()


HITS = Hits()
# The parent process writes its own hits.
os.register_at_fork(after_in_child=HITS.__init__)  # type: ignore[misc]


def resolve(key: str) -> ShortUrl:
    """Count in the memory of the process; a thread writes all hits of half a second at once.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        … and later UPDATE shorturl_shorturl SET hits = hits + 123 WHERE id = …

    What goes wrong: a hit is acknowledged before it is counted. A process that is killed silently
    loses up to half a second of hits. So does an UPDATE that fails, for example because the hits
    exceed the link's limit. No schedule of the statements shows this, because the process is killed
    between them. chhoto-url counts like this (SinTan1729/chhoto-url, backend/src/background.rs).

    What it costs: one SELECT, which locks and writes nothing, and lost hits.

    When to use it: where a counter may be too low, and its readers know that.
    """
    short_url = ShortUrl.objects.live().defer("hits").get(key=key)
    with HITS.lock:
        if not HITS.waiting:
            Timer(PERIOD, write).start()
        HITS.waiting[short_url.pk] += 1
    return short_url


def write() -> None:
    """Add the hits in memory to the links."""
    with HITS.lock:
        hits_of_links = HITS.waiting
        HITS.waiting = Counter()
    try:
        for pk, hits in hits_of_links.items():
            ShortUrl.objects.filter(pk=pk).update(hits=F("hits") + hits)
    finally:
        connection.close()  # of this thread
