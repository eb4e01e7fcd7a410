"""What a spend has to do before a race can judge it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lab.catalogue import spending_races
from lab.catalogue.creating_races import no_links, target
from lab.catalogue.race_definition import Process
from lab.catalogue.spending_races import LIMIT, PERIOD, SPENDER, nothing_spent
from lab.workshop.alone import alone
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy

# What a call asks for: who spends, and how much; and whether it gets a link.
Call = tuple[str, int, bool]
AND_ONCE_MORE: list[Call] = [*[(SPENDER, 1, True)] * LIMIT, (SPENDER, 1, False)]
TWO_SPENDERS: list[Call] = [*[("other", 1, True)] * LIMIT, (SPENDER, 1, True)]
TWO_AT_ONCE: list[Call] = [(SPENDER, 1, True), (SPENDER, 2, False), (SPENDER, 1, True)]


def no_links_and_nothing_spent(strategy: Strategy[Any]) -> None:
    no_links(strategy)
    nothing_spent(strategy)


def one_after_the_other(calls: list[Call]) -> Callable[[Strategy[Any], int], list[Process]]:
    """Return a process that makes the calls, and returns of each whether it got a link."""

    def run(strategy: Strategy[Any]) -> list[object]:
        told: list[object] = []
        for number, (spender, amount, _) in enumerate(calls):
            create = partial(ShortUrl.objects.create, key=f"own{number}", target_url=target(number))
            try:
                options = {"limit": LIMIT, "period": PERIOD, "amount": amount}
                made = strategy.function(spender, create, **options)
                told.append(made.key == f"own{number}" if isinstance(made, ShortUrl) else made)
            except ShortUrl.QuotaExceeded:
                told.append(False)
        return told

    return lambda strategy, number: [partial(run, strategy)]


def as_told(calls: list[Call]) -> Callable[[list[Outcome]], str]:
    """Return what compares what the calls were told, and the links that are there, with `calls`."""

    def compare(outcomes: list[Outcome]) -> str:
        due = [gets for _, _, gets in calls]
        if outcomes[0].returned != due:
            return f"process 1 gets a link or not: {outcomes[0].returned}, not {due}"
        made = ShortUrl.objects.count()
        return f"{made} links are made, not {sum(due)}" if made != sum(due) else ""

    return compare


_race = {each.name: each for each in spending_races.RACES}["last_link"]
REQUIRED = [
    alone(
        _race,
        situation,
        must_hold,
        setup=no_links_and_nothing_spent,
        processes=one_after_the_other(calls),
        invariant=as_told(calls),
        expected=(),  # the process catches it
    )
    for situation, must_hold, calls in (
        (
            f"One process creates {LIMIT} links, which is its quota, and one more.",
            f"It gets {LIMIT}, each of which is returned, and then ShortUrl.QuotaExceeded.",
            AND_ONCE_MORE,
        ),
        (
            "One process creates a link, and another spender has used up a quota.",
            "It gets the link: each spender has a quota.",
            TWO_SPENDERS,
        ),
        (
            f"One process creates one link of {LIMIT}, then something that costs two, then one.",
            "It gets the first and the third: two are more than there are left.",
            TWO_AT_ONCE,
        ),
    )
]
