"""Hot and cold: the service itself, with a few popular links and many rarely followed ones.

What it teaches: in daily use not all requests are for one key. The key of rank n is followed 1/n as
often as the first (Zipf's law). People create links and look at their hits, and scanners request
keys that do not exist. The same invariant has to hold: every acknowledged redirect is counted, and
every link has its own target.

How to run it, with the service up (`make run`):

    locust -f loadtests/hot_and_cold.py --headless
    locust -f loadtests/hot_and_cold.py --headless -t 60s --processes 2
    locust -f loadtests/hot_and_cold.py                     # http://127.0.0.1:8089, tab "Ledger"

The links lead to targets of a key space of the lab, so that they can be read and removed at the
end. The exit code is 0 when nothing was lost, 1 when not, 2 when the run was inconclusive.
"""

import random
import uuid
from itertools import accumulate

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

KEYS = 200
WEIGHTS = [*accumulate(1 / rank for rank in range(1, KEYS + 1))]  # cum_weights of random.choices()

Hooks(LoadRun("service", seeds=KEYS, users=1))


class Public(LedgerUser):
    """A user of the service. The tasks' weights are the mix."""

    def drawn(self) -> str:
        """Return a random key by Zipf's law."""
        (key,) = random.choices(self.given["seeds"], cum_weights=WEIGHTS)  # noqa: S311
        return str(key)

    @task(90)
    def resolve(self) -> None:
        key = self.drawn()
        self.follow(f"/{key}", key, name="/KEY")

    @task(4)
    def add(self) -> None:
        target_url = f"{self.given['targets']}{uuid.uuid4().hex}"
        self.create("/api/links", target_url, expected=201)

    @task(4)
    def stats(self) -> None:
        self.look("GET", f"/{self.drawn()}/stats", name="/KEY/stats", expected=200)

    @task(2)
    def scan(self) -> None:
        self.look("GET", f"/{self.given['space']}-none", name="/none", expected=404)
