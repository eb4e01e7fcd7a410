"""The same request many times: a client that gets no answer soon sends its request again.

What it teaches: a strategy that looks an Idempotency-Key up first, and stores it last, recognizes a
repeated request only after the first one has ended. During the first one, the second one finds no
key, and does the work again. Eight requests for each target have the same key. After the answer
that the request is in progress, a user goes on to the next one.

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

SENT = 8  # times that each request is sent, half the number of users

Hooks(LoadRun("idempotency"))


class Sender(LedgerUser):
    """Sends one request after another. All users send the same ones."""

    @task
    def send(self) -> None:
        target_url = f"{self.given['targets']}{self.load.total // SENT}"
        path, space = f"/lab/answer/{self.strategy}", self.given["space"]
        self.create(path, target_url, space=space)
