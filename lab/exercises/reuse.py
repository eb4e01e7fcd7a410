"""Write a correct `reuse`: `pytest lab/exercises/reuse.py` tests it.

`reuse` returns the owner's oldest live link to the target, and False. Without such a link it
returns the link that `create()` makes, and True. What `create()` raises, `reuse` raises. No unique
constraint can help, because other code may create several links to one target.

It also works in a caller's transaction, or refuses it as atomic(durable=True) does, and leaves the
session as it was: settings, locks, connection. Its caller gets every error of the database, or
another error with it as the cause. It gives up after a thousand attempts at the latest, and waits
for others in the database alone.

The function below looks for a link and then creates one. Which other process has looked, too?
"""

from collections.abc import Callable
from dataclasses import dataclass
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
            if len(calls) == 1 or self.fails == "SerializationFailure":
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


class TestReuse(judging.Exercise):
    name, reference = "reuse", staticmethod(advisory_lock.reuse)
    table, meant = "shorturl_shorturl", ShortUrl.DoesNotExist
    fails = st.sampled_from([*[""] * 9, *scenarios.FAILURES])
    owners = st.sampled_from([None, None, None, 1, 2])
    call = st.builds(Reuse, scenarios.INSIDE, scenarios.A_TARGET, owners, fails)
    ended = st.builds(
        scenarios.Edit, st.sampled_from("abcd"), st.just({"deleted_at": scenarios.LONG_AGO})
    )
    alone = st.builds(
        scenarios.Scenario,
        rows=st.tuples(*(st.none() | scenarios.link(key) for key in "abcd")),
        steps=st.lists(st.one_of(call, call, call, ended), min_size=1, max_size=5),
    )
    ordinary = scenarios.Scenario([], [Reuse()])
    hopeless = scenarios.Scenario([], [Reuse(fails="SerializationFailure")])
    rush = scenarios.Scenario([], [Reuse(owner_id=1)] * 3)
    turns = 100

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[scenarios.Scenario]:
        target = scenarios.A_TARGET
        owner = st.sampled_from([None, 1])
        ended = scenarios.Edit("a", {"deleted_at": scenarios.LONG_AGO})
        given = {**scenarios.PLAIN, "target_url": target, "owner_id": owner}
        rows = st.tuples(st.none() | scenarios.link("a", **given))

        def calls(own: int | None) -> st.SearchStrategy[Any]:
            owners = st.sampled_from([own, own, own, None, 2])
            call = st.builds(Reuse, scenarios.INSIDE_AT_ONCE, target, owners, TestReuse.fails)
            either = st.one_of(call, call, call, st.just(ended))
            steps = st.tuples(call, *[either] * (processes - 1))
            # A solution may have kept a row of an earlier call, whose link is deleted by now.
            deleted = scenarios.Edit("new9", {"deleted_at": scenarios.LONG_AGO})
            earlier = st.sampled_from([(), (Reuse(owner_id=own), deleted)])
            return st.builds(scenarios.Scenario, rows, steps, earlier)

        return owner.flatmap(calls)
