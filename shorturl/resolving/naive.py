from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    """Read the counter, add one, write it back.

    What it does: fetches the short URL, increments the counter in Python, and saves the object.
    It returns the short URL, and raises ShortUrl.DoesNotExist when there is none.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE key = … LIMIT 21
        UPDATE shorturl_shorturl SET key = …, target_url = …, hits = 1, … WHERE id = …

    What goes wrong: the lost update. Two processes read the same number, both add one, both
    write the same sum: two hits, counted once. And save() writes every column, so that an edit
    of the target made meanwhile is undone.

    What it costs: two statements, and the hits that it loses.

    When to use it: never.
    """
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits += 1
    short_url.save()
    return short_url
