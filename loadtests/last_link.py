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
from http import HTTPStatus

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
    """No spender has more links than its quota. A link has its spender in its target URL."""
    links = Counter(link.target_url.split("/")[3] for link in space.read())
    quotas = Counter(dict.fromkeys(links, LIMIT))
    return Verdict(counted=links, lost=(links - quotas) + (records.acknowledged - links))


class Spender(FastHttpUser):
    """Creates one link after another for the spender whose turn it is."""

    @task
    def create(self) -> None:
        number = next(numbers) // (2 * LIMIT)
        spender = str(number)
        target_url = space.target_url(f"{number}/{uuid.uuid4().hex}")
        ledger.sent[spender] += 1
        answer = space.run(self.client, target_url=target_url, spender=number, limit=LIMIT)
        if answer.status == HTTPStatus.CREATED:
            ledger.acknowledged[spender] += 1
        elif answer.is_refusal:
            ledger.refused[spender] += 1
