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
# The names that each program has for our columns. If a file has several of a column, the first of
# them counts.
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
    "password": ("password",),
}
AN_ENTRY = 'an entry must be an object such as {"key": "spring", "target_url": "https://…"}.'
# How MySQL and other programs write NULL, and no date.
NULL = re.compile(r"None|NULL|\\N|0000-00-00([ T]00:00:00.*)?")

DEFAULTS = {"hits": 0, "forward_query": False}  # other columns may be NULL

Link = dict[str, Any]  # the values of our columns, as they are in the file
Names = Mapping[str, tuple[str, ...]]  # a program's names, by our columns
Fields = Mapping[str, str]  # the names that a file has, by our columns
Report = Callable[[str, str], object]  # is called with the position of a link, and a reason

# A spreadsheet computes a cell that begins like this, so an apostrophe is put before the cell, and
# before another apostrophe. An import takes away no other apostrophe.
FORMULA_STARTS = ("=", "+", "-", "@", "'")
ESCAPED = tuple(f"'{start}" for start in FORMULA_STARTS)
# A whole number as a spreadsheet saves it: 1,234 and 12.0. In some countries 1.000 is a thousand.
WHOLE_NUMBER = re.compile(r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.00?)?")


def without_formula(value: object) -> object:
    """Return the value of a cell as a spreadsheet should get it."""
    return f"'{value}" if str(value).startswith(FORMULA_STARTS) else value


def read_csv(file: IO[str], refuse: Report) -> Iterator[tuple[str, Link]]:
    """Yield each link with its position in the file, such as "Line 3, spring".

    A row that cannot be read is reported to `refuse`, and an empty one is skipped. The separator is
    the most frequent of comma, semicolon and tab in the first line. Raises ValidationError if none
    of the programs writes these columns.
    """
    first_line = file.readline()
    separator = max(",;\t", key=first_line.count)
    header = next(csv.reader([first_line.rstrip(f"\r\n{separator}")], delimiter=separator), [])
    fields = find_fields(header, OWN, SHLINK, YOURLS)
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
        has_further_fields = any(row[len(header) :])  # empty ones are a spreadsheet's
        if has_further_fields or (len(row) < len(header) and not is_empty):
            refuse(line, "The row has more or fewer fields than the first line has names.")
        elif not is_empty:
            if is_own(fields):
                row = [cell[1:] if cell.startswith(ESCAPED) else cell for cell in row]
            link = translate(dict(zip(header, row, strict=False)), fields)
            yield name_position(line, link), link


def read_json(file: IO[str], refuse: Report) -> Iterator[tuple[str, Link]]:
    """Yield each link with its position in the file; raise ValidationError as read_csv()."""
    number = 0
    try:
        for number, record in enumerate(read_records(file.read()), 1):
            try:
                if not isinstance(record, dict):
                    raise ValidationError(f"{shortened(repr(record))} is no link: {AN_ENTRY}")
                link = translate(record, find_fields(record, OWN, KUTT))
            except ValidationError as error:
                if number == 1:  # nor would the others be read
                    raise
                refuse(f"Link {number:,}", error.messages[0])
                continue
            yield name_position(f"Link {number:,}", link), link
    except (ValueError, RecursionError) as error:
        refuse(f"After link {number:,}", f"It is not JSON: {error}.")


def read_records(text: str) -> Iterator[Any]:
    """Yield the entries of a text: links, lists of links, or Kutt's answers, one after another."""
    decoder = json.JSONDecoder()
    position = 0
    while begin := re.compile(r"\S").search(text, position):
        value, position = decoder.raw_decode(text, begin.start())
        if isinstance(value, dict) and isinstance(value.get("data"), list):  # Kutt's
            value = value["data"]
        yield from value if isinstance(value, list) else [value]


def find_fields(record: Iterable[str], *programs: Names) -> Fields:
    """Return the fields of the program that writes such a record; raise ValidationError if none."""
    present = set(record)
    for names in programs:
        # Of several names of a column the first one counts, so it is set last.
        fields = {
            column: name for column in names for name in reversed(names[column]) if name in present
        }
        # Further fields of other programs are left out; this service writes none.
        is_known = names is not OWN or present <= set(COLUMNS)
        if is_known and {"key", "target_url"} <= fields.keys():
            return fields
    listed = shortened(", ".join(map(repr, sorted(present))) or "no columns")
    raise ValidationError(f"No program writes links with {listed}: use {', '.join(COLUMNS)}.")


def is_own(fields: Fields) -> bool:
    return fields["target_url"] == "target_url"  # no other program has this name


def translate(record: Mapping[str, Any], fields: Fields) -> Link:
    """Return the values of a record by our names of its columns."""
    link: Link = {column: record[name] for column, name in fields.items()}
    link["key"] = "" if link["key"] is None else str(link["key"])
    if not is_own(fields):  # other programs also write the address or path of a key
        link["key"] = re.sub(r"\A\w+://[^/]*", "", link["key"]).strip("/")
    return link


def name_position(position: str, link: Link) -> str:
    """Return a text such as "Line 3, spring", without the key if it is not printable."""
    return f"{position}, {shortened(link['key'])}" if link["key"].isprintable() else position


def make_row(position: str, link: Link, warn: Report) -> dict[str, Any]:
    """Return the columns of a new link without its owner; raise ValidationError for invalid ones.

    A title or tags that do not fit are cut, and `warn` gets the `position` and the reason.
    """
    if link.get("banned"):
        raise ValidationError("banned at Kutt; left out.")
    if link.get("password"):
        raise ValidationError("protected by a password at Kutt; left out.")
    validate_custom_key(link["key"])
    values = {name: parse_value(name, link.get(name)) for name in VALUES}
    if values["max_hits"] and values["max_hits"] < values["hits"]:
        raise ValidationError("max_hits is less than hits: use at least the number of hits.")
    title = str(link.get("title") or "")
    tags = link.get("tags") or ""
    tags = ",".join(map(str, tags)) if isinstance(tags, list) else str(tags)
    try:
        columns = {"title": labels.clean_title(title), "tags": labels.clean_tags(tags)}
    except ValidationError as error:
        warn(position, f"{error.messages[0]} What fits is imported.")
        columns = {"title": labels.cut_title(title), "tags": labels.cut_tags(tags) or None}
    return {
        **values,
        **columns,
        "key": link["key"],
        "target_url": clean_target_url(str(link["target_url"] or ""), own_host=""),
        "created_at": values["created_at"] or timezone.now(),
    }


def parse_value(name: str, value: object) -> Any:
    """Return the value of a column as its field of ShortUrl has it; raise ValidationError."""
    text = "" if value is None else str(value)
    if not text or NULL.fullmatch(text):
        return DEFAULTS.get(name)
    if name == "forward_query" and text in ("TRUE", "FALSE"):  # of a spreadsheet
        text = text.capitalize()
    elif name in ("hits", "max_hits") and (number := WHOLE_NUMBER.fullmatch(text)):
        text = number[1].replace(",", "")
    try:
        parsed = getattr(ShortUrl, name).field.clean(text, None)
    except ValidationError as error:
        raise ValidationError(f"{name}: {error.messages[0]}") from error
    if isinstance(parsed, datetime):  # PostgreSQL refuses some offsets
        return in_utc(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))
    return parsed
