"""The fields of links in files of this service, Shlink, Kutt and YOURLS; records.py reads them.

The names of the columns or fields tell which program has written a file:

    own     COLUMNS, deleted links too
    Shlink  CSV of the web client's button "Export" (ExportShortUrlsBtn.tsx in
            https://github.com/shlinkio/shlink-web-component); older ones have no `shortCode`
    YOURLS  CSV of the plugin "Import Export" (fileio/csv.php in
            https://github.com/GautamGupta/YOURLS-Import-Export), or of the table yourls_url
            (includes/functions-install.php in https://github.com/YOURLS/YOURLS)
    Kutt    has no export: JSON, of links or of whole answers of its API's
            GET /api/v2/links (docs/api/api.js in https://github.com/thedevs-network/kutt)
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime

from shorturl.limits.bans import validate_not_banned
from shorturl.links.keys import validate_custom_key
from shorturl.links.labels import clean_tags, clean_title
from shorturl.links.validators import in_utc, shortened, validate_target_url

FORMATS = ("csv", "jsonl")
TIMES = ("created_at", "deleted_at", "expires_at")
COLUMNS = (
    "key",
    "target_url",
    "title",
    "tags",
    "hits",
    "max_hits",
    "owner",
    *TIMES,
    "forward_query",
)
SHLINK = {
    "target_url": "longUrl",
    "title": "title",
    "tags": "tags",
    "hits": "visits",
    "created_at": "createdAt",
}
# The columns whose names identify a program. Shlink's API and its CSV have different names for the
# visits, so an answer of the API is refused instead of losing them.
IDENTIFYING = ("key", "target_url", "hits")
# The names that other programs have for COLUMNS.
FOREIGN = [
    {"key": "shortCode", **SHLINK},
    {"key": "shortUrl", **SHLINK},
    {"key": "source", "target_url": "target", "hits": "hits"},
    {
        "key": "keyword",
        "target_url": "url",
        "title": "title",
        "hits": "clicks",
        "created_at": "timestamp",
    },
    {
        "key": "address",
        "target_url": "target",
        "title": "description",
        "hits": "visit_count",
        "created_at": "created_at",
        "expires_at": "expire_in",
    },
]
# A spreadsheet computes a cell that begins with one of these, so an apostrophe is put before it,
# and before another apostrophe.
COMPUTED = ("=", "+", "-", "@", "'")
# Properties of Kutt's links that this service does not have.
NOT_HERE = ("banned", "password")
# How MySQL and other programs write NULL, and no date.
NOTHING = (None, "", "NULL", "\\N")
ZERO_DATE = re.compile("0000-00-00([ T]00:00:00.*)?")
# The largest values. Later hits add to the hits, so these are half of what the column can have.
MOST = {"hits": 2**62, "max_hits": 2**63 - 1}

Record = Mapping[str, Any]


def format_of(name: str, given: str | None, formats: Iterable[str] = FORMATS) -> str:
    found = given or Path(name).suffix.removeprefix(".")
    if found not in formats:
        ways = " or ".join(f"--format {each}" for each in formats)
        raise CommandError(f"The format of {name} is unknown: use {ways}.", returncode=2)
    return found


def names(fields: Iterable[str]) -> Mapping[str, str]:
    """Return the names of COLUMNS in a file with these fields; raise ValidationError."""
    given = set(fields)
    if {"key", "target_url"} <= given:
        if unknown := given.difference(COLUMNS):
            message = f"Unknown: {listed(unknown)}. The columns are {', '.join(COLUMNS)}."
            raise ValidationError(message)
        return dict(zip(COLUMNS, COLUMNS, strict=True))
    for foreign in FOREIGN:
        if {foreign[name] for name in IDENTIFYING} <= given:
            return foreign
    raise ValidationError(
        f"Neither this service nor Shlink, Kutt or YOURLS writes links with {listed(given)}: "
        "use at least the columns key and target_url."
    )


def key_of(record: Record) -> str:
    """Return the key in a record, valid or not; raise ValidationError for unknown fields."""
    key = str(record.get(names(record)["key"]) or "")
    if "key" in record:
        return key
    try:
        return urlsplit(key).path.strip("/")  # of another program: an address, a path or a key
    except ValueError:
        return key


def row(record: Record, owner_id: Callable[[str], int], now: datetime) -> dict[str, Any]:
    said = {ours: record.get(theirs) for ours, theirs in names(record).items()}
    for name in NOT_HERE:
        if record.get(name):
            raise ValidationError(f"The link has a {name!r}, which this service does not support.")
    key, target_url = key_of(record), str(said["target_url"] or "")
    validate_custom_key(key)
    validate_target_url(target_url)
    validate_not_banned(target_url)
    tags = said.get("tags") or ""
    if not isinstance(tags, str | list) or not all(isinstance(each, str) for each in tags):
        raise ValidationError(f"tags is {quoted(tags)}: use a list of words.")
    times = {name: moment(name, said.get(name)) for name in TIMES}
    hits, max_hits = (number(name, said.get(name)) for name in MOST)
    if max_hits is not None and not max(1, hits or 0) <= max_hits:
        raise ValidationError(f"max_hits is {max_hits}: use at least 1, and the number of hits.")
    return {
        "key": key,
        "target_url": target_url,
        "title": clean_title(str(said.get("title") or "")),
        "tags": clean_tags(tags),
        "hits": hits or 0,
        "max_hits": max_hits,
        "forward_query": flag("forward_query", said.get("forward_query")),
        "owner_id": owner_id(str(said["owner"])) if said.get("owner") else None,
        **times,
        "created_at": times["created_at"] or now,
    }


def number(name: str, value: object) -> int | None:
    if value in NOTHING:
        return None
    if not re.fullmatch("[0-9]{1,19}", str(value)) or int(str(value)) > MOST[name]:
        raise ValidationError(
            f"{name} is {quoted(value)}: use a whole number, such as 42. "
            f"The largest is {MOST[name]}."
        )
    return int(str(value))


def flag(name: str, value: object) -> bool:
    text = "" if value in NOTHING else str(value).lower()
    if text not in ("", "false", "true"):
        raise ValidationError(f"{name} is {quoted(value)}: use true or false.")
    return text == "true"


def moment(name: str, value: object) -> datetime | None:
    """Return a time in UTC, which is also its default offset; None for no time."""
    if value in NOTHING or ZERO_DATE.fullmatch(str(value)):
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
    return shortened(", ".join(map(repr, sorted(fields))) or "no columns")


def quoted(value: object) -> str:
    return repr(shortened(str(value)))
