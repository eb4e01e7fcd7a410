"""Two links where one was requested: many users request a link to the same target at once.

What it teaches: a strategy that selects a link, and creates one if there is none, creates a second
one when two requests select at the same moment. No request fails, so no user notices. get_or_create
notices later: it expects one link, so after a second one every further request for that target
fails. Once a target has its link, there is no race for it any more. So the users go on to the next
target after eight requests.

How to run it, with the service up (`make run`):

    locust -f loadtests/same_target.py --headless --strategy find_then_create
    locust -f loadtests/same_target.py --headless --strategy advisory_lock
    locust -f loadtests/same_target.py                      # http://127.0.0.1:8089, tab "Ledger"
"""

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

ASKED = 8  # requests for each target, half the number of users

Hooks(LoadRun("reusing"))


class Asker(LedgerUser):
    """Requests a link to one target after another. All users request the same ones."""

    @task
    def ask_for_one(self) -> None:
        target_url = f"{self.given['targets']}{self.load.total // ASKED}"
        path, space = f"/lab/reuse/{self.strategy}", self.given["space"]
        self.create(path, target_url, space=space)
