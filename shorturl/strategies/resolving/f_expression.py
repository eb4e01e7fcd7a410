from django.db.models import F

from shorturl.models import ShortUrl

VERDICT = "right, unless a link has a limit or an expiry"
STEP = "✅ 4"
SHOWS = "increment in the database, save only the counter"


def resolve(key: str) -> ShortUrl:
    """Let the database add one, and save only the counter.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE id = …

    What goes wrong: for a link without a limit and an expiry, nothing. The UPDATE reads and writes
    the counter under the row lock that every UPDATE takes, so a stale read does no harm. But the
    SELECT alone decides whether the link is live. Two processes that see one use left both count:
    the table's CHECK makes this an IntegrityError, and without the CHECK the link is used twice. A
    hit whose SELECT came before the link expired is counted after it.

    What it costs: two statements. `hits` of the returned object is an expression, so reading its
    value takes another statement.

    When to use it: where nothing depends on the counter. It is plain Django.
    """
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits = F("hits") + 1
    short_url.save(update_fields=["hits"])
    return short_url
