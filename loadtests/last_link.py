"""The last link of a quota: many users create for one spender, until its quota is used up.

What it teaches: a strategy that checks the quota, and spends it afterwards, sells the last link to
every request that checks at the same moment. The users go on to a new spender after twice as many
creates as its quota has, so that a last link is always near. At the end the links of each spender
are counted in the database. More than the quota is a race, even if a proxy has repeated requests.

How to run it, with the service up (`make run`):

    locust -f loadtests/last_link.py --headless --strategy count_then_insert
    locust -f loadtests/last_link.py --headless --strategy reservation
    locust -f loadtests/last_link.py                        # http://127.0.0.1:8089, tab "Ledger"
"""

import uuid

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

LIMIT = 10  # links of each spender

Hooks(LoadRun("spending", limit=LIMIT))


class Spender(LedgerUser):
    """Creates one link after another for the current spender."""

    @task
    def spend(self) -> None:
        """Create a link. The answer that the quota is used up is right, too."""
        path = f"/lab/spend/{self.strategy}"
        spender = self.load.total // (2 * LIMIT)
        content = {"space": self.given["space"], "spender": spender, "limit": LIMIT}
        target_url = f"{self.given['targets']}{spender}/{uuid.uuid4().hex}"
        self.create(path, target_url, **content)
