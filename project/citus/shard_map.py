"""Which node of a Citus cluster has a key, by the hash of the key and the catalogue of Citus.

A key belongs to the shard whose range has hashtext(key). PostgreSQL's hash_bytes() is Bob Jenkins'
lookup3, https://burtleburtle.net/bob/c/lookup3.c. Citus copies its catalogue to each worker.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg2
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from shorturl.models import ShortUrl

LINKS = ShortUrl._meta.db_table
MAX_HASHES = 10_000  # remembered
UINT32 = 0xFFFFFFFF
SEED = 0x9E3779B9 + 3923095
READ_MAP = """
    SELECT shardminvalue::int, shardid, groupid, nodename, nodeport
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
    WHERE logicalrelid = %s::regclass AND noderole = 'primary' ORDER BY 1
"""
SAMPLE_KEYS = ["a", "c6UFG", "exactly12chr", "a-key-of-more-than-24-characters", "é"]
CHECK_NODE = """
    SELECT to_regclass(%s) IS NOT NULL,
        array(SELECT hashtext(sample) FROM unnest(%s::text[]) AS sample) = %s,
        (SELECT setting FROM pg_settings WHERE name = 'lock_timeout') = %s
"""
# Why redirects cannot use a node that may be there, and what mends it.
REMEDIES = {
    "its name does not resolve here": "On the coordinator: SELECT citus_update_node(nodeid, "
    "'NAME', {PORT}) FROM pg_dist_node WHERE nodename = '{HOST}'",
    "the role may not log in": "On the node: ALTER ROLE {USER} LOGIN, and let pg_hba.conf accept "
    "it with the password of DATABASE_URL",
    "it lacks the extension, or the tables": "On the node: CREATE EXTENSION citus; then on the "
    "coordinator: SELECT start_metadata_sync_to_node('{HOST}', {PORT})",
    "it hashes keys differently": "Give it PostgreSQL's version and locale of the coordinator",
    "it has another lock_timeout": "On the coordinator, after manage.py distribute: "
    "ALTER ROLE {USER} SET lock_timeout = '{LIMIT}ms'",
}
UNRESOLVED, REFUSED, *DIFFERENT = REMEDIES
LOGIN_ERROR = re.compile(
    '(could not translate host name)|pg_hba.conf|authentication failed|(role|base) "'
)


class Node(NamedTuple):
    """A node of the cluster; without a host it is the coordinator, as in DATABASE_URL."""

    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, address: str) -> "Node":
        """Return the node of HOST:PORT."""
        host, _, port = address.rpartition(":")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.host else "the coordinator"

    def database(self) -> dict[str, Any]:
        """Return Django's settings of connections to this node.

        The PgBouncer of a node has the port of DATABASE_URL. The role has the lock_timeout, for the
        statements that the coordinator sends there, too.
        """
        service = connections[DEFAULT_DB_ALIAS].settings_dict
        if not self.host:
            return dict(service)
        options = dict(service["OPTIONS"])
        options["options"] = re.sub(r"-c lock_timeout=\S+", "", options.get("options", ""))
        port = self.port if settings.DATABASE_POOLER == "none" else service["PORT"]
        return {**service, "HOST": self.host, "PORT": port, "OPTIONS": options}

    def open_database(self) -> BaseDatabaseWrapper:
        """Return a database of Django that leads to this node; it is not connected yet."""
        return ConnectionHandler({"default": self.database()})["default"]


class ShardMap:
    """The shards of the table of links in the order of their hashes, and the node of each.

    `rows` are those of READ_MAP.
    """

    def __init__(self, rows: Sequence[tuple[int, int, int, str, int]]) -> None:
        self.least_hashes = [least for least, *_ in rows]
        self.shards = [shard for _, shard, *_ in rows]
        # Group 0 is the coordinator.
        self.nodes = {
            shard: Node(host, port) if group else Node() for _, shard, group, host, port in rows
        }

    def find_shard(self, key: str) -> int:
        """Return the id of a key's shard; raise OperationalError if there is no shard."""
        if not self.shards:
            raise psycopg2.OperationalError("The tables of links are not distributed")
        return self.shards[bisect_right(self.least_hashes, hashtext(key)) - 1]

    def find_node(self, shard: int) -> Node:
        """Return the node that has a shard; the coordinator for a shard that is gone."""
        return self.nodes.get(shard, Node())


def find_problem(database: BaseDatabaseWrapper) -> str:
    """Return why a node cannot be used for redirects, which is in REMEDIES; "" if it can.

    Raises OperationalError if the node does not answer.
    """
    try:
        database.ensure_connection()
    except OperationalError as error:
        if match := LOGIN_ERROR.search(str(error)):
            return UNRESOLVED if match[1] else REFUSED
        raise
    hashes = [hashtext(key) for key in SAMPLE_KEYS]
    lock_timeout = str(settings.DATABASE_LOCK_TIMEOUT * 500)
    with database.cursor() as cursor:
        cursor.execute(CHECK_NODE, [LINKS, SAMPLE_KEYS, hashes, lock_timeout])
        answers = cursor.fetchone()
    return next((why for why, is_so in zip(DIFFERENT, answers, strict=True) if not is_so), "")


@lru_cache(MAX_HASHES)
def hashtext(key: str) -> int:
    """Return what PostgreSQL's hashtext() returns for a key in UTF-8."""
    data = key.encode()
    a = b = c = SEED + len(data) & UINT32
    whole = len(data) // 12 * 12
    for x, y, z in struct.iter_unpack("<3I", data[:whole]):
        a, b, c = a + x & UINT32, b + y & UINT32, c + z & UINT32
        for bits in (4, 6, 8, 16, 19, 4):
            a = (a - c & UINT32) ^ rotate(c, bits)
            a, b, c = b, c + b & UINT32, a
    tail = data[whole:]
    x, y = struct.unpack("<2I", tail[:8].ljust(8, b"\0"))
    # The lowest byte of c has the length already.
    z = int.from_bytes(tail[8:], "little") << 8
    a, b, c = a + x & UINT32, b + y & UINT32, c + z & UINT32
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - rotate(b, bits) & UINT32
        a, b, c = b, c, a
    return int(b - (b >> 31 << 32))  # as a signed number


def rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & UINT32
