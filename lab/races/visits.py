"""The races of visits: a link is followed several times in an hour; hits and visits must agree."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from django.db import connection

from lab.races.creating import set_next_id
from lab.races.idempotency import Killed
from lab.races.race import Race
from lab.races.resolving import both_keys, fresh_links, redirected
from pginterleave import Outcome
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits, ShortUrl, Visit
from shorturl.strategies.exhibits.totals import VISITS
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.table import STRATEGIES, Strategy

VISIT = Visit("news.example", "Firefox", "Linux", "Computer", is_bot=False)


class HitsAndVisits(NamedTuple):  # read by one statement
    hits: int
    visits: int


def counts() -> HitsAndVisits:
    link = ShortUrl.objects.filter(key="a").annotate(visits_sum=VISITS)
    return HitsAndVisits(*link.values_list("hits", "visits_sum").get())


def no_visits(strategy: Strategy) -> None:
    fresh_links(strategy)
    for model in (HourlyVisits, DailyVisits, RecentVisits):
        model._base_manager.all().delete()
        set_next_id(1, model)


def one_use_left(strategy: Strategy) -> None:
    no_visits(strategy)
    ShortUrl.objects.filter(key="a").update(max_hits=1)


def follow(strategy: Strategy, process: int) -> ShortUrl:
    link: ShortUrl = strategy.function("a", VISIT)
    return link


def follow_if_live(strategy: Strategy, process: int) -> ShortUrl | None:
    try:
        return follow(strategy, process)
    except ShortUrl.DoesNotExist:
        return None


def follow_and_be_killed_first(strategy: Strategy, process: int) -> ShortUrl | None:
    """Follow the link; the first process is killed after its first statement."""
    with suppress(Killed), connection.execute_wrapper(KilledLater(process == 1)):
        return follow(strategy, process)
    return None


class KilledLater:
    """Sends one statement, and no other if `is_killed`; uncommitted changes are undone."""

    def __init__(self, is_killed: bool) -> None:
        self.is_killed, self.has_sent = is_killed, False

    def __call__(self, execute: Callable[..., Any], *statement: Any) -> Any:
        if self.is_killed and self.has_sent:
            raise Killed
        self.has_sent = True
        return execute(*statement)


def follow_both(strategy: Strategy, process: int) -> None:
    """Record a visit of two keys, in one statement if the strategy can."""
    keys = both_keys(process)
    counted = set[str]()
    if strategy.function is combined.record:
        with connection.cursor() as cursor:
            counted = {*combined.count({key: [VISIT] for key in keys}, cursor)}
    for key in keys:
        if key not in counted:
            strategy.function(key, VISIT)


def disagreement(found: HitsAndVisits) -> str:
    return "" if found.hits == found.visits else f"hits = {found.hits}, visits = {found.visits}"


def no_lost_visit(outcomes: list[Outcome]) -> str:
    due, found = len(outcomes), counts()
    if violation := redirected(outcomes) or disagreement(found):
        return violation
    return "" if found.hits == due else f"hits = {found.hits}, not {due}"


def hits_and_visits_agree(outcomes: list[Outcome]) -> str:
    return redirected(outcomes[1:]) or disagreement(counts())


def no_torn_read(outcomes: list[Outcome]) -> str:
    *follows, read = outcomes
    assert isinstance(read.returned, HitsAndVisits)
    if violation := disagreement(read.returned):
        return f"the reader sees {violation}"
    return no_lost_visit(follows)


def one_visit(outcomes: list[Outcome]) -> str:
    redirects = sum(outcome.returned is not None for outcome in outcomes)
    found = counts()
    if redirects != 1:
        return f"{redirects} redirected, by a link with one use left"
    return disagreement(found) or ("" if found.hits == 1 else f"hits = {found.hits}")


def no_lost_visit_of_both(outcomes: list[Outcome]) -> str:
    due = len(outcomes)
    for key, hits, visits in both_counts():
        if hits != due or visits != due:
            return f"hits = {hits}, visits = {visits} of {key}, not {due}"
    return ""


def both_counts() -> list[tuple[str, int, int]]:
    links = ShortUrl.objects.annotate(visits_sum=VISITS).order_by("key")
    return list(links.values_list("key", "hits", "visits_sum"))


def both_rows() -> str:
    return ", ".join(f"{key}: {hits}, visits {visits}" for key, hits, visits in both_counts())


def hits_and_visits() -> str:
    found = counts()
    return f"hits = {found.hits}, visits = {found.visits}"


_race = partial(
    Race,
    operation="recording_visits",
    strategies=STRATEGIES["recording_visits"],
    setup=no_visits,
    process=follow,
    rows=hits_and_visits,
)

RACES = (
    _race(
        name="same_hour",
        situation=(
            "Every process follows one link with the same browser, in an hour without visits."
        ),
        invariant="All are redirected, every hit is counted, and every visit is recorded.",
        story=(
            "An hour has begun, and a link is followed twice at the same moment. Visits are "
            "counted in a row for the hour, which does not exist yet. Each process looks for it, "
            "finds none, and inserts one."
        ),
        check=no_lost_visit,
    ),
    _race(
        name="killed_between",
        situation="The first process is killed after its first statement; the others continue.",
        invariant="The hits equal the sum of the visits.",
        story=(
            "A process counts a hit, and is killed before it has recorded the visit: a deploy, a "
            "full memory, a machine that is switched off. The visit is not sent again, so the "
            "counter stays one ahead of its visits. Either both must be committed, or neither."
        ),
        process=follow_and_be_killed_first,
        check=hits_and_visits_agree,
    ),
    _race(
        name="read_meanwhile",
        situation="The last process reads hits and visits of a link that the others follow.",
        invariant="It sees as many visits as hits, and every visit of the others is recorded.",
        story=(
            "Somebody opens the page of a link while it is followed. One statement reads the "
            "counter and adds up the visits, and so sees one state of the database. If the two are "
            "committed separately, they differ in some of the states."
        ),
        last=counts,
        check=no_torn_read,
    ),
    _race(
        name="last_visit",
        situation="Every process follows a link that has one use left.",
        invariant=(
            "One is redirected and its visit recorded; the others are told that it is used up."
        ),
        story=(
            "An invitation can be used once, and two people follow it. The person who is refused "
            "has made no visit: a visit may be recorded only if its hit was counted."
        ),
        setup=one_use_left,
        process=follow_if_live,
        check=one_visit,
    ),
    _race(
        name="visits_of_several_keys",
        situation=(
            "Every process follows two links, in opposite orders, or by one statement for both."
        ),
        invariant="No process is the victim of a deadlock; hits and visits of each link agree.",
        story=(
            "A service collects the visits that wait, and records those of several links in one "
            "statement. Two services do so at the same moment, for the same links in the same "
            "hour. The rows that one statement inserts, the other one updates."
        ),
        strategies={name: STRATEGIES["recording_visits"][name] for name in ("upsert", "combined")},
        process=follow_both,
        check=no_lost_visit_of_both,
        rows=both_rows,
    ),
)
