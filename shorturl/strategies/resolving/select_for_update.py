from django.db import transaction

from shorturl.models import ShortUrl

VERDICT = "right"
STEP = "✅ 3"
SHOWS = "a row lock: right, and all hits queue"


def resolve(key: str) -> ShortUrl:
    """Lock the row, read the counter, add one, write it back.

    SQL:
        BEGIN
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
            FOR UPDATE
        UPDATE shorturl_shorturl SET hits = 1 WHERE id = …
        COMMIT

    Why nothing can go wrong: only one process at a time holds the row lock. The next one reads the
    row, and checks again that it is live, only after the first one has committed.

    What it costs: four round trips. During most of them all other hits of the link wait, however
    slow the process is.

    When to use it: when the new value needs Python, or when several rows must change together.
    """
    with transaction.atomic():
        short_url = ShortUrl.objects.live().select_for_update().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url
