"""How long a step may take: longer on a machine that is slow to answer."""

import time

from pginterleave.control import Database

LEAST, MOST = 10.0, 120.0  # seconds
ROUND_TRIPS = 20_000  # as many as a step may take the time of; mostly they fit into LEAST
MEASURED = 20  # round trips


def measured_timeout(database: Database) -> float:
    """Return the seconds that a step may take, from how fast PostgreSQL answers the caller."""
    if database.in_transaction():  # which is refused, and may be one that has failed
        return LEAST
    database.ask("SELECT 1", {})  # it may have to connect
    began = time.perf_counter()
    for _ in range(MEASURED):
        database.ask("SELECT 1", {})
    return timeout_for((time.perf_counter() - began) / MEASURED)


def timeout_for(round_trip: float) -> float:
    """Return the seconds that a step may take where a round trip takes so many."""
    return min(MOST, max(LEAST, ROUND_TRIPS * round_trip))
