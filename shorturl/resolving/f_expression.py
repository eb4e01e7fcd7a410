from django.db.models import F

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    """Let the database add one, and save nothing but the counter.

    What it does: fetches the short URL and increments the counter relative to what the row holds
    by then. It returns the short URL, and raises ShortUrl.DoesNotExist when there is none.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE key = … LIMIT 21
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE id = …

    Why nothing can go wrong: the UPDATE reads and writes the counter in one statement, under the
    row lock that every UPDATE takes, so what was read before does not matter. `update_fields`
    keeps it from writing back the columns that were read and may be old by now.

    What it costs: two statements; and `hits` of the object returned is an expression, which a
    look at it would have to fetch from the database.

    When to use it: nearly always. It is plain Django, and one more round trip is seldom too much.
    """
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits = F("hits") + 1
    short_url.save(update_fields=["hits"])
    return short_url
