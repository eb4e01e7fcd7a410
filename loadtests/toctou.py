"""Time of check to time of use: many users create at once, in a key space that is soon full.

A random key is free until another request takes it, which may happen between the SELECT and the
INSERT. `naive` fails as soon as a key is drawn twice. `check_first` fails when two requests check
at the same moment. `get_or_create` silently gives the second user the first one's link.

With the service up (`make run`):

    locust -f loadtests/toctou.py --headless --strategy check_first
    locust -f loadtests/toctou.py --headless --strategy on_conflict

The keys have one character. In a full key space no request competes any more. So the users go on
to a new round of keys after as many creates as there are keys.
"""

import itertools
import uuid
from collections import Counter

from locust import FastHttpUser, task

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

KEYS = 62  # of one character
numbers = itertools.count()
ledger = Ledger("creates lost", strategy="check_first")
space = KeySpace(ledger, "creating")


@ledger.reconcile
def links_exist(records: Records) -> Verdict:
    """Every acknowledged create has made a link to the target of its user."""
    links = Counter(link.target_url for link in space.read())
    return Verdict(counted=links, lost=records.acknowledged - links)


class Creator(FastHttpUser):
    """Creates one link after another, each to another target."""

    @task
    def create(self) -> None:
        target_url = space.target_url(uuid.uuid4().hex)
        round_number = next(numbers) // KEYS
        space.run(self.client, recorded_as=target_url, target_url=target_url, round=round_number)
