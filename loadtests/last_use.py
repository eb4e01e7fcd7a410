"""Last use: many users follow links of limited use, and more get through than the limit says.

What it teaches: a counter that loses no hit does not make a limit. A strategy that looks at what is
left, and counts afterwards, sells the last use twice. Where the counter is right, as with F(), a
CHECK of the table turns the second sale into an error. Where the counter loses a hit, the CHECK
sees nothing. The condition belongs into the statement that counts.

How to run it, with the service up (`make run`):

    locust -f loadtests/last_use.py --headless --strategy naive
    locust -f loadtests/last_use.py --headless --strategy f_expression
    locust -f loadtests/last_use.py --headless --strategy update_returning -u 64

All users follow one link until it is used up, and then the next one. What was acknowledged beyond
the limit is oversold. A proxy that repeats requests sells nothing twice, as each user is told once.
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
    """Follows each link in turn, until it is used up."""

    at = 0

    @task
    def resolve(self) -> None:
        keys = self.given["seeds"]
        if self.at == len(keys):
            raise StopUser
        path, key = f"/lab/resolve/{self.strategy}", keys[self.at]
        response = self.follow(f"{path}/{key}", key, name=f"{path}/KEY", or_else=HTTPStatus.GONE)
        if response is not None and response.status_code == HTTPStatus.GONE:
            self.at += 1
