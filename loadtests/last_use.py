"""Last use: many users follow links with a limit, and more are redirected than the limit allows.

What it teaches: a counter that loses no hit is not yet a limit. A strategy that checks the limit,
and counts afterwards, sells the last use twice. If the counter is right, as with F(), a CHECK of
the table turns the second sale into an error. If the counter loses a hit, the CHECK does not fail.
The condition belongs into the statement that counts.

How to run it, with the service up (`make run`):

    locust -f loadtests/last_use.py --headless --strategy naive
    locust -f loadtests/last_use.py --headless --strategy f_expression
    locust -f loadtests/last_use.py --headless --strategy update_returning -u 64

All users follow one link until it is used up, and then the next one. Redirects acknowledged beyond
the limit are oversold. A proxy that repeats requests sells nothing twice, as each user gets one
answer.
"""

from http import HTTPStatus

from locust import task
from locust.exception import StopUser

from loadtests.harness.hooks import Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

LINKS, LIMIT = 100, 10

Hooks(LoadRun("last_use", seeds=LINKS, max_hits=LIMIT))


class UseTaker(LedgerUser):
    """Follows each link in turn until it is used up."""

    at = 0

    @task
    def resolve(self) -> None:
        keys = self.given["seeds"]
        if self.at == len(keys):
            raise StopUser
        path, key = self.path("resolve"), keys[self.at]
        response = self.follow(f"{path}/{key}", key, name=f"{path}/KEY", or_else=HTTPStatus.GONE)
        if response is not None and response.status_code == HTTPStatus.GONE:
            self.at += 1
