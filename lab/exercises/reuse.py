"""Write a correct `reuse`: `pytest lab/exercises/reuse.py` tests it.

`reuse` returns the owner's oldest live link to the target, and False. Without such a link it
returns the link that `create()` makes, and True. What `create()` raises, `reuse` raises. No unique
constraint can help, because other code may create several links to one target.

Calls at once end as calls one after another do. It also works in a caller's transaction, or refuses
it as atomic(durable=True) does, and leaves the session as it was: settings, locks, connection. Its
caller gets every error of the database, or another error with it as the cause. It gives up
after a thousand attempts at the latest, and waits for others in the database alone.

The function below looks for a link and then creates one. Which other process has looked, too?
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from lab.exercises import judging, scenarios
from shorturl.models import ShortUrl
from shorturl.strategies.reusing import advisory_lock

Reused = tuple[ShortUrl, bool]


def reuse(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) -> Reused:
    found = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    oldest = found.order_by("id").first()
    return (oldest, False) if oldest else (create(), True)


# The tests. Do not change anything below.


@dataclass(frozen=True)
class Reuse(scenarios.Call):
    name = "reuse"
    target: str = scenarios.TARGETS[0]
    owner_id: int | None = None
    fails: str = ""

    def ask(self, function: Callable[..., Any], number: object, *, at_once: bool) -> str:
        calls = []

        def create() -> ShortUrl:
            calls.append(number)
            if len(calls) == 1:
                scenarios.fail(self.fails)
            own = {"target_url": self.target, "owner_id": self.owner_id, "title": "made"}
            return ShortUrl.objects.create(key=f"new{number}", **own)

        found = function("".join(self.target), owner_id=self.owner_id, create=create)
        match found:
            case (ShortUrl() as link, created):
                told = f"returns {link.key} to {link.target_url}, {bool(created)}"
                return told if at_once else f"{told}, after {len(calls)} calls of create"
        return f"returns {found!r}"

    def turn(self, function: Callable[..., Any], number: int, turn: int) -> str:
        target, own = f"{self.target}{turn}", f"{turn}of{number}"
        asked = Reuse(target=target, owner_id=self.owner_id)
        said = scenarios.told(lambda: asked.ask(function, own, at_once=True))
        for key in ShortUrl.objects.filter(target_url=target).values_list("key", flat=True):
            said = said.replace(key, "the link")  # that there is one is compared, too
        return said


def older(key: str, at: int) -> st.SearchStrategy[scenarios.Row]:
    """Make rows of a link that is older than the rows before it."""
    age = {"id": st.just(-at), "created_at": st.just(scenarios.LONG_AGO - timedelta(days=at))}
    return scenarios.link(key, scenarios.ANY | age)


class TestReuse(judging.Exercise):
    name, reference = "reuse", staticmethod(advisory_lock.reuse)
    table, meant = "shorturl_shorturl", ShortUrl.DoesNotExist
    owners = st.sampled_from([None, None, None, 1, 2])
    call = st.builds(Reuse, scenarios.INSIDE, scenarios.A_TARGET, owners, scenarios.FAILS)
    deleted = {"deleted_at": scenarios.LONG_AGO}
    ended = st.builds(scenarios.Edit, st.sampled_from("abcd"), st.just(deleted))
    alone = st.builds(
        scenarios.Scenario,
        rows=st.tuples(*(st.none() | older(key, at) for at, key in enumerate("cadb"))),
        steps=st.lists(call | ended, min_size=1, max_size=5),
    )
    ordinary = scenarios.Scenario([], [Reuse()])
    # Whoever has read that there is no link, and creates one, cannot be serialized.
    meddling = f"""
        INSERT INTO shorturl_shorturl (key, target_url, expires_at)
        SELECT 'other' || count(*), '{scenarios.TARGETS[0]}', '2022-04-29'::timestamptz
        FROM shorturl_shorturl
    """  # noqa: S608
    rush = scenarios.Scenario([], [Reuse(owner_id=1)] * 3)
    turns = 100

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[scenarios.Scenario]:
        ended, ended_9 = (scenarios.Edit(key, TestReuse.deleted) for key in ("a", "new9"))

        def meet(own: int | None) -> st.SearchStrategy[scenarios.Scenario]:
            """Make calls that mostly have one target and one owner."""
            whose = scenarios.mostly(*scenarios.TARGETS[:2]), scenarios.mostly(own, None, 2)
            call = st.builds(Reuse, scenarios.INSIDE_AT_ONCE, *whose, scenarios.FAILS)
            given = scenarios.PLAIN | {"owner_id": st.just(own)}
            row = st.none() | scenarios.link("a", given)
            other = scenarios.mostly(call, st.just(ended)).flatmap(lambda chosen: chosen)
            steps = st.tuples(call, *[other] * (processes - 1))
            return st.builds(scenarios.Scenario, st.tuples(row), steps)

        # A solution may have kept a row of an earlier call, whose link is deleted by now.
        again = scenarios.Scenario(
            [], [Reuse(owner_id=1)] * processes, [Reuse(owner_id=1), ended_9]
        )
        return st.just(again) | st.sampled_from([None, 1]).flatmap(meet)
