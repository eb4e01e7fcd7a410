"""The same hour: many users follow one hot link, and a visit is recorded with each hit.

What it teaches: visits of one kind in one hour are counted in one row. A strategy that selects the
row, and inserts it if it is missing, inserts it twice when two visits select at the same moment. A
unique constraint refuses the second row: the hit is counted, and its visitor gets an error. Once
the row exists, there is no race for it any more. So the users come from the next page after 32
requests.

A visit that is recorded in a second transaction is lost if its process is killed before that.
`make races` kills five workers of the service in its run. By hand, with the process id of
gunicorn's master:

    locust -f loadtests/same_hour.py --headless --strategy get_then_create
    locust -f loadtests/same_hour.py --headless --strategy service
    locust -f loadtests/same_hour.py --headless --strategy second_transaction --kill-worker-of PID
    locust -f loadtests/same_hour.py --headless --strategy combined --kill-worker-of PID
    locust -f loadtests/same_hour.py                        # http://127.0.0.1:8089, tab "Ledger"

At the end the link has to have as many visits as hits.
"""

import random
from typing import Any

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.ledger import is_refusal
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

CAME = 32  # visits from each page, twice the number of users
USER_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0",
    "curl/8.14.1",
)

Hooks(LoadRun("recording_visits", seeds=1))


class HourVisitor(LedgerUser):
    """Follows the hot link with one of a few browsers, from one page after another."""

    @task
    def visit(self) -> None:
        (hot,) = self.given["seeds"]
        path = self.path("record")
        headers = {
            "Referer": f"https://page-{self.load.total // CAME}.example/",
            "User-Agent": random.choice(USER_AGENTS),  # noqa: S311
        }
        self.follow(f"{path}/{hot}", hot, name=f"{path}/KEY", headers=headers)

    def failed(self, response: Any, kind: str) -> None:
        """Record that the hit of a failed visit may be counted."""
        if is_refusal(kind):
            (hot,) = self.load.given["seeds"]  # self.given stops the user at the end of the run
            self.load.ledger.unknown_redirects[hot] += 1
            request = self.label(f"{self.path('record')}/{hot}")
            self.load.ledger.refused(request, kind, self.told(response, "message"))
