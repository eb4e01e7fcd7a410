"""`manage.py export_links`: writes all links to a file, which import_links reads."""

import csv
import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection, transaction
from tqdm import tqdm  # type: ignore[import-untyped]

from shorturl.management.database_command import database_error
from shorturl.models import ShortUrl
from shorturl.transfer.link_files import COLUMNS

PAGE = 5_000  # links of one statement; some 10 MB at most
FORMATS = ("csv", "jsonl")
TIMES = ("created_at", "deleted_at", "expires_at")
# A spreadsheet computes a cell that begins with one of these, so an apostrophe is put before it,
# and before another apostrophe.
COMPUTED = ("=", "+", "-", "@", "'")
Write = Callable[[dict[str, Any]], object]


class Command(BaseCommand):
    """Reads all pages in one transaction, which PgBouncer keeps on one session."""

    help = (
        "Write all links, deleted ones too, with hits and times, as of one moment: no visits, "
        "accounts or tokens. Exit codes: 0, all are written; 2, they are not."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="such as links.csv or links.jsonl; - is standard output")
        parser.add_argument("--format", choices=FORMATS, help="if the name has another suffix")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["file"]
        kind = options["format"] or Path(name).suffix.removeprefix(".")
        if kind not in FORMATS:
            wrong = f"The format of {name} is unknown: use --format csv or --format jsonl."
            raise CommandError(wrong, returncode=2)
        try:
            with self.opened(name) as file, transaction.atomic(durable=True):
                count = export((csv_writer if kind == "csv" else json_writer)(file))
        except DatabaseError as error:
            what_now = "The export is not complete: try again."
            raise database_error(error, what_now, returncode=2) from error
        except OSError as error:
            wrong = f"{name} cannot be written: {error.strerror}."
            raise CommandError(wrong, returncode=2) from error
        self.stderr.write(f"{count:,} links are exported.")

    @contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        """Yield the file to write to; it is renamed from NAME.part when it is complete."""
        if name == "-":
            yield self.stdout
            return
        part = Path(f"{name}.part")
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(name)


def csv_writer(file: Any) -> Write:
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()

    def write(link: dict[str, Any]) -> None:
        texts = {name: "" if value is None else str(value) for name, value in link.items()}
        texts["tags"] = ",".join(link["tags"])
        prefixed = {name: f"'{text}" for name, text in texts.items() if text.startswith(COMPUTED)}
        writer.writerow({**texts, **prefixed})

    return write


def json_writer(file: Any) -> Write:
    return lambda link: file.write(json.dumps(link, ensure_ascii=False) + "\n")


def export(write: Write) -> int:
    """Write all links as of the same moment; return how many."""
    with connection.cursor() as cursor:
        # The reader of the output may be slow; each statement keeps its timeout.
        cursor.execute(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; "
            "SET LOCAL idle_in_transaction_session_timeout = 0"
        )
    links = ShortUrl.objects.select_related("owner").order_by("id")
    last = 0
    with tqdm(total=links.count(), unit=" links", disable=None, leave=False) as bar:
        while page := list(links.filter(id__gt=last)[:PAGE]):
            for link in page:
                write(columns(link))
            last = page[-1].pk
            bar.update(len(page))
        return int(bar.total)


def columns(link: ShortUrl) -> dict[str, Any]:
    values = {name: getattr(link, name) for name in COLUMNS}
    times = {name: values[name] and values[name].isoformat() for name in TIMES}
    owner = link.owner and link.owner.get_username()
    return {**values, **times, "tags": link.tags or [], "owner": owner}
