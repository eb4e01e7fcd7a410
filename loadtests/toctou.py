"""Time of check to time of use: many users create at once, in a key space that is soon full.

What it teaches: a random key is free until another request takes it, which may happen between the
SELECT and the INSERT. `naive` fails as soon as a key is drawn twice. `check_first` fails when two
requests check at the same moment. `get_or_create` silently gives the second user the first one's
link. In a full key space no request competes any more. So the users go on to a new round of it
after as many creates as it has keys.

How to run it, with the service up (`make run`):

    locust -f loadtests/toctou.py --headless --strategy check_first
    locust -f loadtests/toctou.py --headless --strategy on_conflict
    locust -f loadtests/toctou.py                           # http://127.0.0.1:8089, tab "Ledger"
    locust -f loadtests/toctou.py --headless --processes 2
"""

import uuid
from typing import Any

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.ledger import is_refusal
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

KEYS = 62  # of one character
ROUNDS = 4096  # in a key space

Hooks(LoadRun("creating", key_length=1))


class Creator(LedgerUser):
    """Creates one link after another, each to another target."""

    target_url = ""

    @task
    def draw(self) -> None:
        self.target_url = f"{self.given['targets']}{uuid.uuid4().hex}"
        content = {"space": self.given["space"], "round": self.load.total // KEYS % ROUNDS}
        self.create(f"/lab/create/{self.strategy}", self.target_url, expected=201, **content)

    def failed(self, response: Any, kind: str) -> None:
        """Record the key that was taken."""
        if is_refusal(kind):
            self.load.ledger.refused(self.target_url, kind, self.told(response, "message"))
