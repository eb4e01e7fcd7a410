"""What a function has to do before a race can judge it: the same in fewer processes, and its edges.

Each is a race itself, most with one process, so that it is explored, drawn and explained like one.
"""

from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError

from lab.catalogue import creating_races, resolving_races, reusing_races, spending_races
from lab.catalogue.museum import limited_use
from lab.catalogue.museum.limited_use import LimitedLink
from lab.catalogue.race_definition import Process, Race
from lab.workshop import reusing_requirements, spending_requirements
from lab.workshop.alone import alone, one_call
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy
from shorturl.validators import TARGET_URL_MAX_LENGTH

TOO_LONG = "https://long.example/" + "x" * TARGET_URL_MAX_LENGTH
MAX_USES = 3


def requirements(race: Race) -> list[Race]:
    """Return what a function has to do before it is judged by `race`, in this order."""
    required = [*REQUIRED.get(race.signature, ()), *OF_ONE_RACE.get(race.name, ())]
    return [each for each in required if each.name != race.name]


def follows_twice(strategy: Strategy[Any], number: int) -> list[Process]:
    return [lambda: [strategy.function("a") for _ in range(2)]]


def both_are_counted(outcomes: list[Outcome]) -> str:
    hits = resolving_races.hits_by_key()["a"]
    return "" if hits == 2 else f"hits = {hits}, not 2"


def says_that_there_is_none(outcomes: list[Outcome]) -> str:
    if outcomes[0].raised:  # the one that is expected
        return ""
    return f"process 1 is returned {outcomes[0].returned!r} for a key that leads nowhere"


def says_that_all_are_taken(outcomes: list[Outcome]) -> str:
    if outcomes[0].raised:
        return ""
    return f"process 1 is returned {outcomes[0].returned!r}, and all candidate keys are taken"


def every_key_taken(strategy: Strategy[Any]) -> None:
    creating_races.no_links(strategy)
    for key in ("same", "own1"):
        ShortUrl.objects.create(key=key, target_url=creating_races.target(9))


def is_told_of_the_error(outcomes: list[Outcome]) -> str:
    return "" if outcomes[0].raised else "the target is too long, and process 1 is not told"


def redeems_one_after_the_other(strategy: Strategy[Any], number: int) -> list[Process]:
    return [lambda: [bool(strategy.function("gift")) for _ in range(MAX_USES + 1)]]


def some_places(free: int) -> Any:
    def setup(strategy: Strategy[Any]) -> None:
        limited_use.one_free_place(strategy)
        LimitedLink.objects.update(max_uses=free)
        LimitedLink.objects.create(id=2, key="other", uses=0, max_uses=free)

    return setup


def as_many_as_there_are(outcomes: list[Outcome]) -> str:
    told, due = outcomes[0].returned, [True] * MAX_USES + [False]
    if told != due:
        return f"of {MAX_USES} uses and a call too many, process 1 is told {told}, not {due}"
    return no_other_link_is_used()


def both_may(outcomes: list[Outcome]) -> str:
    for process, outcome in enumerate(outcomes, 1):
        if not outcome.returned:
            return f"process {process} is told that the link is used up, and it is not"
    return no_other_link_is_used()


def no_other_link_is_used() -> str:
    used = LimitedLink.objects.get(key="other").uses
    return f"the uses of another link are {used}, and nobody has redeemed that" if used else ""


def used_up(strategy: Strategy[Any]) -> None:
    resolving_races.one_use_left(strategy)
    ShortUrl.objects.filter(key="a").update(hits=1)


_resolve = {each.name: each for each in resolving_races.RACES}["lost_update"]
_create = {each.name: each for each in creating_races.RACES}["toctou"]
_collision = {each.name: each for each in creating_races.RACES}["collision"]

# By how the function is called.
REQUIRED: dict[str, list[Race]] = {
    _resolve.signature: [
        alone(
            _resolve,
            "One process follows a link, alone.",
            "It is redirected, this hit is counted, and no other link's.",
        ),
        replace(
            alone(
                _resolve,
                "One process follows a link twice, one time after the other.",
                "Both hits are counted: what it remembers of the first must not spare the second.",
            ),
            processes=follows_twice,
            invariant=both_are_counted,
        ),
        replace(
            alone(
                _resolve,
                "One process follows a link that does not exist.",
                "It gets ShortUrl.DoesNotExist.",
            ),
            processes=one_call("missing"),
            invariant=says_that_there_is_none,
            expected=(ShortUrl.DoesNotExist,),
        ),
    ],
    _create.signature: [
        alone(
            _create,
            "One process creates a link, alone, and its first key is free.",
            "It is returned the link, which is in the database, and there is no other.",
        ),
        _collision,
        replace(
            alone(
                _create,
                "One process creates a link, and all its candidate keys are taken.",
                "It gets ShortUrl.KeySpaceExhausted.",
            ),
            setup=every_key_taken,
            invariant=says_that_all_are_taken,
            expected=(ShortUrl.KeySpaceExhausted,),
        ),
        replace(
            alone(
                _create,
                "One process creates a link with a target that is too long for its column.",
                "It gets that error. It is no collision: the next key would not help, and who "
                "catches more than IntegrityError hides it.",
            ),
            processes=one_call(TOO_LONG, keys=["same", "own1"]),
            invariant=is_told_of_the_error,
            expected=(DataError, ValidationError),
        ),
    ],
    reusing_races.RACES[0].signature: reusing_requirements.REQUIRED,
    spending_races.RACES[0].signature: spending_requirements.REQUIRED,
    limited_use.EXHIBIT.signature: [
        replace(
            alone(
                limited_use.EXHIBIT,
                f"One process redeems a link that may be used {MAX_USES} times, and once more.",
                f"It may {MAX_USES} times, and not once more.",
            ),
            setup=some_places(MAX_USES),
            processes=redeems_one_after_the_other,
            invariant=as_many_as_there_are,
        ),
        replace(
            limited_use.EXHIBIT,
            name="limited_use_for_two",
            situation="Two processes redeem a link that may be used twice.",
            must_hold="Both may: whoever comes while the other is busy is not turned away.",
            setup=some_places(2),
            invariant=both_may,
        ),
    ],
}

_used_up = alone(
    _resolve,
    "One process follows a link that is used up.",
    "It gets ShortUrl.DoesNotExist, and nothing is counted.",
    setup=used_up,
    processes=one_call("a"),
    invariant=says_that_there_is_none,
    expected=(ShortUrl.DoesNotExist,),
)
# By the name of the race, where it has a condition that others of its signature do not have.
OF_ONE_RACE: dict[str, list[Race]] = {"last_use": [_used_up], "limit_raised": [_used_up]}
