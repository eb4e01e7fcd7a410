"""The same request many times: a client that gets no answer for a moment sends its request again.

What it teaches: a strategy that looks an Idempotency-Key up first, and stores it last, recognizes a
repeated request only after the first one is over. While the first one is at work, the second one
finds nothing, and does the work again. Eight requests for each target have the same key. A user who
is told that the request is in progress goes on to the next one.

How to run it, with the service up (`make run`):

    locust -f loadtests/repeated_request.py --headless --strategy look_up_then_store
    locust -f loadtests/repeated_request.py --headless --strategy advisory_lock
    locust -f loadtests/repeated_request.py                 # http://127.0.0.1:8089, tab "Ledger"

`manage.py race explore killed_before_the_answer` shows what a crash does to a key, and `python -m
loadtests.faults kill_answer` kills a worker between the work and the answer.
"""

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

SENT = 8  # times each request, half as many as there are users

Hooks(LoadRun("idempotency"))


class Sender(LedgerUser):
    """Sends one request after another. All users send the same ones."""

    @task
    def send(self) -> None:
        """Send the request whose turn it is."""
        target_url = f"{self.given['targets']}{self.load.total // SENT}"
        path, space = f"/lab/answer/{self.strategy}", self.given["space"]
        self.create(path, target_url, space=space)
