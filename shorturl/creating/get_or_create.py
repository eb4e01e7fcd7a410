from collections.abc import Iterable
from typing import Any

from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Get the short URL of the first candidate key, or create it.

    What it does: looks the key up and inserts it when it is not there; when somebody inserted it
    in between, it catches the violation and looks it up again. It returns the short URL, new or
    found.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE key = … LIMIT 21
        BEGIN, or SAVEPOINT …
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT, or RELEASE SAVEPOINT …

    What goes wrong: it never fails, and that is the trouble. Who draws a taken key gets the link
    that is already there, and its target: the user is handed somebody else's short URL, and their
    own target is thrown away. No error says so, not even without any concurrency.

    What it costs: one statement when the row is there, four when not.

    Whoever looks at what is thrown away here, `created`, and tries the next key when it is False,
    has a create that holds, in a caller's transaction too: Django sets a savepoint.

    When to use it: where the row found is as good as the row asked for (a tag by its name), which
    a randomly drawn key never is.
    """
    key = next(iter(keys))
    short_url, _created = ShortUrl.objects.get_or_create(
        key=key, defaults={"target_url": target_url, **values}
    )
    return short_url
