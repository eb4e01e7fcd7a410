"""A visit meanwhile: many users follow links, while others roll their visits up into days.

What it teaches: whoever adds up the rows of an hour, and deletes them then, deletes what a visit
has added to them between the two; and of two who do it at once each adds what one of them deletes.
What is added has to be what the DELETE returns, row by row. Two of the users roll up, as where a
timer starts a second one before the first has ended; the others follow a few links, so that what
one of these has too many does not hide what another one has lost.

How to run it, with the service up (`make run`):

    locust -f loadtests/visit_meanwhile.py --headless --strategy watermark
    locust -f loadtests/visit_meanwhile.py --headless --strategy batches
    locust -f loadtests/visit_meanwhile.py                  # http://127.0.0.1:8089, tab "Ledger"

A roll-up takes the rows of all links, so the key space has a table of visits of its own. The
visits are recorded by `upsert`, and at the end every link has to have as many of them as hits. The
exit code is 0 when the strategy behaved as its table says, 1 when not, 2 when the run was
inconclusive.
"""

import random
from http import HTTPStatus
from typing import Any

from locust import task

from loadtests.harness.hooks import Hooks, add_options
from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

LINKS, TIMERS = 5, 2


def prepare(lab: Lab, space: str, options: Any) -> dict[str, Any]:
    """Make the links."""
    if options.num_users <= TIMERS:
        raise LabError(f"{options.num_users} users only roll up: use --users {TIMERS + 1} or more")
    target_url = f"https://{space}.invalid/popular"
    keys = [lab.create(space, "on_conflict", target_url) for _ in range(LINKS)]
    return {"keys": keys, "seeds": keys}


add_options("rolling_up", default="watermark")
load = LoadRun(
    "visit_meanwhile",
    "rolling_up",
    prepare=prepare,
    key_length=3,
    own_visits=True,
    faults=True,  # two roll-ups wait for each other, and visits behind them, until one is ended
)
Hooks(load)


class Visitor(LedgerUser):
    """Follows the links, again and again."""

    load = load

    @task
    def visit(self) -> None:
        """Follow one of the links."""
        key = random.choice(self.given["keys"])  # noqa: S311
        self.follow(f"/lab/record/upsert/{key}", key, name="/lab/record/upsert/KEY")


class Timer(LedgerUser):
    """Rolls up, again and again."""

    load = load
    fixed_count = TIMERS  # in all, however many processes there are

    @task
    def roll_up(self) -> None:
        """Roll up all visits that there are by now."""
        path = f"/lab/roll_up/{self.strategy}"
        # One that the other one was in the way of has done nothing: the next one will.
        response = self.ask(
            "POST",
            f"{path}/{self.given['space']}",
            name=f"{path}/SPACE",
            expected=HTTPStatus.OK,
            or_else=HTTPStatus.CONFLICT,
            unknown=lambda: None,  # whatever was done, the sums are the same
        )
        if response is not None:
            self.load.ledger.other += 1
