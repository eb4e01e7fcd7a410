"""Write a correct `reuse`: `pytest lab/exercises/reuse.py` tests it.

`reuse` returns the owner's oldest live link to the target, and False. Without such a link it
returns the link that `create()` makes, and True. What `create()` raises, `reuse` raises. No unique
constraint can help, because other code may create several links to one target.

It also works in a caller's transaction, or refuses it with atomic(durable=True). It leaves the
caller's session as it was: settings, locks, connection. The caller gets every error of the
database, or another error with it as its cause. A call that tries again gives up after at most
a thousand attempts, and waits for others in the database alone.

The function below looks for a link and then creates one. Which other process has looked, too?
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from lab.exercises import judging as judge
from shorturl.models import ShortUrl
from shorturl.strategies.reusing import advisory_lock

Reused = tuple[ShortUrl, bool]


def reuse(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) -> Reused:
    found = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    oldest = found.order_by("id").first()
    return (oldest, False) if oldest else (create(), True)


# The tests. Do not change anything below.


@dataclass(frozen=True)
class Reuse(judge.Call):
    target: str = judge.TARGETS[0]
    owner_id: int | None = None
    fails: str = ""

    def ask(self, function: Callable[..., Any], number: int, *, at_once: bool) -> str:
        return self._ask(function, f"new{number}", at_once=at_once)

    def _ask(self, function: Callable[..., Any], key: str, *, at_once: bool) -> str:
        calls = []

        def create() -> ShortUrl:
            calls.append(key)
            judge.fail(self.fails)
            return ShortUrl.objects.create(
                key=key, target_url=self.target, owner_id=self.owner_id, title="made"
            )

        found = function("".join(self.target), owner_id=self.owner_id, create=create)
        match found:
            case (ShortUrl() as link, created):
                told = f"returns {link.key} to {link.target_url}, {bool(created)}"
                return told if at_once else f"{told}, after {len(calls)} calls of create"
        return f"returns {found!r}"

    def turn(self, function: Callable[..., Any], number: int, turn: int) -> str:
        key, target = f"turn{turn}of{number}", f"{self.target}{turn}"
        one = Reuse(target=target, owner_id=self.owner_id)
        told = judge.told(lambda: one._ask(function, key, at_once=True))
        links = [*ShortUrl.objects.filter(target_url=target).values_list("key", flat=True)]
        for created in (True, False):
            if told == f"returns {links[0] if links else None} to {target}, {created}":
                return f"turn {turn}, {created}"
        return told

    def __str__(self) -> str:
        what = f"create that raises {self.fails}" if self.fails else "create"
        owner = f"owner_id={self.owner_id}, create={what}"
        return f"reuse({self.target!r}, {owner}) {self.inside}".strip()


class TestReuse(judge.Exercise):
    name, reference = "reuse", staticmethod(advisory_lock.reuse)
    table, meant = "shorturl_shorturl", ShortUrl.DoesNotExist
    targets, owners = st.sampled_from(judge.TARGETS), st.sampled_from([None, None, 1, 2])
    fails = st.sampled_from([*[""] * 12, *judge.FAILURES])
    alone = st.builds(
        judge.Scenario,
        rows=st.tuples(*(st.none() | judge.link(key) for key in "abcd")),
        steps=st.lists(
            st.builds(Reuse, judge.INSIDE, targets, owners, fails)
            | st.builds(judge.Edit, st.sampled_from("abcd"), st.just({"deleted_at": judge.LONG_AGO})),
            min_size=1,
            max_size=5,
        ),
    )
    ordinary = judge.Scenario([], [Reuse()])
    rush = judge.Scenario([], [Reuse(owner_id=1)] * 3)
    turns = 150

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[judge.Scenario]:
        target = st.sampled_from([*[judge.TARGETS[0]] * 4, judge.TARGETS[1]])
        inside = st.sampled_from(["", judge.COMMITTED])
        owner = st.sampled_from([None, 1])
        ended = judge.Edit("a", {"deleted_at": judge.LONG_AGO})
        given = {**judge.PLAIN, "target_url": target, "owner_id": owner}
        rows = st.tuples(st.none() | judge.link("a", **given))

        def calls(own: int | None) -> st.SearchStrategy[Any]:
            owners = st.sampled_from([own, own, own, None, 2])
            call = st.builds(Reuse, inside, target, owners, TestReuse.fails)
            either = st.one_of(call, call, call, st.just(ended))
            return st.tuples(call, *[either] * (processes - 1))

        return st.builds(judge.Scenario, rows, owner.flatmap(calls))
