"""The races of what the service runs: its own functions, each beside what can meet it.

The rows of these operations are no strategies to choose from but functions of the product, as they
stand.
"""

from lab.races.service import event_races, hit_races
from lab.races.service.race_definition import Operation

OPERATIONS: dict[str, Operation] = {
    f"service_{name}": Operation(f"What the service runs: {what}", module.STRATEGIES, module.RACES)
    for name, what, module in (
        ("hits", "hits", hit_races),
        ("events", "events", event_races),
    )
}
