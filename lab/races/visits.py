"""The races of visits: a link is followed several times in an hour; hits and visits must agree."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from django.db import connection

from lab.races.creating import set_next_id
from lab.races.idempotency import Killed
from lab.races.race import Race
from lab.races.resolving import check_redirects, make_links
from pginterleave import Outcome
from shorturl.models import DailyVisits, HourlyVisits, RecentVisits, ShortUrl, Visit
from shorturl.strategies.exhibits.totals import VISITS
from shorturl.strategies.table import STRATEGIES, Strategy

VISIT = Visit("news.example", "Firefox", "Linux", "Computer", is_bot=False)


class HitsAndVisits(NamedTuple):  # of the link `a`
    hits: int
    visits: int

    def __str__(self) -> str:
        return f"hits = {self.hits}, visits = {self.visits}"


def read_hits_and_visits() -> HitsAndVisits:
    """Read the hits of the link `a` and the sum of its visits by one statement."""
    links = ShortUrl.objects.annotate(visits_sum=VISITS)
    return HitsAndVisits(*links.values_list("hits", "visits_sum").get(key="a"))


def make_unvisited_links(strategy: Strategy) -> None:
    make_links(strategy)
    for model in (HourlyVisits, DailyVisits, RecentVisits):
        model._base_manager.all().delete()
        set_next_id(1, model)


def make_links_with_one_use(strategy: Strategy) -> None:
    make_unvisited_links(strategy)
    ShortUrl.objects.filter(key="a").update(max_hits=1)


def follow(strategy: Strategy, process: int) -> object:
    return strategy.function("a", VISIT)


def follow_if_live(strategy: Strategy, process: int) -> object:
    try:
        return follow(strategy, process)
    except ShortUrl.DoesNotExist:
        return None


def follow_with_process_1_killed(strategy: Strategy, process: int) -> object:
    """Follow the link; the first process is killed after its first statement."""
    if process != 1:
        return follow(strategy, process)
    with suppress(Killed), connection.execute_wrapper(KillAfterFirstStatement()):
        return follow(strategy, process)
    return None


class KillAfterFirstStatement:
    """Wraps the statements of a connection: sends the first, and raises Killed for the second."""

    has_sent = False

    def __call__(self, execute: Callable[..., Any], *statement: Any) -> Any:
        if self.has_sent:
            raise Killed
        self.has_sent = True
        return execute(*statement)


def describe_difference(counts: HitsAndVisits) -> str:
    """Return the counts in words if they differ, else ""."""
    return "" if counts.hits == counts.visits else str(counts)


def check_no_lost_visit(outcomes: list[Outcome]) -> str:
    expected = len(outcomes)
    counts = read_hits_and_visits()
    if violation := check_redirects(outcomes) or describe_difference(counts):
        return violation
    return "" if counts.hits == expected else f"hits = {counts.hits}, not {expected}"


def check_hits_are_visits(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if all but process 1 are redirected, and visits equal hits."""
    return check_redirects(outcomes[1:]) or describe_difference(read_hits_and_visits())


def check_no_torn_read(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if the reader saw as many visits as hits, and none is lost."""
    *follows, reader = outcomes
    if violation := describe_difference(reader.returned):
        return f"the reader sees {violation}"
    return check_no_lost_visit(follows)


def check_one_visit(outcomes: list[Outcome]) -> str:
    redirects = sum(outcome.returned is not None for outcome in outcomes)
    counts = read_hits_and_visits()
    if redirects != 1:
        return f"{redirects} redirected, by a link with one use left"
    return "" if counts == HitsAndVisits(hits=1, visits=1) else str(counts)


_race = partial(
    Race,
    operation="recording_visits",
    strategies=STRATEGIES["recording_visits"],
    setup=make_unvisited_links,
    process=follow,
    rows=read_hits_and_visits,
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
        check=check_no_lost_visit,
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
        process=follow_with_process_1_killed,
        check=check_hits_are_visits,
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
        last=read_hits_and_visits,
        check=check_no_torn_read,
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
        setup=make_links_with_one_use,
        process=follow_if_live,
        check=check_one_visit,
    ),
)
