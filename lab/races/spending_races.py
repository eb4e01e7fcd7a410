"""The races of spending: several processes create links, and the quota has one left."""

from datetime import UTC, datetime, timedelta
from functools import partial

from lab.races.creating_races import next_id
from lab.races.race_definition import Process, Processes, Race
from pginterleave import Outcome
from shorturl.exceptions import KeyTaken, QuotaExceeded
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.exhibits.models import SingleCreate
from shorturl.strategies.table import STRATEGIES, Strategy, Verdict

SPENDER, LIMIT = "somebody", 2
# So long that none ends during an exploration: they begin in 1970, 1997, 2024 and 2052.
PERIOD, EPISODE = timedelta(days=10_000), timedelta(days=5_000)
# The shorter one begins in 2024 as well, and in 2038.
IN_THE_PERIOD_BEFORE = datetime(1997, 5, 19, tzinfo=UTC)
TAKEN = "taken"


def nothing_spent(strategy: Strategy) -> None:
    for model in (QuotaUsage, SingleCreate):
        model._base_manager.all().delete()
        next_id(1, model)


def one_left(strategy: Strategy) -> None:
    nothing_spent(strategy)
    spend(strategy)


def used_up_in_the_period_before(strategy: Strategy) -> None:
    nothing_spent(strategy)
    before = {"spender": SPENDER, "since": IN_THE_PERIOD_BEFORE}
    QuotaUsage.objects.create(**before, period=PERIOD, spent=LIMIT)
    SingleCreate.objects.bulk_create([SingleCreate(**before)] * LIMIT)


def spend(strategy: Strategy, key: str = "free", limit: int = LIMIT) -> ShortUrl:
    """Create a link with this key, charged by `strategy`; raise QuotaExceeded or KeyTaken.

    The link is not stored, because the race is for the quota only.
    """

    def create() -> ShortUrl:
        if key == TAKEN:
            raise KeyTaken(key)
        return ShortUrl(key=key)

    short_url: ShortUrl = strategy.function(SPENDER, create, limit=limit, period=PERIOD)
    return short_url


def spend_two_quotas(strategy: Strategy) -> ShortUrl:
    """Create a link that costs one of each quota; all processes take the longer period first."""
    of_the_episode = partial(
        strategy.function, SPENDER, lambda: ShortUrl(key="free"), limit=1, period=EPISODE
    )
    short_url: ShortUrl = strategy.function(SPENDER, of_the_episode, limit=LIMIT, period=PERIOD)
    return short_url


def spend_each_once(limit: int = LIMIT) -> Processes:
    return lambda strategy, number: [partial(spend, strategy, limit=limit)] * number


def the_first_fails(strategy: Strategy, number: int) -> list[Process]:
    """Return processes of which the first asks for a key that is taken.

    It returns its second try, which asks for another key.
    """

    def run() -> Process:
        try:
            spend(strategy, TAKEN)
        except KeyTaken:
            return partial(spend, strategy)
        raise AssertionError(f"a link is created with the key {TAKEN}, which is taken")

    return [run, *spend_each_once()(strategy, number)[1:]]


def one_gets_a_link(outcomes: list[Outcome]) -> str:
    made = sum(outcome.returned is not None for outcome in outcomes)
    return "" if made == 1 else f"{made} links are created, and the quota had one left"


def one_gets_a_link_and_is_charged_once(outcomes: list[Outcome]) -> str:
    used = list(QuotaUsage.objects.order_by("period").values_list("spent", flat=True))
    return one_gets_a_link(outcomes) or ("" if used == [1, 1] else f"spent = {used}, not [1, 1]")


def spent() -> str:
    counted = QuotaUsage.objects.filter(since__gt=IN_THE_PERIOD_BEFORE)
    single = SingleCreate.objects.filter(since__gt=IN_THE_PERIOD_BEFORE)
    return f"spent = {sum(counted.values_list('spent', flat=True)) + single.count()}"


_race = partial(
    Race,
    operation="spending",
    strategies=STRATEGIES["spending"],
    signature=(
        "spend(spender: str, create: Callable[[], T], *, limit: int, period: timedelta,"
        " amount: int = 1) -> T"
    ),
    setup=one_left,
    processes=spend_each_once(),
    invariant=one_gets_a_link,
    observe=spent,
    expected=(QuotaExceeded,),
)

RACES = (
    _race(
        name="last_link",
        situation="Every process creates a link with the same token, whose quota has one left.",
        must_hold="One process gets a link, and the others are told that the quota is used up.",
        story=(
            "A program sends two creates at the same moment, with a token that may create one more "
            "link today. Each process counts today's links, finds that one is left, and creates a "
            "link. A correct counter does not help if it is only read before the create."
        ),
        counts=(2, 3),
    ),
    _race(
        name="new_period",
        situation="As last_link, but a day has just begun, nothing is spent, and the quota is one.",
        must_hold="One process gets a link, and the others are told that the quota is used up.",
        story=(
            "Midnight has passed, the quota is whole again, and the new day has no counter yet. No "
            "row lock can be taken on a row that does not exist. Every process has to insert the "
            "row first."
        ),
        counts=(2, 3),
        # f_expression has 870 schedules here, and shows nothing that last_link does not show.
        strategies={n: s for n, s in STRATEGIES["spending"].items() if n != "f_expression"},
        setup=used_up_in_the_period_before,
        processes=spend_each_once(limit=1),
    ),
    _race(
        name="given_back",
        situation=(
            "One link is left; the first process asks for a key that is taken, then for another."
        ),
        must_hold="One process gets a link: a create that fails gives back what it has spent.",
        story=(
            "Somebody asks for a custom key that is taken, and then for another one, while the "
            "quota has one link left. The first create fails. What it has spent must be available "
            "to the second, or to a create in between."
        ),
        counts=(2, 3),
        processes=the_first_fails,
    ),
    _race(
        name="two_quotas",
        situation=(
            "Every process creates a link; nothing is spent of a quota of two and one of one."
        ),
        must_hold="One process gets a link and spends one of each quota; a refused one none.",
        story=(
            "A program may create two links today, and one in this minute. Two processes create at "
            "the same moment. The daily quota has one for each of them, and the quota of the "
            "minute does not. What the refused process has taken of the daily quota must be given "
            "back. All processes must take the two in the same order, or two of them wait for each "
            "other."
        ),
        counts=(2, 3),
        # The others have thousands of schedules, and show nothing that last_link does not show.
        strategies={n: s for n, s in STRATEGIES["spending"].items() if s.verdict is Verdict.RIGHT},
        setup=nothing_spent,
        processes=lambda strategy, number: [partial(spend_two_quotas, strategy)] * number,
        invariant=one_gets_a_link_and_is_charged_once,
    ),
)
