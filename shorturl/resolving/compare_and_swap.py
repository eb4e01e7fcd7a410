from shorturl.models import ShortUrl

# One of the competitors always gets through, so this many defeats in a row mean that something
# other than load is wrong.
ATTEMPTS = 1_000


def resolve(key: str) -> ShortUrl:
    """Read the counter, and write the sum only if nobody else has counted meanwhile.

    What it does: optimistic locking. It fetches the short URL and updates the row on condition
    that the counter is still what was read; if it is not, it starts again. It returns the short
    URL, and raises ShortUrl.DoesNotExist when none is live, and ShortUrl.Contended after 1,000
    attempts.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = 1
            WHERE (deleted_at IS NULL AND … AND hits = 0 AND id = …)
        … both once more when no row was updated

    Why nothing can go wrong: the condition is checked by the UPDATE itself, under the row lock
    that it takes, and so is whether the link is live. A stale read updates no row, and that is
    noticed.

    What it costs: two statements, and two more for each hit that came in between: on a hot link
    most of the work is done in vain.

    When to use it: when the new value needs Python and collisions are rare; or, with a version
    column, to guard a form that a person takes minutes to fill in.
    """
    for _ in range(ATTEMPTS):
        short_url = ShortUrl.objects.live().get(key=key)
        unchanged = ShortUrl.objects.live().filter(pk=short_url.pk, hits=short_url.hits)
        if unchanged.update(hits=short_url.hits + 1):
            short_url.hits += 1
            return short_url
    raise ShortUrl.Contended(key, ATTEMPTS)
