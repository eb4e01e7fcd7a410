"""What is different where a Citus cluster distributes the links over its nodes.

All that shorturl/ knows of Citus is here. project/citus has the rest.
"""

import re
from collections.abc import Callable

from django.conf import settings
from django.db import InternalError

# Citus's messages when a node is lost within a statement; their code is that of internal errors.
NODE_LOST = re.compile(
    "failure on connection marked as essential|postmaster was shut down"
    "|could not commit transaction for shard"
)

# Rolls up the visits of all nodes, and returns how many rows were taken; project/citus sets it.
roll_up_shards: Callable[[], int]


def is_distributed() -> bool:
    """Return whether each key is on one of several nodes. A statement then has one key."""
    return bool(settings.DATABASE_CITUS)


def is_node_lost(error: object) -> bool:
    """Return whether a node was lost within the statement."""
    return isinstance(error, InternalError) and bool(NODE_LOST.search(str(error)))


def names_constraint(message: str, constraint: str) -> bool:
    """Return whether an error's message has the constraint's name, or that of its shard.

    An error from another node has the name nowhere else.
    """
    return re.search(rf"(?<!\w){re.escape(constraint)}(_[0-9]+)?(?!\w)", message) is not None
