"""`manage.py demo`: believable links with a year of visits, to see what the pages are like."""

from argparse import ArgumentParser
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.utils import timezone
from tqdm import tqdm  # type: ignore[import-untyped]

from shorturl import bulk
from shorturl.management.command_errors import database_error
from shorturl.management.demo_links import DAYS, LINKS, DemoLink, visits
from shorturl.models import ShortUrl, ShortUrlQuerySet, VisitCount

ROWS = 2_000  # of one statement


class Command(BaseCommand):
    """Makes each link with its visits in one transaction, so that its hits are their sum."""

    help = (
        f"Make {len(LINKS)} links, {LINKS[0].key} and others, with a year of visits, drawn from a "
        "seed. A link that is there already is left as it is. For a local run only."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--seed", type=int, default=1, help="others draw other visits")
        parser.add_argument("--owner", help="the account that gets the links; without it, nobody's")
        parser.add_argument("--remove", action="store_true", help="remove them, with their visits")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make or remove them, and say how many; raise CommandError where that is refused."""
        if not settings.LOCAL:
            raise CommandError(
                "This is a production, whose counters are to be true: run it where "
                "SHORTURL_LOCAL is on, with a database of its own."
            )
        try:
            if options["remove"]:
                self.stdout.write(f"{remove()} demo links are removed.")
            else:
                self.make(options["seed"], self.owner_id(options["owner"]))
        except DatabaseError as error:
            raise database_error(error, "Run it again: it goes on.") from error

    def make(self, seed: int, owner_id: int | None) -> None:
        """Make what is not there yet."""
        made = total = 0
        with tqdm(LINKS, unit=" links", disable=None, leave=False) as bar:
            for link in bar:
                with transaction.atomic():
                    hits = make(link, seed, owner_id)
                made += hits is not None
                total += hits or 0
        self.stdout.write(
            f"{made} demo links are made, with {total:,} visits; "
            f"{there().count() - made} were there already. "
            f"Open /{LINKS[0].key}/stats; --remove removes them."
        )

    @staticmethod
    def owner_id(name: str | None) -> int | None:
        """Return the account of this name; raise CommandError without one."""
        if name is None:
            return None
        found = get_user_model().objects.filter(username=name.replace("\0", "")).first()
        if found is None:
            raise CommandError(
                f"There is no account {name!r}: make it with manage.py createsuperuser."
            )
        return int(found.pk)


def there() -> ShortUrlQuerySet:
    """Return the demo links, and no link of the same key that leads elsewhere."""
    each = (Q(key=link.key, target_url=link.target_url) for link in LINKS)
    return ShortUrl.objects.filter(reduce(or_, each))


def remove() -> int:
    """Remove the demo links and their visits, and return how many links."""
    there().delete()  # first, so that no visit comes to what has lost its visits already
    return there().erase()


def make(link: DemoLink, seed: int, owner_id: int | None) -> int | None:
    """Make a link and its visits; return their number, or None if its key is taken."""
    now = timezone.now()
    rows = visits(link, seed, now)
    hits = sum(row.hits for row in rows)
    columns = {
        "key": link.key,
        "target_url": link.target_url,
        "hits": hits,
        "owner_id": owner_id,
        "created_at": now - timedelta(days=DAYS),
    }
    for short_url in bulk.insert([columns]).values():
        for row in rows:
            row.short_url = short_url
        VisitCount.objects.bulk_create(rows, ROWS)
        return hits
    return None
