"""`manage.py deliver_by STRATEGY`: `manage.py deliver` with another strategy, for load tests."""

from functools import partial
from typing import Any

from django.core.management.base import CommandParser

from shorturl.events.delivering import Deliverer, deliver_next
from shorturl.management.commands import deliver
from shorturl.strategies.table import STRATEGIES


class Command(deliver.Command):
    """A wrong strategy loses or repeats events of all receivers of the database."""

    help = "Deliver events by a strategy, right or wrong, until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("strategy", choices=[*STRATEGIES["delivering"]])

    def deliverer(self, **options: Any) -> Deliverer:
        strategy = STRATEGIES["delivering"][options["strategy"]].function
        return Deliverer(partial(deliver_next, deliver=strategy))
