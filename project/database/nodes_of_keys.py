"""The node of a Citus cluster that has a key, so that a frozen node holds few statements.

project/serving/waiting_hits.py limits the statements for one place. The coordinator looks keys up
in its own catalogue, so it answers even when a worker does not.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.backends.utils import CursorWrapper

from shorturl import following
from shorturl.models import ShortUrl

AGE = 60.0  # seconds for which a place is remembered: a rebalance moves keys
MOST = 100_000  # remembered keys
LOOK_UP = """
    SELECT key, groupid FROM unnest(%s::text[]) AS key JOIN pg_dist_placement
    ON shardid = get_shard_id_for_distribution_column(%s::regclass, key)
"""


class Places:
    """The nodes of keys that this process remembers."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.until = 0.0

    def of(self, key: str) -> int | None:
        """Return the group of nodes that has the key; None if it is unknown."""
        return self.nodes.get(key)

    def look_up(self, visits: Mapping[str, object], cursor: CursorWrapper) -> dict[str, Any]:
        """Find out the nodes of the keys; count nothing, as each key needs a separate statement."""
        if time.monotonic() > self.until or len(self.nodes) > MOST:
            self.nodes, self.until = {}, time.monotonic() + AGE
        if unknown := [key for key in visits if key not in self.nodes]:
            cursor.execute(LOOK_UP, [unknown, ShortUrl._meta.db_table])
            self.nodes.update(cursor.fetchall())
        return {}

    def count_key(self, key: str, hits: Sequence[Any], cursor: CursorWrapper) -> list[Any]:
        """Call following.count_key(); after a failure, forget the node of the key."""
        try:
            return following.count_key(key, hits, cursor)
        except Exception:
            self.nodes.pop(key, None)
            raise
