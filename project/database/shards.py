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

from shorturl.limits import bans
from shorturl.models import ShortUrl

BITS = 0xFFFFFFFF
SEED = 0x9E3779B9 + 3923095
READ = f"""
    SELECT shardminvalue::int, shardid, groupid, nodename, nodeport
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
    WHERE logicalrelid = '{ShortUrl._meta.db_table}'::regclass AND noderole = 'primary' ORDER BY 1
"""  # noqa: S608
SAMPLES = "a", "c6UFG", "exactly12chr", "a-key-of-more-than-24-characters", "é"
ASK = f"""
    SELECT current_user::text, array(SELECT hashtext(sample) FROM unnest(%s::text[]) AS sample),
        (SELECT setting FROM pg_settings WHERE name = 'lock_timeout'),
        to_regclass('{ShortUrl._meta.db_table}') IS NOT NULL
"""  # noqa: S608
COORDINATOR_AGE = 60  # seconds after which a session of the coordinator's tries the node again
# What libpq says of a node that redirects cannot use, although it may be there.
UNUSABLE = {
    "could not translate host name": "{host} does not resolve here|On the coordinator: "
    "SELECT citus_update_node(nodeid, 'NAME', {port}) FROM pg_dist_node WHERE nodename = '{host}'",
    'pg_hba.conf|authentication failed|role "|database "': "the role may not log in|On the node: "
    "ALTER ROLE {user} LOGIN, and let pg_hba.conf accept it with the password of DATABASE_URL",
}


class Node(NamedTuple):
    """A node that redirects go to; without a host it is the coordinator, as in DATABASE_URL."""

    host: str = ""
    port: int = 0

    @property
    def database(self) -> dict[str, Any]:
        """The settings of its connections; the PgBouncer of a node has the port of the first."""
        service = settings.SERVICE_DATABASE
        pooled = settings.DATABASE_POOLER != "none"
        address = {"HOST": self.host, "PORT": service["PORT"] if pooled else self.port}
        return {**service, **address} if self.host else service


class Shards:
    """The shards of links in the order of their hashes, and the node of each."""

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


def read(cursor: CursorWrapper) -> Shards:
    """Read the shards from the coordinator, and the banned domains, which it has alone."""
    bans.refresh()
    cursor.execute(READ)
    return Shards(cursor.fetchall())


def connect(connection: BaseDatabaseWrapper, node: Node) -> None:
    """Connect to a node; to the coordinator if the node cannot be used for redirects.

    Raises OperationalError if it does not answer.
    """
    connection.settings_dict = node.database
    if node.host and problem(connection):
        connection.close()
        connection.settings_dict = {**Node().database, "CONN_MAX_AGE": COORDINATOR_AGE}
    connection.ensure_connection()


def problem(connection: BaseDatabaseWrapper) -> str:
    """Return why a node cannot be used for redirects, "|" and what mends it; "" if it can.

    Raises OperationalError if it does not answer.
    """
    names = {name.lower(): connection.settings_dict[name] for name in ("HOST", "PORT", "USER")}
    try:
        connection.ensure_connection()
    except OperationalError as error:
        for said, found in UNUSABLE.items():
            if re.search(said, str(error)):
                return found.format(**names)
        raise
    with connection.cursor() as cursor:
        cursor.execute(ASK, [list(SAMPLES)])
        role, hashes, lock_timeout, has_links = cursor.fetchone()
    wanted = settings.DATABASE_LOCK_TIMEOUT * 500
    if not has_links:
        start = "On the node: CREATE EXTENSION citus; then on the coordinator: "
        start += "SELECT start_metadata_sync_to_node('{host}', {port})"
        return f"it lacks the extension, or the tables|{start.format(**names)}"
    if hashes != [hashtext(sample) for sample in SAMPLES]:
        same = "Give it the version of PostgreSQL and the locale of the coordinator"
        return f"it hashes keys differently|{same}"
    if lock_timeout != str(wanted):
        alter = f"ALTER ROLE {role} SET lock_timeout = '{wanted}ms'"
        return f"its lock_timeout is {lock_timeout} ms|On the coordinator: {alter}"
    return ""


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
