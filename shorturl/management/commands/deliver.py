"""`manage.py deliver`: delivers events until it is stopped."""

import signal
from typing import Any

from django.core.management.base import BaseCommand

from shorturl.events.delivering import Deliverer


class Command(BaseCommand):
    help = (
        "Deliver events to the receivers that `webhook add` names, until SIGTERM or Ctrl-C. Any "
        "number of these processes can run at once, and be killed at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        deliverer = Deliverer()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: deliverer.stopping.set())
        self.stderr.write("Delivering events; Ctrl-C stops it.")
        deliverer.run()
