"""The roll-up of visits: recent ones into hours and days, old days into months."""

from shorturl import cluster
from shorturl.strategies.rolling_up import batches


def roll_up_visits() -> int:
    """Roll up all visits that are due; return how many rows were taken.

    Raises OperationalError, after all others are rolled up, for those of a node that is away.
    """
    if cluster.is_distributed():
        return cluster.roll_up_shards()
    total = 0
    while True:
        rows = batches.roll_up()
        total += rows
        if rows < batches.BATCH:  # the next roll-up takes what is recorded meanwhile
            return total
