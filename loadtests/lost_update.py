"""Lost update: many users follow one link, and its counter misses some hits.

Between the SELECT that reads the counter and the UPDATE that writes it, other sessions read the
same number. Every user gets a redirect, and the counter ends up too low.

With the service up (`make run`):

    locust -f loadtests/lost_update.py --headless --strategy naive
    locust -f loadtests/lost_update.py --headless --strategy update_returning
    locust -f loadtests/lost_update.py --headless --strategy service       # /KEY itself
    locust -f loadtests/lost_update.py                      # http://127.0.0.1:8089, tab "Ledger"
"""

from collections import Counter

from locust import FastHttpUser, task

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

ledger = Ledger("hits lost", strategy="naive")
space = KeySpace(ledger, "resolving", links=1)


@ledger.reconcile
def hits_are_counted(records: Records) -> Verdict:
    """Every acknowledged redirect is in the link's counter."""
    hits = Counter({link.key: link.hits for link in space.read()})
    return Verdict(counted=hits, lost=records.acknowledged - hits)


class Follower(FastHttpUser):
    """Follows the link without pause."""

    @task
    def follow(self) -> None:
        (key,) = space.keys
        space.follow(self.client, key)
