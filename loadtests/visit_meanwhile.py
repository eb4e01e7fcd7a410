"""A visit meanwhile: many users follow links, while others roll their visits up into days.

What it teaches: a roll-up that first adds up the rows of an hour, and then deletes them, also
deletes what a visit has added between the two. Two roll-ups at once add the same rows twice. A
roll-up has to add the rows that its own DELETE returns.

Two of the users roll up, as if a timer had started a second roll-up before the first has ended. The
others follow several links, so that an extra visit of one does not hide a lost visit of another.

How to run it, with the service up (`make run`):

    locust -f loadtests/visit_meanwhile.py --headless --strategy watermark
    locust -f loadtests/visit_meanwhile.py --headless --strategy batches
    locust -f loadtests/visit_meanwhile.py                  # http://127.0.0.1:8089, tab "Ledger"

A roll-up takes the rows of all links, so the key space has a separate table of visits. `upsert`
records the visits. At the end every link has to have as many visits as hits.
"""

import random
from http import HTTPStatus

from locust import task

from loadtests.harness.hooks import Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

LINKS, TIMERS = 5, 2

# Two roll-ups may deadlock until PostgreSQL ends one of them. Visits wait meanwhile.
Hooks(LoadRun("rolling_up", seeds=LINKS, users=TIMERS + 1, own_visits=True, faults=True))


class Visitor(LedgerUser):
    """Follows the links without pause."""

    @task
    def visit(self) -> None:
        key = random.choice(self.given["seeds"])  # noqa: S311
        self.follow(f"/lab/record/upsert/{key}", key, name="/lab/record/upsert/KEY")


class Timer(LedgerUser):
    """Rolls up without pause."""

    fixed_count = TIMERS  # in all processes together

    @task
    def roll_up(self) -> None:
        path = f"/lab/roll_up/{self.strategy}"
        # A 409 says that another roll-up was in the way and nothing was done. Done or not, a
        # roll-up does not change the sums.
        self.look(
            "POST",
            f"{path}/{self.given['space']}",
            name=f"{path}/SPACE",
            expected=HTTPStatus.OK,
            or_else=HTTPStatus.CONFLICT,
        )
