"""Files of links: this service's own, and what Shlink, Kutt and YOURLS say of theirs.

A file is CSV, or JSON lines: an object in each line. Which program it comes from is seen by the
names of its columns or fields:

    own     COLUMNS, deleted links too
    Shlink  CSV of the web client's button "Export" (ExportShortUrlsBtn.tsx in
            https://github.com/shlinkio/shlink-web-component); older ones have no `shortCode`
    YOURLS  CSV of the plugin "Import Export" (fileio/csv.php in
            https://github.com/GautamGupta/YOURLS-Import-Export), or of the table yourls_url
            (includes/functions-install.php in https://github.com/YOURLS/YOURLS)
    Kutt    has no export: JSON lines, each a link or a whole answer of its API's
            GET /api/v2/links (docs/api/api.js in https://github.com/thedevs-network/kutt)
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime

from shorturl.keys import validate_custom_key
from shorturl.validators import in_utc, shortened, validate_target_url

TIMES = ("created_at", "deleted_at", "expires_at")
COLUMNS = ("key", "target_url", "hits", "max_hits", "owner", *TIMES)
# Others' names of our columns, by those that tell the program.
FOREIGN: dict[frozenset[str], dict[str, str]] = {
    frozenset({required["key"], required["target_url"]}): required
    for required in (
        {"key": "shortCode", "target_url": "longUrl", "hits": "visits", "created_at": "createdAt"},
        {"key": "shortUrl", "target_url": "longUrl", "hits": "visits", "created_at": "createdAt"},
        {"key": "source", "target_url": "target", "hits": "hits"},
        {"key": "keyword", "target_url": "url", "hits": "clicks", "created_at": "timestamp"},
        {
            "key": "address",
            "target_url": "target",
            "hits": "visit_count",
            "created_at": "created_at",
            "expires_at": "expire_in",
        },
    )
}
# What Kutt's links can be, and ours cannot.
NOT_HERE = ("banned", "password")
HITS_MAX = 2**63 - 1  # as the column has it

Record = Mapping[str, Any]


def csv_records(lines: Iterable[str]) -> Iterator[tuple[int, Record | ValidationError]]:
    """Yield each row of a CSV file with the number of its line, or what is wrong with it.

    Raises ValidationError for columns that are nobody's, or there more than once; csv.Error where
    it is no CSV any more.
    """
    rows = csv.DictReader(lines, strict=True)
    columns = list(rows.fieldnames or ())
    names(columns)
    if repeated := {name for name in columns if columns.count(name) > 1}:
        raise ValidationError(f"More than once: {listed(repeated)}. Leave one of each out.")
    for row in rows:
        if None in row or None in row.values():
            wrong = "The row has not as many fields as the first line has names."
            yield rows.line_num, ValidationError(wrong)
        else:
            yield rows.line_num, row


def json_records(lines: Iterable[str]) -> Iterator[tuple[int, Record | ValidationError]]:
    """Yield each object of a file of JSON lines with its line, or what is wrong with the line."""
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line) if line.strip() else []
        except (ValueError, RecursionError) as error:
            yield number, ValidationError(f"The line is not JSON: {error}.")
            continue
        if isinstance(content, dict) and isinstance(content.get("data"), list):
            content = content["data"]  # a page of Kutt's
        for each in content if isinstance(content, list) else [content]:
            wrong = ValidationError("The line is no JSON object: write {…} with a link's fields.")
            yield number, each if isinstance(each, dict) else wrong


def names(fields: Iterable[str]) -> Mapping[str, str]:
    """Return what a program that has such fields calls our columns; raise ValidationError."""
    given = set(fields)
    if {"key", "target_url"} <= given:
        if unknown := given.difference(COLUMNS):
            message = f"Unknown: {listed(unknown)}. The columns are {', '.join(COLUMNS)}."
            raise ValidationError(message)
        return dict(zip(COLUMNS, COLUMNS, strict=True))
    for known, ours in FOREIGN.items():
        if known <= given:
            return ours
    raise ValidationError(
        f"Neither this service nor Shlink, Kutt or YOURLS has links with {listed(given)}: "
        "name the columns at least key and target_url."
    )


def row(record: Record, owner_id: Callable[[str], int], now: datetime) -> dict[str, Any]:
    """Return the columns of the link that a record of any program is.

    `owner_id` returns the account of a name, and `now` is when a link was made that does not say.
    Raises ValidationError, which names the column and says what would be right.
    """
    said = {ours: record.get(theirs) for ours, theirs in names(record).items()}
    for name in NOT_HERE:
        if record.get(name):
            raise ValidationError(f"The link has a {name!r} there, which no link has here.")
    key, target_url = str(said["key"] or ""), str(said["target_url"] or "")
    if "key" not in record:  # others' may be an address, or a path
        key = urlsplit(key).path.strip("/")
    validate_custom_key(key)
    validate_target_url(target_url)
    times = {name: moment(name, said.get(name)) for name in TIMES}
    hits, max_hits = (number(name, said.get(name)) for name in ("hits", "max_hits"))
    if max_hits is not None and not max(1, hits or 0) <= max_hits:
        raise ValidationError(f"max_hits is {max_hits}: use at least 1, and the number of hits.")
    return {
        "key": key,
        "target_url": target_url,
        "hits": hits or 0,
        "max_hits": max_hits,
        "owner_id": owner_id(str(said["owner"])) if said.get("owner") else None,
        **times,
        "created_at": times["created_at"] or now,
    }


def number(name: str, value: object) -> int | None:
    """Return a count, or None where nothing is said."""
    if value is None or value == "":
        return None
    if not re.fullmatch("[0-9]{1,19}", str(value)) or int(str(value)) > HITS_MAX:
        raise ValidationError(f"{name} is {quoted(value)}: use a whole number, such as 42.")
    return int(str(value))


def moment(name: str, value: object) -> datetime | None:
    """Return a time in UTC, as it is without an offset, or None where nothing is said."""
    if value is None or value == "":
        return None
    try:
        time = parse_datetime(str(value))
    except ValueError:
        time = None
    if time is None:
        example = "2026-01-31T12:00:00Z"
        raise ValidationError(
            f"{name} is {quoted(value)}: use a date and a time, such as {example}."
        )
    return in_utc(time if time.tzinfo else time.replace(tzinfo=UTC))


def listed(fields: Iterable[str]) -> str:
    """Return the names of fields, no more than can be read."""
    return shortened(", ".join(map(repr, sorted(fields))) or "no columns")


def quoted(value: object) -> str:
    """Return a value as a message shows it."""
    return repr(shortened(str(value)))
