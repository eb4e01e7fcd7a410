from collections.abc import Callable

from shorturl.models import ShortUrl

VERDICT = "wrong"
SHOWS = "find if exists, else create: time of check to time of use"


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Look for a link to the target, and create one if there is none.

    SQL:
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …

    What goes wrong: time of check to time of use. Two processes look, both find nothing, and both
    create a link. No constraint refuses the second one, because a target may have many links.

    What it costs: one statement when the link exists, two when it does not.
    """
    links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    link = links.order_by("id").first()
    return (link, False) if link else (create(), True)
