"""Which node of a Citus cluster has a key, by the hash of the key and the catalogue of Citus.

A key belongs to the shard whose range has hashtext(key). PostgreSQL's hash_bytes() is Bob Jenkins'
lookup3, https://burtleburtle.net/bob/c/lookup3.c. Citus copies its catalogue to each worker.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from shorturl.models import ShortUrl

LINKS = ShortUrl._meta.db_table
UINT32 = 0xFFFFFFFF
SEED = 0x9E3779B9 + 3923095
READ_MAP = """
    SELECT shardminvalue::int, shardid, groupid, nodename, nodeport
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid)
    WHERE logicalrelid = %s::regclass AND noderole = 'primary' ORDER BY 1
"""


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

    def make_database_settings(self) -> dict[str, Any]:
        """Return Django's settings for connections to this node.

        If nodes have a PgBouncer, it has the port of DATABASE_URL.
        """
        service = connections[DEFAULT_DB_ALIAS].settings_dict
        if not self.host:
            return dict(service)
        port = self.port if settings.DATABASE_POOLER == "none" else service["PORT"]
        return {**service, "HOST": self.host, "PORT": port}

    def open_database(self) -> BaseDatabaseWrapper:
        """Return a database of Django that leads to this node; it is not connected yet."""
        return ConnectionHandler({"default": self.make_database_settings()})["default"]


class ShardMap:
    """The ids of a table's shards in the order of their hashes, and the node of each shard.

    `rows` are the rows of READ_MAP.
    """

    def __init__(self, rows: Sequence[tuple[int, int, int, str, int]]) -> None:
        self.least_hashes: list[int] = []
        self.shards: list[int] = []
        self.nodes: dict[int, Node] = {}
        for least_hash, shard, group, host, port in rows:
            self.least_hashes.append(least_hash)
            self.shards.append(shard)
            self.nodes[shard] = Node(host, port) if group else Node()  # 0 is the coordinator's

    def find_shard(self, key: str) -> int:
        """Return the id of a key's shard: the last shard that begins at its hash or below."""
        return self.shards[bisect_right(self.least_hashes, hashtext(key)) - 1]

    def find_node(self, shard: int) -> Node:
        """Return the node that has a shard of this map."""
        return self.nodes[shard]


def hashtext(key: str) -> int:
    """Return what PostgreSQL's hashtext() returns for a key in UTF-8."""
    data = key.encode()
    a = b = c = SEED + len(data) & UINT32
    blocks = len(data) // 12 * 12  # bytes in blocks of twelve; the tail is shorter
    for x, y, z in struct.iter_unpack("<3I", data[:blocks]):
        a, b, c = a + x & UINT32, b + y & UINT32, c + z & UINT32
        for bits in (4, 6, 8, 16, 19, 4):
            a = (a - c & UINT32) ^ rotate(c, bits)
            a, b, c = b, c + b & UINT32, a
    tail = data[blocks:]
    x, y = struct.unpack("<2I", tail[:8].ljust(8, b"\0"))
    # The lowest byte of c has the length already.
    z = int.from_bytes(tail[8:], "little") << 8
    a, b, c = a + x & UINT32, b + y & UINT32, c + z & UINT32
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - rotate(b, bits) & UINT32
        a, b, c = b, c, a
    return int(b - (b >> 31 << 32))  # as a signed number


def rotate(value: int, bits: int) -> int:
    """Rotate a number of 32 bits to the left."""
    return (value << bits | value >> 32 - bits) & UINT32
