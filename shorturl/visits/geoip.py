"""Countries by address, from the local database in MaxMind's format that SHORTURL_GEOIP names."""

import re
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import copyfile
from tempfile import NamedTemporaryFile
from typing import Any

import maxminddb
from django.conf import settings

# Parts of a database's type, such as GeoLite2-Country, GeoIP2-City-Europe or DBIP-Country-Lite.
WITH_COUNTRIES = ("Country", "City", "Enterprise")
LOOK_INTERVAL = 5.0  # seconds between two looks at the file; a look takes longer than a search
UNREADABLE = OSError, ValueError, maxminddb.InvalidDatabaseError


def find_problem() -> str:
    """Return why the database cannot be used; "" if it can, or if none is set."""
    if not settings.SHORTURL_GEOIP:
        return ""
    try:
        kind = open_copy(settings.SHORTURL_GEOIP).metadata().database_type
    except OSError as error:
        return str(error.strerror)
    except (ValueError, maxminddb.InvalidDatabaseError) as error:
        return str(error)
    return "" if any(name in kind for name in WITH_COUNTRIES) else f"its type is {kind}"


def country_of(address: str | None) -> str:
    """Return the two letters of an address's country; "" if it is unknown."""
    if address is None:
        return ""
    reader = country_file(settings.SHORTURL_GEOIP).latest_reader()
    try:
        row: Any = reader.get(address.partition("%")[0]) if reader else None
        country = row["country"]["iso_code"]
    except (*UNREADABLE, LookupError, TypeError):
        return ""
    return country if re.fullmatch("[A-Za-z]{2}", str(country)) else ""


class CountryFile:
    """The database at a path. Another one may be written over it at any time."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.reader: maxminddb.Reader | None = None
        self.next_look = 0.0  # by time.monotonic()
        self.version: tuple[int, ...] = ()  # at the last look
        self.read_version: tuple[int, ...] = ()

    def latest_reader(self) -> maxminddb.Reader | None:
        """Return the reader of the latest complete file; None if there has been none."""
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + LOOK_INTERVAL
            with suppress(*UNREADABLE):
                self.look_at_file()
        return self.reader

    def look_at_file(self) -> None:
        """Read the file if it is another one, and has not changed since the last look.

        The first file is read at once, as there is no older one to search meanwhile.
        """
        status = self.path.stat()
        version = status.st_ino, status.st_size, status.st_mtime_ns
        is_complete = version == self.version
        self.version = version
        if version != self.read_version and (is_complete or self.reader is None):
            self.read_version = version
            self.reader = open_copy(str(self.path))


def open_copy(path: str) -> maxminddb.Reader:
    """Return the reader of a copy that nobody else writes.

    The reader maps its file into memory, and the kernel ends a process whose mapped file becomes
    shorter. maxminddb's mode that reads the file is many times slower.
    """
    with NamedTemporaryFile() as copy:
        copyfile(path, copy.name)
        return maxminddb.open_database(copy.name)


country_file = cache(CountryFile)  # of a path, for all threads
