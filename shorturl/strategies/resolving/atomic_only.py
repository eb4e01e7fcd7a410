from django.db import transaction

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "the same inside atomic(): a transaction is not a lock"


def resolve(key: str) -> ShortUrl:
    """Read the counter, add one, write it back, all in one transaction.

    SQL:
        BEGIN
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET key = …, target_url = …, hits = 1, … WHERE id = …
        COMMIT

    What goes wrong: the same lost update as in `naive`, in the same schedules. A transaction is not
    a lock: under READ COMMITTED it does not stop another process from reading the same number, and
    it lengthens the time between read and write.

    What it costs: four round trips, a row lock from the UPDATE to the COMMIT, and lost hits.
    """
    with transaction.atomic():
        short_url = ShortUrl.objects.live().get(key=key)
        short_url.hits += 1
        short_url.save()
    return short_url
