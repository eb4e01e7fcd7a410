"""Which node of a Citus cluster has a key, by the hash of the key and the coordinator's catalogue.

A key belongs to the shard whose range has hashtext(key). PostgreSQL's hash_bytes() is Bob Jenkins'
lookup3, https://burtleburtle.net/bob/c/lookup3.c.
"""

import re
import struct
from bisect import bisect_right
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from shorturl.models import ShortUrl

LINKS = ShortUrl._meta.db_table
BITS = 0xFFFFFFFF
SEED = 0x9E3779B9 + 3923095
READ = """
    SELECT shardminvalue::int, shardid, groupid, nodename, nodeport
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
    WHERE logicalrelid = %s::regclass AND noderole = 'primary' ORDER BY 1
"""
SAMPLES = "a", "c6UFG", "exactly12chr", "a-key-of-more-than-24-characters", "é"
ASK = """
    SELECT to_regclass(%s) IS NOT NULL,
        array(SELECT hashtext(sample) FROM unnest(%s::text[]) AS sample) = %s,
        (SELECT setting FROM pg_settings WHERE name = 'lock_timeout') = %s
"""
# Why redirects cannot use a node that may be there, and what mends it.
MENDS = {
    "its name does not resolve here": "On the coordinator: SELECT citus_update_node(nodeid, "
    "'NAME', {PORT}) FROM pg_dist_node WHERE nodename = '{HOST}'",
    "the role may not log in": "On the node: ALTER ROLE {USER} LOGIN, and let pg_hba.conf accept "
    "it with the password of DATABASE_URL",
    "it lacks the extension, or the tables": "On the node: CREATE EXTENSION citus; then on the "
    "coordinator: SELECT start_metadata_sync_to_node('{HOST}', {PORT})",
    "it hashes keys differently": "Give it PostgreSQL's version and locale of the coordinator",
    "it has another lock_timeout": "On the coordinator: ALTER ROLE {USER} SET lock_timeout = "
    "'{LIMIT}ms'",
}
UNRESOLVED, REFUSED, *DIFFERENT = MENDS
SAID = re.compile('(could not translate host name)|pg_hba.conf|authentication failed|(role|base) "')


class Node(NamedTuple):
    """A node that redirects go to; without a host it is the coordinator, as in DATABASE_URL."""

    host: str = ""
    port: int = 0

    @property
    def database(self) -> dict[str, Any]:
        """The settings of its connections; the PgBouncer of a node has the port of the first.

        The role has the lock_timeout, for the statements that the coordinator sends there, too.
        """
        service: dict[str, Any] = settings.DATABASES["default"]
        if not self.host:
            return service
        options = dict(service["OPTIONS"])
        options["options"] = re.sub(r"-c lock_timeout=\S+", "", options.get("options", ""))
        port = self.port if settings.DATABASE_POOLER == "none" else service["PORT"]
        return {**service, "HOST": self.host, "PORT": port, "OPTIONS": options}


class Shards:
    """The shards of a table in the order of their hashes, and the node of each."""

    def __init__(self, rows: list[tuple[int, int, int, str, int]]) -> None:
        self.least = [least for least, *_ in rows]
        self.ids = [shard for _, shard, *_ in rows]
        # Group 0 is the coordinator.
        self.nodes = {row[1]: Node(*row[3:]) if row[2] else Node() for row in rows}

    def of(self, key: str) -> int:
        """Return the id of a key's shard; raise OperationalError if none is read yet."""
        if not self.ids:
            raise OperationalError("The coordinator has not yet said which node has which keys")
        return self.ids[bisect_right(self.least, hashtext(key)) - 1]

    def node(self, shard: int) -> Node:
        """Return the node that has a shard; the coordinator for one that is gone."""
        return self.nodes.get(shard, Node())


def read(cursor: CursorWrapper, table: str = LINKS) -> Shards:
    """Read the shards of a table from the coordinator."""
    cursor.execute(READ, [table])
    return Shards(cursor.fetchall())


def connect(connection: BaseDatabaseWrapper, node: Node) -> None:
    """Connect to a node; to the coordinator if the node cannot be used for redirects.

    Raises OperationalError if it does not answer.
    """
    connection.settings_dict = node.database
    if node.host and problem(connection):
        connection.close()
        # The node is tried again after a minute.
        connection.settings_dict = {**Node().database, "CONN_MAX_AGE": 60}
    connection.ensure_connection()


def problem(connection: BaseDatabaseWrapper) -> str:
    """Return why a node cannot be used for redirects, which is in MENDS; "" if it can.

    Raises OperationalError if it does not answer.
    """
    try:
        connection.ensure_connection()
    except OperationalError as error:
        if said := SAID.search(str(error)):
            return UNRESOLVED if said[1] else REFUSED
        raise
    hashes, limit = [*map(hashtext, SAMPLES)], str(settings.DATABASE_LOCK_TIMEOUT * 500)
    with connection.cursor() as cursor:
        cursor.execute(ASK, [LINKS, list(SAMPLES), hashes, limit])
        fine = cursor.fetchone()
    return next((why for why, is_so in zip(DIFFERENT, fine, strict=True) if not is_so), "")


@lru_cache(10_000)
def hashtext(key: str) -> int:
    """Return what PostgreSQL's hashtext() returns for a key in UTF-8."""
    data = key.encode()
    a = b = c = SEED + len(data) & BITS
    whole = len(data) // 12 * 12
    for x, y, z in struct.iter_unpack("<3I", data[:whole]):
        a, b, c = a + x & BITS, b + y & BITS, c + z & BITS
        for turn in (4, 6, 8, 16, 19, 4):
            a = (a - c & BITS) ^ turned(c, turn)
            a, b, c = b, c + b & BITS, a
    tail = data[whole:]
    x, y = struct.unpack("<2I", tail[:8].ljust(8, b"\0"))
    # The lowest byte of c has the length already.
    z = int.from_bytes(tail[8:], "little") << 8
    a, b, c = a + x & BITS, b + y & BITS, c + z & BITS
    for turn in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - turned(b, turn) & BITS
        a, b, c = b, c, a
    return int(b - (b >> 31 << 32))  # as a signed number


def turned(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & BITS
