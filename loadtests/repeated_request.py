"""The same request many times: users who hear nothing for a moment send it again.

What it teaches: an Idempotency-Key that is looked up first and stored last protects from a repeated
request only when the first one is over. While it is at work, the second one finds nothing, and does
the work again. Each target is requested eight times with the same key, and whoever is told that it
is in progress goes on to the next one.

How to run it, with the service up (`make run`):

    locust -f loadtests/repeated_request.py --headless --strategy look_up_then_store
    locust -f loadtests/repeated_request.py --headless --strategy advisory_lock
    locust -f loadtests/repeated_request.py                 # http://127.0.0.1:8089, tab "Ledger"

What a crash does to a key is in `manage.py race explore killed_before_the_answer`, and `python -m
loadtests.faults kill_answer` kills a worker between the work and the answer. The exit code is 0
when the strategy behaved as its table says, 1 when not, 2 when the run was inconclusive.
"""

from typing import Any

from locust import task

from loadtests.harness.hooks import Hooks, add_options
from loadtests.harness.lab_api import Lab
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

SENT = 8  # times each request, half as many as there are users


def prepare(lab: Lab, space: str, options: Any) -> dict[str, Any]:
    """Prepare nothing: the space has to be empty."""
    return {}


add_options("idempotency", default="look_up_then_store")
load = LoadRun("repeated_request", "idempotency", prepare=prepare, key_length=3)
Hooks(load)


class Sender(LedgerUser):
    """Sends one request after another, each of which all users send."""

    load = load

    @task
    def send(self) -> None:
        """Send the request that is due."""
        target_url = f"{self.given['targets']}{self.load.total // SENT}"
        path, space = f"/lab/answer/{self.strategy}", self.given["space"]
        self.create(path, target_url, name=path, expected=200, space=space)
