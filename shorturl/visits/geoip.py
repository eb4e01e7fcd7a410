"""Countries by address, from the local database in MaxMind's format that SHORTURL_GEOIP names."""

import re
from functools import cache
from shutil import copyfile
from tempfile import NamedTemporaryFile
from typing import Any

import maxminddb
from django.conf import settings

# Parts of a database's type, such as GeoLite2-Country, GeoIP2-City-Europe or DBIP-Country-Lite.
WITH_COUNTRIES = ("Country", "City", "Enterprise")
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
    try:
        row: Any = open_copy(settings.SHORTURL_GEOIP).get(address)
        country = row["country"]["iso_code"]
    except (*UNREADABLE, LookupError, TypeError):
        return ""
    return country if re.fullmatch("[A-Za-z]{2}", str(country)) else ""


@cache
def open_copy(path: str) -> maxminddb.Reader:
    """Return the reader of a copy that nobody else writes; a process makes one at its start.

    The reader maps its file into memory, and the kernel ends a process whose mapped file becomes
    shorter. maxminddb's mode that reads the file is many times slower.
    """
    with NamedTemporaryFile() as copy:
        copyfile(path, copy.name)
        return maxminddb.open_database(copy.name)
