"""Countries by address, from a local database in MaxMind's format: SHORTURL_GEOIP names the file.

None is shipped. Addresses are looked up and forgotten.
"""

from functools import cache
from typing import Any

import maxminddb
from django.conf import settings

# In the types of databases, as GeoLite2-Country, GeoIP2-City-Europe and DBIP-Country-Lite.
WITH_COUNTRIES = ("Country", "City", "Enterprise")


def is_on() -> bool:
    """Return whether there is a database to ask."""
    return bool(settings.SHORTURL_GEOIP)


def problem() -> str:
    """Return why the database cannot be read; "" where it can, or there is none."""
    if not is_on():
        return ""
    try:
        kind = opened(settings.SHORTURL_GEOIP).metadata().database_type
    except (OSError, ValueError, maxminddb.InvalidDatabaseError) as error:
        return str(error)
    return "" if any(name in kind for name in WITH_COUNTRIES) else f"it is one of {kind}"


def country_of(address: str | None) -> str:
    """Return the country of an address, by its two letters; "" when it is not known."""
    if address is None:
        return ""
    try:
        found: Any = opened(settings.SHORTURL_GEOIP).get(address.partition("%")[0])
        country = found["country"]["iso_code"]
    except (OSError, ValueError, LookupError, TypeError, maxminddb.InvalidDatabaseError):
        return ""
    known = isinstance(country, str) and len(country) == 2 and country.isascii()
    return country if known and country.isalpha() else ""


@cache
def opened(path: str) -> maxminddb.Reader:
    """Return the database in a file, open for all threads; raise OSError or InvalidDatabaseError.

    Its memory is that of all processes. A new file, put in its place, is read at the next start.
    """
    return maxminddb.open_database(path)
