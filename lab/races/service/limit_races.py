"""The races of the service's quotas, of reuse, and of repeated requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

from django.contrib.auth import get_user_model

from lab.races.creating_races import links, no_links
from lab.races.idempotency_races import (
    TARGET,
    links_and_answers,
    no_links_and_no_answers,
    send,
    send_and_be_killed_first,
    worked_once,
)
from lab.races.race_definition import Process, Race, each, worst_case
from lab.races.service.functions import row
from lab.races.spending_races import EPISODE, PERIOD, SPENDER, nothing_spent
from pginterleave import Outcome
from shorturl import operations
from shorturl.exceptions import TooManyCreates
from shorturl.limits import quotas
from shorturl.links import keys
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.table import Strategy, table

OWNER = 1
LONGER = quotas.Quota("day", "links in a period", 2, PERIOD)
SHORTER = quotas.Quota("minute", "creates in an episode", 1, EPISODE)
REFUSED, TAKEN = (ShortUrl.QuotaExceeded, TooManyCreates), "taken"
CHARGES = [(each.period, each.limit, 1) for each in (LONGER, SHORTER)]

SPENDING = table(
    row(quotas.reserve, "one statement for all quotas, in the transaction of the create"),
    row(quotas.spend, "the same, with the quotas of the settings"),
)
REUSING = table(
    row(operations.reuse, "an advisory lock on owner and target"),
    row(
        quotas.reuse,
        "the same within the quota; a link that exists costs nothing",
        name="reuse_within_quota",
    ),
)
ANSWERING = table(row(operations.answer, "an advisory lock on caller and key"))
STRATEGIES = SPENDING | REUSING | ANSWERING


@contextmanager
def limited_by(*found: quotas.Quota) -> Iterator[None]:
    """Within the block, there are these quotas, and every random key is the same.

    Their periods are so long that none ends meanwhile.
    """
    with (
        worst_case(),
        patch.object(quotas, "DAY", PERIOD),
        patch.object(quotas, "quotas_of", lambda spender: list(found)),
        patch.object(keys, "draw", lambda length: "drawn"),
    ):
        yield


def spend(strategy: Strategy, create: Callable[[], ShortUrl]) -> ShortUrl:
    charges = [CHARGES] if strategy.function is quotas.reserve else []
    short_url: ShortUrl = strategy.function(SPENDER, create, *charges)
    return short_url


def create(strategy: Strategy, process: int) -> ShortUrl:
    return spend(strategy, partial(operations.create, TARGET, key=f"own{process}"))


def the_first_fails(strategy: Strategy, number: int) -> list[Process]:
    """Return processes of which the first asks for a key that is taken, and then for another."""

    def run() -> Process:
        with suppress(ShortUrl.KeyTaken, *REFUSED):
            spend(strategy, partial(operations.create, TARGET, key=TAKEN))
            raise AssertionError("a link is created with a key that is taken")
        return partial(create, strategy, 1)

    return [run, *each(create)(strategy, number)[1:]]


def nothing_spent_and_no_links(strategy: Strategy) -> None:
    nothing_spent(strategy)
    no_links(strategy)


def one_key_taken(strategy: Strategy) -> None:
    nothing_spent_and_no_links(strategy)
    operations.create("https://9.example/", key=TAKEN)


def spent() -> list[int]:
    return list(QuotaUsage.objects.order_by("period").values_list("spent", flat=True))


def one_is_charged_once(outcomes: list[Outcome]) -> str:
    made = sum(outcome.returned is not None for outcome in outcomes)
    if made != 1 or ShortUrl.objects.filter(target_url=TARGET).count() != 1:
        return f"{made} are told of a link, and there are: {links()}"
    return "" if spent() == [1, 1] else f"spent = {spent()}, not [1, 1]"


def an_owner(strategy: Strategy) -> None:
    nothing_spent_and_no_links(strategy)
    get_user_model().objects.get_or_create(pk=OWNER, defaults={"username": SPENDER})


def reuse(strategy: Strategy) -> tuple[ShortUrl, bool]:
    spender = [SPENDER] if strategy.function is quotas.reuse else []
    found: tuple[ShortUrl, bool] = strategy.function(*spender, TARGET, owner_id=OWNER)
    return found


def both_have_the_same_link(outcomes: list[Outcome]) -> str:
    told = sorted((one.returned[0].key, one.returned[1]) for one in outcomes)
    keys = list(ShortUrl.objects.values_list("key", flat=True))
    if keys * len(outcomes) != [key for key, _ in told]:
        return f"they are told {told}, and there are {keys}"
    new = sum(is_new for _, is_new in told)
    if new != 1:
        return f"{new} are told that the link is new"
    return "" if spent() in ([], [1]) else f"spent = {spent()}, not [1]"


def make_and_spend(process: int) -> dict[str, Any]:
    made = quotas.spend(SPENDER, partial(operations.create, TARGET, key=f"own{process}"))
    return {"status": 201, "body": made.key}


def nothing_answered(strategy: Strategy) -> None:
    nothing_spent(strategy)
    no_links_and_no_answers(strategy)


def worked_and_charged_once(outcomes: list[Outcome]) -> str:
    return worked_once(outcomes) or ("" if spent() == [1] else f"spent = {spent()}, not [1]")


def links_and_usage() -> str:
    return f"{links()}; spent {spent()}"


_race = partial(Race, operation="service_limits", observe=links_and_usage)
_spend = partial(
    _race,
    strategies=SPENDING,
    signature=(
        "reserve(spender: str, create: Callable[[], T], charges: Sequence[Charge]) -> T, "
        "spend(spender: str, create: Callable[[], T]) -> T"
    ),
    around=partial(limited_by, LONGER, SHORTER),
    invariant=one_is_charged_once,
    expected=REFUSED,
)
_answer = partial(
    _race,
    strategies=ANSWERING,
    signature=(
        "answer(caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]) "
        "-> IdempotencyRecord"
    ),
    must_hold="One link is created and charged once. All get it, or are told to wait for it.",
    setup=nothing_answered,
    around=partial(limited_by, LONGER),
    invariant=worked_and_charged_once,
    observe=links_and_answers,
)

RACES = (
    _spend(
        name="quotas_of_one_spender",
        situation="Every process creates a link, with a quota of two and one of one.",
        must_hold="One process gets a link and spends one of each quota; a refused one none.",
        story=(
            "A program may create some links a day and fewer in a minute. Two creates arrive at "
            "the same moment, and the quota of the minute has one left. One statement spends both "
            "quotas, and the transaction of the create takes both back if one is used up."
        ),
        setup=nothing_spent_and_no_links,
        processes=each(create),
    ),
    _spend(
        name="quotas_given_back",
        situation="As before; the first process asks for a key that is taken, then for another.",
        must_hold="One process gets a link: a create that fails gives back what it has spent.",
        story=(
            "Somebody asks for a custom key that is taken, and then for another one. What the "
            "first create has spent is rolled back with it, for the second one or for a create in "
            "between."
        ),
        setup=one_key_taken,
        processes=the_first_fails,
    ),
    _race(
        name="reuse_within_a_quota",
        situation="Every process asks for a link to the same target, which has none yet.",
        must_hold="All get the same link, one is told that it is new, and it is charged once.",
        story=(
            "Two jobs of one account shorten the same URL. Neither finds a link, and both spend "
            "one of the quota. The second one finds the first one's link then, and gives its "
            "charge back."
        ),
        strategies=REUSING,
        signature=(
            "operations.reuse(target_url: str, *, owner_id: int) -> tuple[ShortUrl, bool], "
            "quotas.reuse(spender: str, target_url: str, *, owner_id: int) -> same"
        ),
        setup=an_owner,
        processes=lambda strategy, number: [partial(reuse, strategy)] * number,
        around=partial(limited_by, LONGER),
        invariant=both_have_the_same_link,
    ),
    _answer(
        name="request_sent_twice",
        situation="Every process sends the same create with the same Idempotency-Key.",
        story=(
            "A program gets no answer for a while, and sends its request again, with the same "
            "key. Link, charge and answer are committed together, by whoever holds the key's lock."
        ),
        processes=each(partial(send, make=make_and_spend)),
    ),
    _answer(
        name="request_killed_before_the_answer",
        situation="The first process is killed after the create; the others send the same request.",
        story=(
            "The process that has created the link is killed before it has stored the answer. The "
            "link and its charge are rolled back, and the request is sent again."
        ),
        processes=each(partial(send_and_be_killed_first, make=make_and_spend)),
    ),
)
