"""Two links where one was asked for: many users ask for a link to the same target at once.

What it teaches: whoever looks for a link, and creates one when there is none, creates a second one
when somebody else looks at the same moment. No request fails, and nobody is told. get_or_create
finds out later: with two links where it wants one, every further request for that target fails.
Once a target has its link nobody races for it any more, so the users move on to the next target
after eight requests.

How to run it, with the service up (`make run`):

    locust -f loadtests/same_target.py --headless --strategy find_then_create
    locust -f loadtests/same_target.py --headless --strategy advisory_lock
    locust -f loadtests/same_target.py                      # http://127.0.0.1:8089, tab "Ledger"

The exit code is 0 when the strategy behaved as its table says, 1 when not, 2 when the run was
inconclusive.
"""

from typing import Any

from locust import task

from loadtests.harness.hooks import Hooks, add_options
from loadtests.harness.lab_api import Lab
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

ASKED = 8  # times for each target, half as many as there are users


def prepare(lab: Lab, space: str, options: Any) -> dict[str, Any]:
    """Prepare nothing: the space has to be empty."""
    return {}


add_options("reusing", default="find_then_create")
load = LoadRun("same_target", "reusing", prepare=prepare, key_length=3)
Hooks(load)


class Asker(LedgerUser):
    """Asks for a link to one target after another, each of which all users ask for."""

    load = load

    @task
    def ask_for_one(self) -> None:
        """Ask for a link to the target that is due."""
        target_url = f"{self.given['targets']}{self.load.total // ASKED}"
        path, space = f"/lab/reuse/{self.strategy}", self.given["space"]
        self.create(path, target_url, name=path, expected=200, space=space)
