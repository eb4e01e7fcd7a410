"""`manage.py import_links`: reads links from a file of export_links, Shlink, Kutt or YOURLS."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import SEEK_END, TextIOWrapper
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, OperationalError, connection
from django.utils import timezone
from tqdm import tqdm  # type: ignore[import-untyped]

from shorturl import bulk
from shorturl.links.keys import validate_custom_key
from shorturl.links.validators import shortened
from shorturl.management.database_command import database_error
from shorturl.models import ShortUrl
from shorturl.transfer.link_files import format_of, key_of, row
from shorturl.transfer.records import (
    Found,
    check_encoding,
    csv_records,
    json_records,
)

MOST_SHOWN = 100  # refused lines and keys; further ones are only counted
READERS = {"csv": csv_records, "jsonl": json_records, "json": json_records}
Row = dict[str, Any]


class Command(BaseCommand):
    """Inserts each batch with one statement, and leaves existing links alone.

    The statement that inserts a link also sets its hits, so an interrupted import can be repeated.
    Two imports at once are safe.
    """

    help = (
        "Read links, with their hits and times, from CSV or JSON of export_links, Shlink, "
        "Kutt or YOURLS. A link that exists with the same target is not changed, so the same file "
        "can be imported again. Exit codes: 0, all links exist; 1, some lines were refused, each "
        "with a message that says what would be right; 2, the file or the database cannot be read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="such as links.csv or links.jsonl; - is standard input")
        parser.add_argument("--format", choices=READERS, help="if the name has another suffix")
        parser.add_argument("--owner", help="the account for links that have no owner in the file")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        records_of = READERS[format_of(name, options["format"], READERS)]
        self.made = self.there = self.refused = 0
        try:
            with self.opened(name) as (file, text):
                check_encoding(file)
                self.warn_of_keys(records_of(self.lines(file, text, "keys")))
                self.load(records_of(self.lines(file, text, "links")), options["owner"])
        except DatabaseError as error:
            what_now = f"{self.summary()} Run it again: it continues."
            raise database_error(error, what_now, returncode=2) from error
        except OSError as error:
            raise CommandError(f"{name} cannot be read: {error.strerror}.", returncode=2) from error
        except ValidationError as error:
            message = f"{name}: {error.messages[0]} {self.summary()}"
            raise CommandError(message, returncode=2) from error
        self.stdout.write(self.summary())
        if self.refused:
            raise CommandError("Correct these lines and run it again: other links do not change.")

    def load(self, records: Iterable[Found], owner: str | None) -> None:
        account, now = cache(owner_id), timezone.now()
        default_owner = owner and account(owner)
        batch: dict[str, tuple[int, Row]] = {}
        for line, record in records:
            try:
                if isinstance(record, ValidationError):
                    raise record
                columns = row(record, account, now)
            except ValidationError as error:
                self.refuse(line, error.messages[0])
                continue
            columns["owner_id"] = columns["owner_id"] or default_owner
            if columns["key"] in batch or len(batch) == bulk.MAX_LINKS:
                self.insert(batch)
                batch = {}
            batch[columns["key"]] = line, columns
        if batch:
            self.insert(batch)
        # Until autovacuum runs, PostgreSQL would plan for a few links in a table of millions.
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"ANALYZE {connection.ops.quote_name(ShortUrl._meta.db_table)}")
        except OperationalError as error:
            self.stderr.write(f"All links are imported; ANALYZE failed: {str(error).strip()}")

    def insert(self, batch: dict[str, tuple[int, Row]]) -> None:
        made = bulk.insert([columns for _, columns in batch.values()])
        self.made += len(made)
        rest = batch.keys() - made.keys()
        targets = ShortUrl.objects.filter(key__in=rest).values_list("key", "target_url")
        for key, target_url in sorted(targets, key=lambda found: batch[found[0]][0]):
            line, columns = batch[key]
            if target_url == columns["target_url"]:
                self.there += 1
            else:
                leads = f"The key {key!r} leads to {shortened(target_url)!r} here"
                self.refuse(line, f"{leads}: choose another key in the file.")

    def refuse(self, line: int, message: str) -> None:
        self.refused += 1
        if self.refused <= MOST_SHOWN:
            with tqdm.external_write_mode(file=sys.stderr):  # not into the bar
                self.stderr.write(f"Line {line:,}: {message}")

    def summary(self) -> str:
        return (
            f"{self.made:,} links imported, {self.there:,} existed already, "
            f"{self.refused:,} lines not imported."
        )

    def warn_of_keys(self, records: Iterable[Found]) -> None:
        """Say which keys are not valid here, before any link is imported."""
        shown, count = [], 0
        for _, record in records:
            with suppress(ValidationError):  # load() refuses it, with its line
                if not isinstance(record, ValidationError) and not is_valid(key_of(record)):
                    count += 1
                    shown += [repr(shortened(key_of(record)))] if count <= MOST_SHOWN else []
        if count:
            more = f" and {count - len(shown):,} more" if count > len(shown) else ""
            self.stderr.write(
                f"{count:,} links have keys that are not valid here, and are left out: "
                f"{', '.join(shown)}{more}."
            )

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[IO[bytes], TextIOWrapper]]:
        """Yield the file and its text, in which a line ends with a line feed, a return, or both.

        A stream is read to a temporary file first, because the file is read several times.
        """
        with (
            sys.stdin.buffer if name == "-" else Path(name).open("rb") as given,
            given if given.seekable() else TemporaryFile() as file,
        ):
            if not given.seekable():
                copyfileobj(given, file)
            with TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield file, text

    def lines(self, file: IO[bytes], text: TextIOWrapper, what: str) -> Iterator[str]:
        """Yield the lines of the file, with a progress bar of the bytes read."""
        size = file.seek(0, SEEK_END)
        text.seek(0)
        with tqdm(
            desc=what, total=size, unit="B", unit_scale=True, disable=None, leave=False
        ) as bar:
            for line in text:
                bar.update(file.tell() - bar.n)
                yield line


def is_valid(key: str) -> bool:
    try:
        validate_custom_key(key)
    except ValidationError:
        return False
    return True


def owner_id(name: str) -> int:
    accounts = get_user_model().objects.filter(username=name)
    try:
        return accounts.values_list("pk", flat=True).get()
    except (ObjectDoesNotExist, ValueError) as error:  # ValueError: a NUL, or a lone surrogate
        raise ValidationError(
            f"There is no account {shortened(name)!r}: create it first, or leave the owner out."
        ) from error
