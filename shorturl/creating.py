"""The INSERT of a link: that of the strategy `on_conflict`, which also asks for bans.

With a statement for each, a create would need a transaction, and so three more round trips.
"""

from typing import Any

from django.db import connection

from shorturl import bans
from shorturl.models import BannedDomain, ShortUrl
from shorturl.strategies.creating.on_conflict import COLUMNS, DEFAULTS

quote = connection.ops.quote_name
# FOR KEY SHARE locks the table as in bans.py, before PostgreSQL decides which bans are seen.
INSERT = """
    INSERT INTO {links} ({given}) SELECT {places}
    WHERE NOT EXISTS (SELECT FROM {bans} WHERE domain = ANY (%s) FOR KEY SHARE)
    ON CONFLICT (key) DO NOTHING
    RETURNING {columns}
""".format(  # noqa: S608 - Django quotes the names
    bans=quote(BannedDomain._meta.db_table),
    links=quote(ShortUrl._meta.db_table),
    given=", ".join(map(quote, ["key", "target_url", *DEFAULTS])),
    places=", ".join(["%s"] * (2 + len(DEFAULTS))),
    columns=", ".join(map(quote, COLUMNS)),
)


def insert_unless_banned(key: str, target_url: str, values: dict[str, Any]) -> ShortUrl | None:
    """Return a new link, or None if the key is taken or the target banned.

    `values` has all columns of DEFAULTS.
    """
    given = [values[name] for name in DEFAULTS]
    with connection.cursor() as cursor:
        cursor.execute(INSERT, [key, target_url, *given, [*bans.domains_of(target_url)]])
        row = cursor.fetchone()
    return ShortUrl.from_db(connection.alias, COLUMNS, row) if row else None
