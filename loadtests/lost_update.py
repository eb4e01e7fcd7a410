"""Lost update: many users follow one hot key, and the counter misses some hits.

What it teaches: between the SELECT that reads the counter and the UPDATE that writes it, other
sessions read the same number. Every redirect is acknowledged, and the counter ends up too low. One
user edits the target meanwhile. A strategy that writes every column back undoes the edit, even if
it counts right.

How to run it, with the service up (`make run`):

    locust -f loadtests/lost_update.py --headless --strategy naive
    locust -f loadtests/lost_update.py --headless --strategy service       # /KEY itself
    locust -f loadtests/lost_update.py --headless --strategy update_returning -u 64 -t 30s
    locust -f loadtests/lost_update.py                      # http://127.0.0.1:8089, tab "Ledger"
    locust -f loadtests/lost_update.py --headless --processes 2
    locust -f loadtests/lost_update.py --master --expect-workers 1   # and in another terminal
    locust -f loadtests/lost_update.py --worker
"""

from typing import Any

from locust import task

from loadtests.harness.hooks import EDIT, Hooks
from loadtests.harness.load_run import LoadRun
from loadtests.harness.users import LedgerUser

LOOKS = 4  # times that the editor checks an edit before the next one

Hooks(LoadRun("resolving", seeds=1))


class Follower(LedgerUser):
    """Follows the hot key without pause."""

    @task
    def resolve(self) -> None:
        self.follow_hot()

    def follow_hot(self) -> Any:
        (hot,) = self.given["seeds"]
        path = self.path("resolve")
        return self.follow(f"{path}/{hot}", hot, name=f"{path}/KEY")


class Editor(Follower):
    """Edits the target of the hot key, and checks whether the edit stays."""

    fixed_count = 1  # in all processes together: only one user may edit the key
    edits = 0

    @task
    def resolve(self) -> None:
        (hot,) = self.given["seeds"]
        self.edits += 1
        target_url = f"{self.given['targets']}edit/{self.edits}"
        response = self.ask(
            "POST",
            f"/lab/edit/{hot}",
            name=EDIT,
            expected=200,
            unknown=lambda: self.load.ledger.unknown_edits.append(target_url),
            json={"target_url": target_url},
        )
        if response is None:
            return
        self.load.ledger.edit(hot, target_url)
        for _ in range(LOOKS):
            redirect = self.follow_hot()
            if redirect is not None and redirect.headers["Location"] != target_url:
                self.load.ledger.undid(hot, target_url, redirect.headers["Location"])
                return
