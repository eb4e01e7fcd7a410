"""`manage.py deliver`: delivers events until it is stopped."""

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from shorturl.events.delivering import Deliverer


class Command(BaseCommand):
    help = (
        "Deliver events to the receivers that `webhook add` names, until SIGTERM or Ctrl-C. Any "
        "number of these processes can run at once, and be killed at any time."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        stopping = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.set())
        self.stderr.write("Delivering events; Ctrl-C stops it.")
        Deliverer(stopping.is_set).run()
