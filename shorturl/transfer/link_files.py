"""Files of links as this service, Shlink, Kutt and YOURLS write them."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import IO, Any

from django.core.exceptions import ValidationError
from django.utils import timezone

from shorturl.links import labels
from shorturl.links.keys import validate_custom_key
from shorturl.links.validators import clean_target_url, in_utc, shortened
from shorturl.models import ShortUrl

VALUES = ("hits", "max_hits", "forward_query", "created_at", "deleted_at", "expires_at")
COLUMNS = ("key", "target_url", "title", "tags", "owner", *VALUES)
# The names that each program has for our columns; of several, the first that a file has counts.
OWN = {name: (name,) for name in COLUMNS}
# The CSV of the web client, in older versions without shortCode, and the CSV that Shlink imports.
SHLINK = {
    "key": ("shortCode", "Short code", "shortUrl"),
    "target_url": ("longUrl", "Long URL"),
    "title": ("title", "Title"),
    "tags": ("tags", "Tags"),
    "hits": ("visits",),
    "created_at": ("createdAt",),
}
# The CSV of the table yourls_url, and of the plugin GautamGupta/YOURLS-Import-Export.
YOURLS = {
    "key": ("keyword", "source"),
    "target_url": ("url", "target"),
    "title": ("title",),
    "hits": ("clicks", "hits"),
    "created_at": ("timestamp",),
}
# The answers of GET /api/v2/links (docs/api/api.js of thedevs-network/kutt).
KUTT = {
    "key": ("address",),
    "target_url": ("target",),
    "title": ("description",),
    "hits": ("visit_count",),
    "created_at": ("created_at",),
    "expires_at": ("expire_in",),
    "banned": ("banned",),
    "protected by a password": ("password",),
}
AN_ENTRY = 'an entry must be an object such as {"key": "spring", "target_url": "https://…"}.'
# How MySQL and other programs write NULL, and no date.
NULL = re.compile(r"|None|NULL|\\N|0000-00-00([ T]00:00:00.*)?")

Link = dict[str, Any]  # the values of our columns, as they are in the file
Names = Mapping[str, tuple[str, ...]]  # a program's names, by our columns
Report = Callable[[str, str], object]  # is called with the position of a link, and a reason


def read_csv(file: IO[str], refuse: Report) -> Iterator[tuple[str, Link]]:
    """Yield each link with its position in the file, such as "Line 3, spring".

    The separator is the most frequent of comma, semicolon and tab in the first line. Raises
    ValidationError for columns that no program writes.
    """
    first_line = file.readline()
    separator = max(",;\t", key=first_line.count)
    header = next(csv.reader([first_line.rstrip(f"\r\n{separator}")], delimiter=separator), [])
    names = find_names(header, OWN, SHLINK, YOURLS)
    rows = csv.reader(file, delimiter=separator, strict=True)
    while True:
        line = f"Line {rows.line_num + 2:,}"  # the next line; `rows` are without the first one
        try:
            row = next(rows, None)
        except csv.Error as error:
            refuse(line, f"{error}: close each quote, and write one within a field twice.")
            continue
        if row is None:
            return
        is_empty = not any(row)
        has_further_fields = any(row[len(header) :])
        if has_further_fields or (len(row) < len(header) and not is_empty):
            refuse(line, "The row has more or fewer fields than the first line has names.")
        elif not is_empty:
            if names is OWN:  # whose export puts an apostrophe before a formula
                row = [cell.removeprefix("'") for cell in row]
            link = translate(dict(zip(header, row, strict=False)), names)
            yield f"{line}, {shortened(link['key'])}", link


def read_json(file: IO[str], refuse: Report) -> Iterator[tuple[str, Link]]:
    """Yield each link with its position in the file; raise ValidationError as read_csv()."""
    number = 0
    try:
        for number, record in enumerate(read_records(file.read()), 1):
            link = translate(record, find_names(record, OWN, KUTT))
            yield f"Link {number:,}, {shortened(link['key'])}", link
    except (ValueError, RecursionError) as error:
        refuse(f"After link {number:,}", f"It is not JSON: {error}.")


def read_records(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a text: links, lists of links, or Kutt's answers, one after another."""
    decoder = json.JSONDecoder()
    position = 0
    while begin := re.compile(r"\S").search(text, position):
        value, position = decoder.raw_decode(text, begin.start())
        if isinstance(value, dict) and isinstance(value.get("data"), list):  # Kutt's
            value = value["data"]
        for record in value if isinstance(value, list) else [value]:
            if not isinstance(record, dict):
                raise ValidationError(f"{shortened(repr(record))} is no link: {AN_ENTRY}")
            yield record


def find_names(fields: Iterable[str], *programs: Names) -> Names:
    """Return the names of the program that writes these fields; raise ValidationError if none."""
    present = set(fields)
    for names in programs:
        has_key = not present.isdisjoint(names["key"])
        has_target = not present.isdisjoint(names["target_url"])
        # Further fields of other programs are left out; this service writes none.
        if has_key and has_target and (names is not OWN or present <= set(COLUMNS)):
            return names
    listed = shortened(", ".join(map(repr, sorted(present))) or "no columns")
    raise ValidationError(f"No program writes links with {listed}: use {', '.join(COLUMNS)}.")


def translate(record: Mapping[str, Any], names: Names) -> Link:
    """Return our columns of a record with a program's names; None stands for a missing value."""
    link: Link = {
        column: next((record[alias] for alias in aliases if alias in record), None)
        for column, aliases in names.items()
    }
    link["key"] = str(link["key"] or "")
    if names is not OWN:  # other programs also write the address or path of a key
        link["key"] = re.sub(r"\A\w+://[^/]*", "", link["key"]).strip("/")
    return link


def make_row(position: str, link: Link, warn: Report) -> dict[str, Any]:
    """Return the columns of a new link, but its owner; raise ValidationError if it is invalid.

    A title or tags that do not fit are cut, and `warn` is called with the reason.
    """
    for reason in ("banned", "protected by a password"):
        if link.get(reason):
            raise ValidationError(f"{reason} at Kutt; left out.")
    validate_custom_key(link["key"])
    values = {name: parse_value(name, link.get(name)) for name in VALUES}
    if values["max_hits"] and values["max_hits"] < values["hits"]:
        raise ValidationError("max_hits is less than hits: use at least the number of hits.")
    title = str(link.get("title") or "")
    tags = link.get("tags") or ""
    tags = ",".join(map(str, tags)) if isinstance(tags, list) else str(tags)
    try:
        labels.clean_title(title)
        labels.clean_tags(tags)
    except ValidationError as error:
        warn(position, f"{error.messages[0]} What fits is imported.")
    return {
        **values,
        "key": link["key"],
        "target_url": clean_target_url(str(link["target_url"] or ""), own_host=""),
        "title": labels.cut_title(title),
        "tags": labels.cut_tags(tags) or None,
        "created_at": values["created_at"] or timezone.now(),
    }


def parse_value(name: str, value: object) -> Any:
    """Return the value of a column as its field of ShortUrl has it; raise ValidationError."""
    if NULL.fullmatch(str(value)):
        return {"hits": 0, "forward_query": False}.get(name)  # other columns may be NULL
    try:
        parsed = getattr(ShortUrl, name).field.clean(str(value), None)
    except ValidationError as error:
        raise ValidationError(f"{name}: {error.messages[0]}") from error
    if isinstance(parsed, datetime):  # PostgreSQL refuses some offsets
        return in_utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    return parsed
