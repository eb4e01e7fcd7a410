from shorturl.models import ShortUrl

VERDICT = "wrong"
STEP = "⛔ 3"
SHOWS = "read, add one, write: the lost update"


def resolve(key: str) -> ShortUrl:
    """Read the counter, add one, write it back.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET key = …, target_url = …, hits = 1, … WHERE id = …

    What goes wrong: the lost update. Two processes read the same number, and both write the same
    sum: two hits, counted once. So a limit can be exceeded, and not even a CHECK notices. And
    save() writes every column, so it undoes an edit of the target, the limit or the expiry that was
    made meanwhile.

    What it costs: two statements, and lost hits.
    """
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits += 1
    short_url.save()
    return short_url
