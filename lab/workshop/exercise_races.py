"""The races that judge exercises only: what they call is not a strategy, but the caller of one."""

from functools import partial
from typing import Any

from lab.catalogue import resolving_races
from lab.catalogue.race_definition import Process, Race
from lab.catalogue.resolving_races import hits_by_key
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy


def call_with_both(caller: Strategy[Any], process: int) -> Process:
    first, second = ("a", "b") if process % 2 else ("b", "a")
    return lambda: caller.function(first, second)


def everybody_has_both(outcomes: list[Outcome]) -> str:
    for process, outcome in enumerate(outcomes, 1):
        asked = ("a", "b") if process % 2 else ("b", "a")
        returned = outcome.returned
        listed = returned if isinstance(returned, tuple | list) else ()
        if tuple(getattr(short_url, "key", "") for short_url in listed) != asked:
            return f"process {process} asked for {asked}, and is returned {returned!r}"
    hits = hits_by_key()
    due = len(outcomes)
    return "" if set(hits.values()) == {due} else f"hits = {hits['a']} and {hits['b']}, not {due}"


def nothing_is_counted(outcomes: list[Outcome]) -> str:
    raised, hits = outcomes[0].raised, hits_by_key()["a"]
    if not isinstance(raised, ShortUrl.DoesNotExist):
        what = type(raised).__name__ if raised else "no error"
        return f"process 1 gets {what}, not ShortUrl.DoesNotExist"
    return f"hits = {hits}, not 0: half of the call has counted" if hits else ""


_race = partial(
    Race,
    operation="resolving",
    strategies={},
    signature="resolve_both(first: str, second: str) -> tuple[ShortUrl, ShortUrl]",
    setup=resolving_races.fresh_links,
    observe=resolving_races.both_rows,
)

RACES: dict[str, Race] = {
    race.name: race
    for race in (
        _race(
            name="crossed_calls",
            situation="Everybody resolves two keys in one call, handed over in opposite orders.",
            must_hold=(
                "Everybody gets both short URLs in the order asked for, and every hit is counted."
            ),
            processes=lambda caller, number: [
                call_with_both(caller, process) for process in range(1, number + 1)
            ],
            invariant=everybody_has_both,
        ),
        _race(
            name="half_a_call",
            situation="One call with two keys, the second of which does not exist.",
            must_hold="The call raises ShortUrl.DoesNotExist and counts nothing: both, or none.",
            counts=(1,),
            processes=lambda caller, number: [lambda: caller.function("a", "missing")],
            invariant=nothing_is_counted,
            expected=(ShortUrl.DoesNotExist,),
        ),
    )
}
