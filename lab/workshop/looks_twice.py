from shorturl.models import ShortUrl

MOST_ATTEMPTS = 10


def resolve(key: str) -> ShortUrl:
    """Read the counter, look once more, and write only when nobody has come in between.

    It returns the short URL, and raises ShortUrl.DoesNotExist when there is none, or
    ShortUrl.Contended when somebody came in between each time.

    SQL, and so the steps of a process:
        SELECT … FROM shorturl_shorturl WHERE key = … LIMIT 21
        SELECT … FROM shorturl_shorturl WHERE key = … LIMIT 21
        UPDATE shorturl_shorturl SET hits = 1 WHERE id = …, or from the top when they differ
        its COMMIT

    What goes wrong is the exercise `schedule`.
    """
    for _ in range(MOST_ATTEMPTS):
        short_url = ShortUrl.objects.get(key=key)
        if ShortUrl.objects.get(key=key).hits == short_url.hits:
            short_url.hits += 1
            short_url.save(update_fields=["hits"])
            return short_url
    raise ShortUrl.Contended(key, MOST_ATTEMPTS)
