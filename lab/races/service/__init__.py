"""The races of the service's hits: its own functions, each beside what can meet it."""

from lab.races.service import hit_races
from lab.races.service.race_definition import Operation

OPERATIONS = {
    "service_hits": Operation("What the service runs: hits", hit_races.STRATEGIES, hit_races.RACES)
}
