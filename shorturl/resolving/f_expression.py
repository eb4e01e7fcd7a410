from django.db.models import F

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    """Let the database add one, and save nothing but the counter.

    What it does: fetches the short URL and increments the counter relative to what the row holds
    by then. It returns the short URL, and raises ShortUrl.DoesNotExist when none is live.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE id = …

    What goes wrong: without a limit or an expiry, nothing. The UPDATE reads and writes the counter
    in one statement, under the row lock that every UPDATE takes, so what was read before does not
    matter, and `update_fields` keeps it from writing back the columns that may be old by now. But
    what was read decides whether the link is live. Two processes see one use left, and both count:
    the CHECK of the table makes it an IntegrityError, and without one the link is used twice. A
    hit that looked before the link was made to expire is counted after it.

    What it costs: two statements; and `hits` of the object returned is an expression, which a
    look at it would have to fetch from the database.

    When to use it: where nothing depends on the counter. It is plain Django, and one more round
    trip is seldom too much.
    """
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits = F("hits") + 1
    short_url.save(update_fields=["hits"])
    return short_url
