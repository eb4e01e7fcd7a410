"""The same hour: many users follow a link, and a visit is recorded with each hit.

The visits of a link in one hour are counted in one row. A strategy that looks for the row, and
inserts it if it is missing, inserts it twice when two visits look at the same moment. A unique
constraint refuses the second row: the hit is counted, and its visitor gets an error. A visit that
is recorded in a second transaction is lost if its process is killed before that.

With the service up (`make run`):

    locust -f loadtests/same_hour.py --headless --strategy get_then_create
    locust -f loadtests/same_hour.py --headless --strategy upsert
    locust -f loadtests/same_hour.py --headless --strategy service         # /KEY itself

Once the row exists, there is no race for it any more. So the users go on to the next link after 8
requests, and begin again after the last link. `make races` kills workers of the service meanwhile.
"""

import itertools
from collections import Counter

from locust import FastHttpUser, task

from loadtests.key_space import KeySpace
from loadtests.ledger import Ledger
from loadtests.records import Records, Verdict

LINKS = 40
REQUESTS = 8  # for each link, half the number of users
numbers = itertools.count()
ledger = Ledger("visits lost", strategy="get_then_create")
space = KeySpace(ledger, "recording_visits", links=LINKS)


@ledger.reconcile
def hits_have_visits(records: Records) -> Verdict:
    """Every acknowledged redirect is a visit, and every link has as many visits as hits."""
    links = space.read()
    hits = Counter({link.key: link.hits for link in links})
    visits = Counter({link.key: link.visits for link in links})
    return Verdict(counted=visits, lost=(records.acknowledged | hits) - visits)  # | is the maximum


class Visitor(FastHttpUser):
    """Follows one link after another. All users follow the same ones."""

    @task
    def follow(self) -> None:
        key = space.keys[next(numbers) // REQUESTS % LINKS]
        space.follow(self.client, key)
