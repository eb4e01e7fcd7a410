"""What a reuse has to do before a race can judge it."""

from typing import Any

from django.contrib.auth.models import User

from lab.catalogue import reusing_races
from lab.catalogue.creating_races import target
from lab.catalogue.race_definition import Process
from lab.catalogue.reusing_races import TARGET, ask, no_links_and_no_claims
from lab.workshop.alone import alone
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy


def asks_twice(strategy: Strategy[Any], number: int) -> list[Process]:
    return [lambda: [ask(strategy, process) for process in (1, 2)]]


def the_same_twice(outcomes: list[Outcome]) -> str:
    first, second = outcomes[0].returned
    if second != (first[0], False):
        return f"process 1 is returned {second!r} at the second time, not {(first[0], False)!r}"
    return ""


def links_of_others(strategy: Strategy[Any]) -> None:
    no_links_and_no_claims(strategy)
    somebody, _ = User.objects.get_or_create(username="somebody")
    ShortUrl.objects.create(key="theirs", target_url=TARGET, owner=somebody)
    ShortUrl.objects.create(key="elsewhere", target_url=target(1))


def none_of_the_others(outcomes: list[Outcome]) -> str:
    link, created = outcomes[0].returned
    if (link.key, created) == ("own1", True):
        return ""
    return f"process 1 is returned {outcomes[0].returned!r}, and no such link is its owner's"


def two_links(strategy: Strategy[Any]) -> None:
    no_links_and_no_claims(strategy)
    for key in ("oldest", "younger"):
        ShortUrl.objects.create(key=key, target_url=TARGET)


def the_oldest(outcomes: list[Outcome]) -> str:
    link, created = outcomes[0].returned
    if (link.key, created) == ("oldest", False):
        return ""
    return f"process 1 is returned {outcomes[0].returned!r}, not the oldest, which is not new"


_race = reusing_races.RACES[0]
REQUIRED = [
    alone(
        _race,
        "One process asks for a link to a target, and there is none.",
        "It gets what `create` makes, and True.",
    ),
    alone(
        _race,
        "One process asks for a link to a target twice, one time after the other.",
        "It gets the same link, and False at the second time.",
        processes=asks_twice,
        invariant=the_same_twice,
    ),
    alone(
        _race,
        "One process asks for a link, and there are one to another target and another account's.",
        "It gets what `create` makes, and True.",
        setup=links_of_others,
        invariant=none_of_the_others,
    ),
    alone(
        _race,
        "One process asks for a link to a target that has two.",
        "It gets the oldest, and False.",
        setup=two_links,
        invariant=the_oldest,
    ),
]
