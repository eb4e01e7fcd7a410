"""The last link of a quota: many users create for one spender, until its quota is used up.

A strategy that checks the quota, and spends it afterwards, sells the last link to every request
that checks at the same moment. No request fails, and the spender has more links than its quota.

With the service up (`make run`):

    locust -f loadtests/last_link.py --headless --strategy count_then_insert
    locust -f loadtests/last_link.py --headless --strategy reservation

The users go on to a new spender after twice as many creates as its quota has, so that a last link
is always near.
"""

import itertools
import uuid
from collections import Counter

from locust import FastHttpUser, task

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

LIMIT = 10  # links of each spender
numbers = itertools.count()
ledger = Ledger("links beyond the quota", strategy="count_then_insert")
space = KeySpace(ledger, "spending")


@ledger.reconcile
def quotas_hold(records: Records) -> Verdict:
    """No spender has more links than its quota."""
    # A target URL is https://HOST/SPENDER/RANDOM.
    links = Counter(link.target_url.split("/")[-2] for link in space.read())
    quotas = Counter(dict.fromkeys(links, LIMIT))
    return Verdict(counted=links, lost=(links - quotas) + (records.acknowledged - links))


class Spender(FastHttpUser):
    """Creates one link after another for the spender whose turn it is."""

    @task
    def create(self) -> None:
        spender = next(numbers) // (2 * LIMIT)  # half of its creates have to be refused
        target_url = space.target_url(f"{spender}/{uuid.uuid4().hex}")
        content = {"target_url": target_url, "spender": spender, "limit": LIMIT}
        space.run(self.client, recorded_as=str(spender), **content)
