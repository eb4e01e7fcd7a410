"""There is no row to lock, so the target is locked by name, until the link is committed."""

from collections.abc import Callable

from django.db import connection, transaction

from shorturl.models import ShortUrl


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            name = f"{owner_id} {target_url}"
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
        links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
        found = links.order_by("id").first()
        return (found, False) if found else (create(), True)
