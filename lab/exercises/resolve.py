"""Write a correct `resolve`: `pytest lab/exercises/resolve.py` tests it.

`resolve` counts one hit and returns the short URL; nobody reads its `hits`. It raises
ShortUrl.DoesNotExist for a key that leads nowhere: one that is unknown, deleted, expired or used
up. live() leaves all of these out.

Calls at once end as calls one after another do. It also works in a caller's transaction, or refuses
it as atomic(durable=True) does, and leaves the session as it was: settings, locks, connection. Its
caller gets every error of the database, or another error with it as the cause, but not
DoesNotExist. It gives up after a thousand attempts at the latest, and waits for others in the
database alone.

The function below reads, adds one, and writes. Which of its statements can use an old value? Which
columns does it write? Which statement should check how many uses are left?
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from lab.exercises import judging, scenarios
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import update_returning


def resolve(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits += 1
    short_url.save()
    return short_url


# The tests. Do not change anything below.


@dataclass(frozen=True)
class Resolve(scenarios.Call):
    name = "resolve"
    key: str = "a"

    def ask(self, function: scenarios.Function, number: int, *, at_once: bool) -> str:
        found = function("".join(self.key))  # a text of its own, with an id() of its own
        if not isinstance(found, ShortUrl):
            return f"returns {found!r}"
        rest = (found.target_url, found.owner_id, found.max_hits, found.deleted_at)
        return f"returns {found.key}" if at_once else f"returns {found.key} {rest}"


def edit(key: str) -> st.SearchStrategy[scenarios.Edit]:
    changes: list[dict[str, Any]] = [
        {"target_url": "https://new.example/", "title": "new", "owner_id": 2}, {"max_hits": 3},
        {"deleted_at": scenarios.LONG_AGO}, {"expires_at": scenarios.LONG_AGO},
    ]  # fmt: skip
    return st.sampled_from(changes).map(lambda change: scenarios.Edit(key, change))


class TestResolve(judging.Exercise):
    name, reference = "resolve", staticmethod(update_returning.resolve)
    table, meant = "shorturl_shorturl", ShortUrl.DoesNotExist
    keys = st.sampled_from(["a", "a", "a", "a", "b", "A", "a%", ""])
    call = st.builds(Resolve, inside=scenarios.INSIDE, key=keys)
    alone = st.builds(
        scenarios.Scenario,
        rows=st.tuples(scenarios.link("a"), *(st.none() | scenarios.link(key) for key in "bA")),
        steps=st.lists(call | st.sampled_from("ab").flatmap(edit), min_size=1, max_size=5),
    )
    ordinary = scenarios.Scenario([scenarios.Row(ShortUrl, {"key": "a", "hits": 5})], [Resolve()])
    may_fail_to_serialize = True
    meddling = "UPDATE shorturl_shorturl SET hits = hits + 1"
    turns = 200

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[scenarios.Scenario]:
        calls = st.builds(Resolve, scenarios.INSIDE_AT_ONCE, scenarios.mostly("a", "b"))
        one = scenarios.link("a", scenarios.PLAIN, scenarios.LIVE_STATES)
        return st.builds(
            scenarios.Scenario,
            rows=st.tuples(one, st.just(scenarios.Row(ShortUrl, {"key": "b"}))),
            steps=st.tuples(calls, *[calls | edit("a")] * (processes - 1)),
        )

    rush = scenarios.Scenario(
        [scenarios.Row(ShortUrl, {"key": "a", "max_hits": 3 * turns - 10})], [Resolve()] * 3
    )
