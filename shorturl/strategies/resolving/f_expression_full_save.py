from django.db.models import F

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "counts right, and undoes a concurrent edit"


def resolve(key: str) -> ShortUrl:
    """Let the database add one, and save all other columns too.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET key = …, target_url = …, hits = hits + 1, … WHERE id = …

    What goes wrong: the counter is right, but the other columns are written back as they were read.
    An edit of the target, the limit or the expiry between the two statements is undone, and so is a
    deletion. `save()` of an object that others may change needs `update_fields`.

    What it costs: two statements, and lost edits.
    """
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits = F("hits") + 1
    short_url.save()
    return short_url
