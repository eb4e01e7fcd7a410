"""Last use: many users follow links with a limit, and more are redirected than the limit allows.

A counter that loses no hit is not yet a limit. A strategy that checks the limit, and counts
afterwards, sells the last use twice. If the counter is right, as with `f_expression`, a CHECK of
the table turns the second sale into an error. The condition belongs into the statement that counts.

With the service up (`make run`):

    locust -f loadtests/last_use.py --headless --strategy naive
    locust -f loadtests/last_use.py --headless --strategy f_expression
    locust -f loadtests/last_use.py --headless --strategy update_returning

All users follow one link until it is used up, and then the next one.
"""

from collections import Counter

from locust import FastHttpUser, task
from locust.exception import StopUser

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

LINKS = 50
LIMIT = 10  # uses of each link
ledger = Ledger("uses oversold", strategy="naive")
space = KeySpace(ledger, "resolving", links=LINKS, max_hits=LIMIT)


@ledger.reconcile
def limits_hold(records: Records) -> Verdict:
    """No link has redirected more users than it has counted, or than its limit."""
    hits = Counter({link.key: link.hits for link in space.read()})
    allowed = Counter(dict.fromkeys(space.keys, LIMIT))
    return Verdict(counted=hits, lost=records.acknowledged - (hits & allowed))  # & is the minimum


class Follower(FastHttpUser):
    """Follows each link until it is used up."""

    index = 0

    @task
    def follow(self) -> None:
        if self.index == LINKS:
            raise StopUser
        if space.follow(self.client, space.keys[self.index]):  # it is used up
            self.index += 1
