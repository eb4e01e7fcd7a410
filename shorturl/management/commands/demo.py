"""`manage.py demo`: links with a year of visits, which fill the pages of a local run."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.utils import timezone
from tqdm import tqdm  # type: ignore[import-untyped]

from shorturl import bulk
from shorturl.management.database_command import DatabaseCommand, user_of
from shorturl.management.demo_links import DAYS, LINKS, DemoLink, visits
from shorturl.models import ShortUrl, ShortUrlQuerySet, VisitCount

COLUMNS = [each.column for each in VisitCount._meta.concrete_fields if not each.primary_key]
# All visits of a link; bulk_create() takes four times as long.
INSERT = sql.SQL("""
    INSERT INTO {table} ({columns})
    SELECT {columns} FROM json_populate_recordset(NULL::{table}, %s)
""").format(
    table=sql.Identifier(VisitCount._meta.db_table),
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
)


class Command(DatabaseCommand):
    """Creates each link with its visits in one transaction, so that the visits are its hits."""

    help = (
        f"Create {len(LINKS)} links, {LINKS[0].key} and others, with a year of visits that are "
        "drawn from a seed. Existing links are left alone. For a local run only."
    )
    what_now = "Run it again: it continues."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seed", type=int, default=1, help="another seed draws other visits")
        parser.add_argument(
            "--owner",
            help="the account that owns the links; by default the only superuser, or none",
        )
        parser.add_argument("--remove", action="store_true", help="remove them, with their visits")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LOCAL:
            raise CommandError(
                "This is a production service, whose counters must stay correct: run it where "
                "SHORTURL_LOCAL is on, with another database."
            )
        if options["remove"]:
            there().delete()  # first, so that no visit is recorded between the removals of erase()
            self.stdout.write(f"{there().erase()} demo links are removed.")
            return
        owner = options["owner"]
        owner_id = only_superuser() if owner is None else user_of(owner).pk
        made = total = 0
        with tqdm(LINKS, unit=" links", disable=None, leave=False) as bar:
            for link in bar:
                with transaction.atomic():
                    hits = make(link, options["seed"], owner_id)
                made += hits is not None
                total += hits or 0
        self.stdout.write(
            f"{made} demo links are made, with {total:,} visits; "
            f"{there().count() - made} existed already. "
            f"Open /{LINKS[0].key}/stats; --remove removes them."
        )


def only_superuser() -> int | None:
    superusers = User.objects.filter(is_superuser=True, is_active=True)[:2]
    return superusers[0].pk if len(superusers) == 1 else None


def there() -> ShortUrlQuerySet:
    """Return the existing demo links; a link with the same key and another target is not one."""
    keys, target_urls, *_ = zip(*LINKS, strict=True)
    return ShortUrl.objects.filter(key__in=keys, target_url__in=target_urls)


def make(link: DemoLink, seed: int, owner_id: int | None) -> int | None:
    """Create a link and its visits; return their number, or None if the key is taken."""
    now = timezone.now()
    rows = visits(link, seed, now)
    hits: int = sum(row["hits"] for row in rows)
    columns = {
        "key": link.key,
        "target_url": link.target_url,
        "title": link.title,
        "tags": link.tags.split() or None,
        "hits": hits,
        "owner_id": owner_id,
        "created_at": now - timedelta(days=DAYS),
    }
    if not bulk.insert([columns]):
        return None
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [json.dumps(rows, default=str)])
    return hits
