"""Write a correct `create`: `pytest lab/exercises/create.py` tests it.

`create` tries the candidate keys `keys`, any iterable that ends, in turn and returns the new short
URL. It raises ShortUrl.KeySpaceExhausted when all of them are taken. A deleted link keeps its key.
Several links may have one target.

Calls at once end as calls one after another do. It also works in a caller's transaction, or refuses
it as atomic(durable=True) does, and leaves the session as it was: settings, locks, connection. Its
caller gets every error of the database, except that a key is taken, or another error with it as the
cause, but not KeySpaceExhausted. It gives up after a thousand attempts for a key at the latest, and
waits for others in the database alone.

The function below checks a key and then inserts it. What can happen between the two?
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from lab.exercises import judging, scenarios
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict


def create(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl.objects.create(key=key, target_url=target_url)
    raise ShortUrl.KeySpaceExhausted(keys)


# The tests. Do not change anything below.


@dataclass(frozen=True)
class Create(scenarios.Call):
    name = "create"
    target: str = scenarios.TARGETS[0]
    keys: Sequence[str] = "n"  # of one letter each
    kind: Callable[[Iterable[str]], Iterable[str]] = list

    def ask(self, function: Callable[..., Any], number: int, *, at_once: bool) -> str:
        made = function(self.target, keys=self.kind("".join(key) for key in self.keys))
        if not isinstance(made, ShortUrl):
            return f"returns {made!r}"
        stored = ShortUrl.objects.filter(pk=made.pk, key=made.key).exists() if not at_once else True
        missing = "" if stored else ", which is not stored"
        return f"returns {made.key} to {made.target_url}{missing}"

    def turn(self, function: Callable[..., Any], number: int, turn: int) -> str:
        keys, target = (f"turn{turn}", f"turn{turn}of{number}"), f"{self.target}#{number}"
        told = Create(target=target, keys=keys)(function, number, at_once=True)
        stored = {*ShortUrl.objects.filter(target_url=target).values_list("key", flat=True)}
        for key in stored.intersection(keys):
            if told == f"returns {key} to {target}":
                return f"the {'shared' if key == keys[0] else 'own'} key of turn {turn}"
        return told if told.startswith("raises") else f"{told}, which is not stored"


class TestCreate(judging.Exercise):
    name, reference = "create", staticmethod(on_conflict.create)
    table, meant = "shorturl_shorturl", ShortUrl.KeySpaceExhausted
    alone = st.builds(
        scenarios.Scenario,
        rows=st.tuples(*(st.none() | scenarios.link(key) for key in "abcdAf"), scenarios.link("g")),
        steps=st.lists(
            st.builds(
                Create,
                inside=scenarios.INSIDE,
                target=scenarios.A_TARGET,
                keys=st.text("abcdefghijkgA", max_size=12)
                | st.sampled_from(["gabcdfAgabcdfAhi"] * 7 + ["g" * 105 + "h"]),
                kind=st.sampled_from([list, tuple, iter, dict.fromkeys]),
            ),
            min_size=1,
            max_size=4,
        ),
    )
    ordinary = scenarios.Scenario([scenarios.Row(ShortUrl, {"key": "a"})], [Create(keys="abcd")])
    rush = scenarios.Scenario([], [Create()] * 3)
    turns = 100

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[scenarios.Scenario]:
        # In one order, because two transactions that each want both of two keys may deadlock.
        some = st.text("abc", min_size=1, max_size=3).map(sorted).map("".join)
        call = st.builds(Create, scenarios.INSIDE_AT_ONCE, scenarios.A_TARGET, st.just("ab") | some)
        rows = st.tuples(st.none() | scenarios.link("b", scenarios.PLAIN))
        return st.builds(scenarios.Scenario, rows, st.tuples(*[call] * processes))
