import os
from collections import Counter
from threading import Lock, Timer

from django.db import connection
from django.db.models import F

from shorturl.models import ShortUrl

PERIOD = 0.5  # seconds


class Hits:
    """Hits that this process has answered and the database does not know, by the link's id."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiting: Counter[int] = Counter()


SHARED = Hits()
# They are the parent's, which writes them.
os.register_at_fork(after_in_child=SHARED.__init__)  # type: ignore[misc]


def resolve(key: str, *, shared: Hits = SHARED) -> ShortUrl:
    """Count in the memory of the process, and write every half second.

    What it does: reads the short URL and adds one to a number of this process. Half a second after
    the first of such hits a thread writes them all, and ends. It returns the short URL without
    `hits`, which it does not know, and raises ShortUrl.DoesNotExist when none is live.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        … and later UPDATE shorturl_shorturl SET hits = hits + 123 WHERE id = …

    What goes wrong: a hit is acknowledged before it is counted. A process that is killed takes up
    to half a second of hits with it, and nobody ever learns of them; so does an UPDATE that fails,
    as that of more hits than a limit has room for, all of which were redirected.
    No schedule of statements shows that, as each is right; what fails is what comes between them.
    chhoto-url counts like this (SinTan1729/chhoto-url, backend/src/background.rs).

    What it costs: one SELECT, which locks and writes nothing; and the hits that it loses.

    When to use it: where a number may be too low, and whoever reads it knows.
    """
    short_url = ShortUrl.objects.live().defer("hits").get(key=key)
    with shared.lock:
        if not shared.waiting:
            Timer(PERIOD, write, [shared]).start()
        shared.waiting[short_url.pk] += 1
    return short_url


def write(shared: Hits = SHARED) -> None:
    """Add to the links what waits for it."""
    with shared.lock:
        taken, shared.waiting = shared.waiting, Counter()
    try:
        for pk, hits in taken.items():
            ShortUrl.objects.filter(pk=pk).update(hits=F("hits") + hits)
    finally:
        connection.close()  # of this thread
