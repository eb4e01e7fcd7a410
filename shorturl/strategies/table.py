"""The strategies of all operations, by operation and name. An operation is a folder here."""

from typing import Any

from shorturl.strategies.creating import table as creating
from shorturl.strategies.delivering import table as delivering
from shorturl.strategies.idempotency import table as idempotency
from shorturl.strategies.recording_visits import table as recording_visits
from shorturl.strategies.resolving import table as resolving
from shorturl.strategies.reusing import table as reusing
from shorturl.strategies.rolling_up import table as rolling_up
from shorturl.strategies.spending import table as spending
from shorturl.strategies.strategy import Strategy

STRATEGIES: dict[str, dict[str, Strategy[Any]]] = {
    "creating": creating.STRATEGIES,
    "resolving": resolving.STRATEGIES,
    "reusing": reusing.STRATEGIES,
    "idempotency": idempotency.STRATEGIES,
    "spending": spending.STRATEGIES,
    "recording_visits": recording_visits.STRATEGIES,
    "rolling_up": rolling_up.STRATEGIES,
    "delivering": delivering.STRATEGIES,
}
