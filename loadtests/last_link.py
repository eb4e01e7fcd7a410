"""The last link of a quota: many users create for one spender, until its quota is used up.

What it teaches: whoever looks whether one is left, and spends it after that, sells the last one as
often as others look at the same moment. The users move on to a new spender after twice as many
creates as its quota has, so that there is always a last link near. How many links a spender has is
counted in the database at the end: more than its quota is a race, whatever a proxy has repeated.

How to run it, with the service up (`make run`):

    locust -f loadtests/last_link.py --headless --strategy count_then_insert
    locust -f loadtests/last_link.py --headless --strategy reservation
    locust -f loadtests/last_link.py                        # http://127.0.0.1:8089, tab "Ledger"

The exit code is 0 when the strategy behaved as its table says, 1 when not, 2 when the run was
inconclusive.
"""

import uuid
from typing import Any

from locust import task

from loadtests.harness.hooks import Hooks, add_options
from loadtests.harness.lab_api import Lab
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

LIMIT = 10  # links of each spender


def prepare(lab: Lab, space: str, options: Any) -> dict[str, Any]:
    """Prepare nothing but what reconciling needs: the limit."""
    return {"limit": LIMIT}


add_options("spending", default="count_then_insert")
load = LoadRun("last_link", "spending", prepare=prepare, key_length=3)
Hooks(load)


class Spender(LedgerUser):
    """Creates one link after another, for the spender whose turn it is."""

    load = load

    @task
    def spend(self) -> None:
        """Create a link, or be told that the quota is used up."""
        path = f"/lab/spend/{self.strategy}"
        spender = self.load.total // (2 * LIMIT)
        content = {"space": self.given["space"], "spender": spender, "limit": LIMIT}
        target_url = f"{self.given['targets']}{spender}/{uuid.uuid4().hex}"
        self.create(path, target_url, name=path, expected=200, **content)
