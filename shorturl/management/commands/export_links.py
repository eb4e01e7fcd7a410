"""`manage.py export_links`: writes all links to a CSV file, which import_links reads."""

import csv
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection, transaction

from shorturl.exceptions import counted
from shorturl.management.database_command import database_error
from shorturl.management.progress import with_progress
from shorturl.models import ShortUrl
from shorturl.transfer.link_files import COLUMNS, without_formula

PAGE_SIZE = 5_000  # links of one statement; some 10 MB at most
TIMES = ("created_at", "deleted_at", "expires_at")


def write_csv(file: Any, links: Iterable[dict[str, Any]]) -> None:
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for link in links:
        cells = {**link, "tags": ",".join(link["tags"])}
        writer.writerow({name: without_formula(value) for name, value in cells.items()})


class Command(BaseCommand):
    """Reads all pages in one transaction, which PgBouncer keeps on one session."""

    help = (
        "Write all links to CSV, deleted ones too, with hits and times, as of one moment: no "
        "visits, accounts or tokens. Exit codes: 0, all are written; 2, they are not."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="such as links.csv; - is standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["file"]
        try:
            with self.open_output(name) as file, transaction.atomic(durable=True):
                keep_snapshot()
                count = ShortUrl.objects.count()
                write_csv(file, with_progress(all_links(), self.stderr.write, total=count))
        except DatabaseError as error:
            what_now = "The export is not complete: try again."
            raise database_error(error, what_now, returncode=2) from error
        except OSError as error:
            message = f"{name} cannot be written: {error.strerror}."
            raise CommandError(message, returncode=2) from error
        self.stderr.write(f"{counted(count, 'link')} exported.")

    @contextmanager
    def open_output(self, name: str) -> Iterator[Any]:
        """Yield the file to write to: NAME.part, which is renamed when the export is complete."""
        if name == "-":
            yield self.stdout
            return
        part = Path(f"{name}.part")
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(name)


def keep_snapshot() -> None:
    """Make the transaction see the rows as of one moment."""
    with connection.cursor() as cursor:
        # The reader of the output may be slow; each statement keeps its timeout.
        cursor.execute(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; "
            "SET LOCAL idle_in_transaction_session_timeout = 0"
        )


def all_links() -> Iterator[dict[str, Any]]:
    """Yield the columns of all links."""
    links = ShortUrl.objects.select_related("owner").order_by("id")
    last_id = 0
    while page := list(links.filter(id__gt=last_id)[:PAGE_SIZE]):
        for link in page:
            yield columns(link)
        last_id = page[-1].pk


def columns(link: ShortUrl) -> dict[str, Any]:
    values = {name: getattr(link, name) for name in COLUMNS}
    times = {name: values[name] and values[name].isoformat() for name in TIMES}
    owner = link.owner and link.owner.get_username()
    return {**values, **times, "tags": link.tags or [], "owner": owner}
