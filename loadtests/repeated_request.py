"""The same request many times: a client that gets no answer soon sends its request again.

A strategy that looks an Idempotency-Key up first, and stores it last, recognizes a repeated request
only after the first one has ended. During the first one, the second one finds no key, and does the
work again.

With the service up (`make run`):

    locust -f loadtests/repeated_request.py --headless --strategy look_up_then_store
    locust -f loadtests/repeated_request.py --headless --strategy advisory_lock

Eight requests for each target have the same key, which is the target. The answer that the request
is in progress is right, too.
"""

import itertools
from collections import Counter

from locust import FastHttpUser, task

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

REQUESTS = 8  # with the same key, half the number of users
numbers = itertools.count()
ledger = Ledger("links made again", strategy="look_up_then_store")
space = KeySpace(ledger, "idempotency")


@ledger.reconcile
def requests_are_carried_out_once(records: Records) -> Verdict:
    """Every target that a user got a link to has exactly one link."""
    links = Counter(link.target_url for link in space.read())
    extra = links - Counter({*links})  # all but one link of each target
    missing = Counter({*records.acknowledged}) - links
    return Verdict(counted=links, lost=extra + missing)


class Sender(FastHttpUser):
    """Sends one request after another. All users send the same ones."""

    @task
    def send_request(self) -> None:
        target_url = space.target_url(next(numbers) // REQUESTS)
        space.run(self.client, recorded_as=target_url, target_url=target_url)
