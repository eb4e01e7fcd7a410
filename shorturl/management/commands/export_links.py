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
from shorturl.models import ShortUrl, ShortUrlQuerySet
from shorturl.transfer.link_files import COLUMNS, COMPUTED, FORMATS, TIMES, format_of

PAGE = 5_000  # links of one statement; some 10 MB at most
# The reader of the output may be slow; each statement keeps its timeout.
SNAPSHOT = """
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL idle_in_transaction_session_timeout = 0
"""


class Command(BaseCommand):
    """Reads all pages in one transaction, which PgBouncer keeps on one session."""

    help = (
        "Write all links, deleted ones too, with hits and times, from one snapshot. "
        "Exit codes: 0, all are written; 2, they are not."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="such as links.csv or links.jsonl; - is standard output")
        parser.add_argument("--format", choices=FORMATS, help="if the name has another suffix")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        written_as = {"csv": csv_writer, "jsonl": json_writer}[format_of(name, options["format"])]
        try:
            with self.opened(name) as file, transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute(SNAPSHOT)
                count = export(written_as(file), ShortUrl.objects.all())
        except DatabaseError as error:
            what_now = "The export is not complete: try again."
            raise database_error(error, what_now, returncode=2) from error
        except OSError as error:
            raise CommandError(
                f"{name} cannot be written: {error.strerror}.", returncode=2
            ) from error
        self.stderr.write(f"{count:,} links are exported.")

    @contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        """Yield the file to write to; it is renamed from NAME.part when it is complete."""
        if name == "-":
            yield self.stdout
            return
        path = Path(name)
        part = path.with_name(f"{path.name}.part")
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(path)


def csv_writer(file: Any) -> Callable[[dict[str, Any]], object]:
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()

    def write(link: dict[str, Any]) -> object:
        row = {**link, "tags": ",".join(link["tags"])}
        for name, value in row.items():
            if str(value).startswith(COMPUTED):
                row[name] = f"'{value}"
        return writer.writerow(row)

    return write


def json_writer(file: Any) -> Callable[[dict[str, Any]], object]:
    return lambda link: file.write(json.dumps(link, ensure_ascii=False) + "\n")


def export(write: Callable[[dict[str, Any]], object], every: ShortUrlQuerySet) -> int:
    links = every.select_related("owner").order_by("id")
    count = every.count()
    with tqdm(total=count, unit=" links", unit_scale=True, disable=None, leave=False) as bar:
        last = 0
        while page := list(links.filter(id__gt=last)[:PAGE]):
            for link in page:
                write(columns(link))
            last = page[-1].pk
            bar.update(len(page))
    return count


def columns(link: ShortUrl) -> dict[str, Any]:
    times = {name: getattr(link, name) for name in TIMES}
    return {
        "key": link.key,
        "target_url": link.target_url,
        "title": link.title,
        "tags": link.tags or [],
        "hits": link.hits,
        "max_hits": link.max_hits,
        "owner": link.owner and link.owner.get_username(),
        **{name: time and time.isoformat() for name, time in times.items()},
        "forward_query": link.forward_query,
    }
