"""Two links where one was requested: many users request a link to the same target at once.

A strategy that looks for a link, and creates one if there is none, creates a second one when two
requests look at the same moment. No request fails, so no user notices. `get_or_create` notices
later: it expects one link, so after a second one every further request for that target fails.

With the service up (`make run`):

    locust -f loadtests/same_target.py --headless --strategy find_then_create
    locust -f loadtests/same_target.py --headless --strategy advisory_lock

Once a target has its link, there is no race for it any more. So the users go on to the next target
after eight requests.
"""

import itertools
from collections import Counter

from locust import FastHttpUser, task

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

REQUESTS = 8  # for each target, half the number of users
numbers = itertools.count()
ledger = Ledger("links too many", strategy="find_then_create")
space = KeySpace(ledger, "reusing")


@ledger.reconcile
def each_target_has_one_link(records: Records) -> Verdict:
    """Every target that a user got a link to has exactly one link."""
    links = Counter(link.target_url for link in space.read())
    extra = links - Counter({*links})  # all but one link of each target
    missing = Counter({*records.acknowledged}) - links
    return Verdict(counted=links, lost=extra + missing)


class Requester(FastHttpUser):
    """Requests a link to one target after another. All users request the same ones."""

    @task
    def request_link(self) -> None:
        target_url = space.target_url(next(numbers) // REQUESTS)
        space.run(self.client, recorded_as=target_url, target_url=target_url)
