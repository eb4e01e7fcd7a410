"""`manage.py import_links`: reads links from a file of export_links, Shlink, Kutt or YOURLS."""

import sys
from argparse import ArgumentParser
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import IO, Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, transaction

from shorturl import bans, bulk
from shorturl.exceptions import TargetBanned, counted
from shorturl.links.validators import shortened
from shorturl.management.database_command import database_error, user_of
from shorturl.management.progress import with_progress
from shorturl.models import ShortUrl
from shorturl.transfer.link_files import Link, make_row, read_csv, read_json

READERS = {"csv": read_csv, "json": read_json, "jsonl": read_json}
Batch = dict[str, tuple[str, dict[str, Any]]]  # by key: the position in the file, and the row


class Command(BaseCommand):
    """Inserts each batch with one statement, so that an interrupted import can be repeated."""

    help = (
        "Read links from CSV or JSON of export_links, Shlink, Kutt or YOURLS. Links that exist do "
        "not change, so an import can be repeated. Exit codes: 0, all links exist; 1, some were "
        "refused, each with the reason; 2, the file or the database cannot be read; 130, Ctrl-C."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="such as links.csv or links.json; - is standard input")
        parser.add_argument("--format", choices=READERS, help="if the name has another suffix")
        parser.add_argument("--owner", help="the account for links that have no owner")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["file"]
        suffix = options["format"] or Path(name).suffix.removeprefix(".")
        self.imported = self.existing = self.owners_given = self.refused = 0
        self.position = "the beginning of the file"
        try:
            self.accounts = dict(User.objects.values_list("username", "pk"))
            self.default_owner = user_of(options["owner"]).pk if options["owner"] else None
            if suffix not in READERS:
                raise ValidationError("Its format is unknown: use --format csv or --format json.")
            self.load(READERS[suffix](open_text(name), self.refuse))
        except DatabaseError as error:
            raise database_error(error, f"Stopped {self.where()}", returncode=2) from error
        except KeyboardInterrupt as error:
            raise CommandError(f"Interrupted {self.where()}", returncode=130) from error
        except OSError as error:
            raise CommandError(f"{name} cannot be read: {error.strerror}.", returncode=2) from error
        except ValidationError as error:
            raise CommandError(f"{name}: {error.messages[0]}", returncode=2) from error
        self.stdout.write(self.summary())
        if self.refused:
            raise CommandError("Correct these links and run it again: other links do not change.")

    def load(self, links: Iterator[tuple[str, Link]]) -> None:
        """Insert the links in batches, none of which has a key twice."""
        batch: Batch = {}
        for position, link in with_progress(links, self.stderr.write):
            self.position = position
            try:
                row = make_row(position, link, self.warn)
                row["owner_id"] = self.owner_of(link)
            except ValidationError as error:
                self.refuse(position, error.messages[0])
                continue
            if row["key"] in batch or len(batch) == bulk.MAX_LINKS:
                self.insert(batch)
                batch = {}
            batch[row["key"]] = position, row
        self.insert(batch)

    def insert(self, batch: Batch) -> None:
        """Insert the links of a batch, and count or refuse those whose key exists."""
        with transaction.atomic():
            self.refuse_banned(batch)
            rows = [row for _position, row in batch.values()]
            new = bulk.insert(rows) if rows else {}
        self.imported += len(new)
        existing = ShortUrl.objects.in_bulk(batch.keys() - new.keys(), field_name="key")
        for key, link in existing.items():
            position, row = batch[key]
            if link.target_url != row["target_url"]:
                target = shortened(link.target_url)
                reason = f"leads to {target!r} here: choose another key in the file."
                self.refuse(position, reason)
            elif link.deleted_at and not row["deleted_at"]:
                self.refuse(position, "deleted here, not imported.")
            else:
                self.existing += 1
                if row["owner_id"] and not link.owner_id:
                    without_owner = ShortUrl.objects.filter(key=key, owner=None)
                    self.owners_given += without_owner.update(owner_id=row["owner_id"])

    def refuse_banned(self, batch: Batch) -> None:
        """Refuse the links to banned domains, and remove them from the batch."""
        banned = bans.banned_targets({row["target_url"] for _position, row in batch.values()})
        for key, (position, row) in list(batch.items()):
            if domain := banned.get(row["target_url"]):
                self.refuse(position, str(TargetBanned(shortened(row["target_url"]), domain)))
                del batch[key]

    def owner_of(self, link: Link) -> int | None:
        if not (name := link.get("owner")):
            return self.default_owner
        if str(name) not in self.accounts:
            raise ValidationError(f"There is no account {shortened(str(name))!r}: create it first.")
        return self.accounts[str(name)]

    def warn(self, position: str, message: str) -> None:
        self.stderr.write(f"{position}: {message}")

    def refuse(self, position: str, reason: str) -> None:
        self.refused += 1
        self.warn(position, reason)

    def where(self) -> str:
        again = "Run it again: links that exist do not change."
        return f"at: {self.position}. {self.summary()} {again}"

    def summary(self) -> str:
        owned = f" ({self.owners_given:,} got an owner)" if self.owners_given else ""
        existed = f"{self.existing:,} existed already{owned}"
        imported = f"{counted(self.imported, 'link')} imported"
        return f"{imported}, {existed}, {self.refused:,} not imported."


def open_text(name: str) -> IO[str]:
    """Return the text of a file; raise ValidationError unless all of it is UTF-8."""
    content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return StringIO(content.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        encoding = "UTF-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "WINDOWS-1252"
        convert = f"`iconv -f {encoding} -t UTF-8` converts it"
        raise ValidationError(f"It is not UTF-8: {convert} if it is {encoding}.") from error
