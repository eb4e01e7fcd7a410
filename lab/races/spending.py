"""The races of spending: several processes create links, and the quota has one left."""

from datetime import UTC, datetime, timedelta
from functools import partial

from lab.races.creating import set_next_id
from lab.races.race import AGAIN, Race
from pginterleave import Outcome
from shorturl.exceptions import KeyTaken, QuotaExceeded
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.exhibits.models import SingleCreate
from shorturl.strategies.table import STRATEGIES, Strategy, Verdict

SPENDER = "somebody"
LIMIT = 2
# Periods so long that none ends during an exploration: they begin in 1970, 1997, 2024 and 2052.
PERIOD = timedelta(days=10_000)
SHORT_PERIOD = timedelta(days=5_000)  # begins in 2024 as well, and in 2038
IN_THE_PERIOD_BEFORE = datetime(1997, 5, 19, tzinfo=UTC)
TAKEN = "taken"


def delete_spending(strategy: Strategy) -> None:
    for model in (QuotaUsage, SingleCreate):
        model._base_manager.all().delete()
        set_next_id(1, model)


def spend_all_but_one(strategy: Strategy) -> None:
    delete_spending(strategy)
    spend(strategy, 0)


def use_up_period_before(strategy: Strategy) -> None:
    """Spend the whole quota of the period before this one, and nothing of this one.

    Some strategies keep a counter (QuotaUsage), and others a row for each link (SingleCreate).
    """
    delete_spending(strategy)
    before = {"spender": SPENDER, "since": IN_THE_PERIOD_BEFORE}
    QuotaUsage.objects.create(**before, period=PERIOD, spent=LIMIT)
    SingleCreate.objects.bulk_create([SingleCreate(**before)] * LIMIT)


def spend(strategy: Strategy, process: int, *, key: str = "free", limit: int = LIMIT) -> object:
    """Spend one of the quota on a link with this key; raise QuotaExceeded or KeyTaken.

    The link is not stored, because the race is for the quota only.
    """

    def create() -> ShortUrl:
        if key == TAKEN:
            raise KeyTaken(key)
        return ShortUrl(key=key)

    return strategy.function(SPENDER, create, limit=limit, period=PERIOD)


def spend_two_quotas(strategy: Strategy, process: int) -> object:
    """Spend one of each quota on a link, first of the quota with the longer period."""
    create = partial(strategy.function, SPENDER, ShortUrl, limit=1, period=SHORT_PERIOD)
    return strategy.function(SPENDER, create, limit=LIMIT, period=PERIOD)


def spend_with_process_1_failing(strategy: Strategy, process: int) -> object:
    """Spend one of the quota; process 1 requests a key that is taken, and has to try again."""
    try:
        return spend(strategy, process, key=TAKEN if process == 1 else "free")
    except KeyTaken:
        return AGAIN


def check_quota(outcomes: list[Outcome]) -> str:
    links = sum(outcome.returned is not None for outcome in outcomes)
    return "" if links == 1 else f"{links} links are created, and the quota had one left"


def check_both_quotas(outcomes: list[Outcome]) -> str:
    if violation := check_quota(outcomes):
        return violation
    spent = list(QuotaUsage.objects.order_by("period").values_list("spent", flat=True))
    return "" if spent == [1, 1] else f"spent = {spent}, not [1, 1]"


def describe_spending() -> str:
    """Return what is spent in this period, by the counter and by the rows for each link."""
    counters = QuotaUsage.objects.filter(since__gt=IN_THE_PERIOD_BEFORE)
    rows = SingleCreate.objects.filter(since__gt=IN_THE_PERIOD_BEFORE)
    return f"spent = {sum(counters.values_list('spent', flat=True)) + rows.count()}"


_race = partial(
    Race,
    operation="spending",
    process_counts=(2, 3),
    strategies=STRATEGIES["spending"],
    setup=spend_all_but_one,
    process=spend,
    check=check_quota,
    rows=describe_spending,
    expected=(QuotaExceeded,),
)

RACES = (
    _race(
        name="last_link",
        situation="Every process creates a link with the same token, whose quota has one left.",
        invariant="One process gets a link, and the others are told that the quota is used up.",
        story=(
            "A program sends two creates at the same moment, with a token that may create one more "
            "link today. Each process counts today's links, finds that one is left, and creates a "
            "link. A correct counter does not help if it is only read before the create."
        ),
    ),
    _race(
        name="new_period",
        situation="As last_link, but a day has just begun, nothing is spent, and the quota is one.",
        invariant="One process gets a link, and the others are told that the quota is used up.",
        story=(
            "Midnight has passed, the quota is whole again, and the new day has no counter yet. No "
            "row lock can be taken on a row that does not exist. Every process has to insert the "
            "row first."
        ),
        setup=use_up_period_before,
        process=partial(spend, limit=1),
    ),
    _race(
        name="given_back",
        situation=(
            "One link is left; the first process asks for a key that is taken, then for another."
        ),
        invariant="One process gets a link: a create that fails gives back what it has spent.",
        story=(
            "Somebody asks for a custom key that is taken, and then for another one, while the "
            "quota has one link left. The first create fails. What it has spent must be available "
            "to the second, or to a create in between."
        ),
        process=spend_with_process_1_failing,
        second_try=spend,
    ),
    _race(
        name="two_quotas",
        situation=(
            "Every process creates a link; nothing is spent of a quota of two and one of one."
        ),
        invariant="One process gets a link and spends one of each quota; a refused one none.",
        story=(
            "A program may create two links today, and one in this minute. Two processes create at "
            "the same moment. The daily quota has one for each of them, and the quota of the "
            "minute does not. What the refused process has taken of the daily quota must be given "
            "back. All processes must take the two in the same order, or two of them wait for each "
            "other."
        ),
        # The others have thousands of schedules, and show nothing that last_link does not show.
        strategies={k: v for k, v in STRATEGIES["spending"].items() if v.verdict is Verdict.RIGHT},
        setup=delete_spending,
        process=spend_two_quotas,
        check=check_both_quotas,
    ),
)
