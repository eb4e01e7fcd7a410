"""The races of the service's hits: each acknowledged hit is counted and has its visit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.backends.utils import CursorWrapper

from lab.races.resolving import EXPIRED, NEW, both_keys
from lab.races.service.functions import row
from lab.races.service.race_definition import Process, Race, each
from lab.races.visits import VISIT, both_counts, both_rows, no_visits
from pginterleave import Outcome
from shorturl import following, operations
from shorturl.exceptions import Gone
from shorturl.models import ShortUrl, Visit
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.table import Strategy, table

HITS = {"a": 2, "b": 1}  # of each process
USES = 2 * HITS["a"] - 1  # one too few for two processes
Acknowledged = Counter[str]


def count_several(hits: Mapping[str, Sequence[Visit]], cursor: CursorWrapper) -> set[str]:
    """Count hits of several keys by one statement; return the keys that are counted."""
    return {*combined.count(hits, cursor, keep=settings.SHORTURL_VISITS)}


def count_key(key: str, hits: Sequence[Visit], cursor: CursorWrapper) -> int:
    """Count the hits of a key, together or one by one until no use is left; return how many."""
    keep = settings.SHORTURL_VISITS
    if combined.count_one(key, hits, cursor, keep=keep):
        return len(hits)
    for number, hit in enumerate(hits):
        if len(hits) == 1 or not combined.count_one(key, [hit], cursor, keep=keep):
            return number
    return len(hits)


STRATEGIES = table(
    row(
        count_several,
        "one statement for several keys; count_key() for those that were locked",
    ),
    row(count_key, "one statement for the hits of a key, or for each of the last ones"),
    row(following.follow, "one statement for each hit"),
)
# follow() counts each hit alone, as `combined` does in the races of visits.
SEVERAL = {name: one for name, one in STRATEGIES.items() if name != "follow"}


def too_few_uses(strategy: Strategy) -> None:
    no_visits(strategy)
    ShortUrl.objects.filter(key="a").update(max_hits=USES)


def hits(strategy: Strategy, process: int) -> Acknowledged:
    """Count the hits of both keys as the service does; return the acknowledged ones."""
    wanted = {key: [VISIT] * HITS[key] for key in both_keys(process)}
    found = Acknowledged()
    if strategy.function is following.follow:
        for key, of_key in wanted.items():
            for one in of_key:
                try:
                    following.follow(key, one)
                except (ShortUrl.DoesNotExist, Gone):
                    break
                found[key] += 1
        return found
    with connection.cursor() as cursor:
        if strategy.function is count_several:
            counted = count_several(wanted, cursor)
            found.update({key: len(wanted.pop(key)) for key in counted})
        for key, of_key in wanted.items():
            found[key] += count_key(key, of_key, cursor)
    return found


def links() -> Any:
    return ShortUrl.objects.filter(key="a", deleted_at=None)


def edit() -> bool:
    return operations.change(links(), target_url=NEW, max_hits=10)


def hits_after(change: Process) -> Process:
    """Return a process that changes link `a`, and then reads its hits."""

    def run() -> int:
        change()
        return ShortUrl.objects.get(key="a").hits

    return run


expire = hits_after(lambda: operations.change(links(), expires_at=EXPIRED))
delete = hits_after(lambda: links().delete())


def acknowledged(outcomes: list[Outcome]) -> Acknowledged:
    return sum((one.returned for one in outcomes if isinstance(one.returned, Counter)), Counter())


def hits_are_what_was_acknowledged(outcomes: list[Outcome]) -> str:
    told = acknowledged(outcomes)
    for key, hits, visits in both_counts():
        due = told[key] if settings.SHORTURL_VISITS else 0
        if (hits, visits) != (told[key], due):
            return f"hits = {hits}, visits = {visits} of {key}, and {told[key]} were acknowledged"
    return ""


def all_are_counted(outcomes: list[Outcome]) -> str:
    callers = sum(isinstance(one.returned, Counter) for one in outcomes)
    due = Counter({key: number * callers for key, number in HITS.items()})
    told = acknowledged(outcomes)
    wrong = "" if told == due else f"{dict(told)} were acknowledged, not {dict(due)}"
    return wrong or hits_are_what_was_acknowledged(outcomes)


def the_edit_stays(outcomes: list[Outcome]) -> str:
    link = ShortUrl.objects.get(key="a")
    if (link.target_url, link.max_hits) != (NEW, 10):
        return "the edit is undone"
    return all_are_counted(outcomes)


def none_is_counted_later(outcomes: list[Outcome]) -> str:
    told, of_b = acknowledged(outcomes), HITS["b"] * (len(outcomes) - 1)
    if told["a"] != outcomes[-1].returned:
        return f"hits = {outcomes[-1].returned} at the end, and {told['a']} were acknowledged"
    wrong = "" if told["b"] == of_b else f"{told['b']} hits of b, not {of_b}"
    return wrong or hits_are_what_was_acknowledged(outcomes)


def all_uses_are_used(outcomes: list[Outcome]) -> str:
    told, due = acknowledged(outcomes), Counter({"a": USES, "b": HITS["b"] * len(outcomes)})
    wrong = "" if told == due else f"{dict(told)} were acknowledged, not {dict(due)}"
    return wrong or hits_are_what_was_acknowledged(outcomes)


def beside(process: Process) -> Any:
    return lambda strategy, number: [*each(hits)(strategy, number - 1), process]


_race = partial(
    Race,
    operation="service_hits",
    strategies=STRATEGIES,
    signature=(
        "count_several(hits: Mapping[str, Sequence[Visit]], cursor) -> set[str], "
        "count_key(key: str, hits: Sequence[Visit], cursor) -> int, "
        "follow(key: str, visit: Visit) -> ShortUrl"
    ),
    setup=no_visits,
    processes=each(hits),
    observe=both_rows,
)

RACES = (
    _race(
        name="hits_of_two_keys",
        situation="Every process counts hits of two links, in opposite orders.",
        must_hold="Every hit is counted and has its visit, and no process meets a deadlock.",
        story=(
            "Two workers count the hits that wait, at the same moment, for the same links. The "
            "statement for several keys skips a link that the other worker has locked. Its "
            "hits are counted by a statement of their own, which waits."
        ),
        strategies=SEVERAL,
        invariant=all_are_counted,
    ),
    _race(
        name="hits_beside_an_edit",
        situation="The last process changes target and limit of a link that the others follow.",
        must_hold="The edit stays, and every hit is counted and has its visit.",
        story=(
            "The page of a link changes its target and limit in a transaction, which locks the "
            "link until the COMMIT. Meanwhile the link is followed, together with another one."
        ),
        processes=beside(edit),
        invariant=the_edit_stays,
    ),
    _race(
        name="hits_beside_a_locked_link",
        situation="The last process edits a link that two others follow, in opposite orders.",
        must_hold="Every hit is counted and has its visit, and no process meets a deadlock.",
        story=(
            "Two workers want a link that is locked. If the statement of one waited for it while "
            "it held the other link, the two could wait for each other after the COMMIT."
        ),
        counts=(3,),
        strategies={"count_several": STRATEGIES["count_several"]},
        processes=beside(lambda: operations.change(links(), target_url=NEW)),
        invariant=all_are_counted,
    ),
    _race(
        name="hits_beside_a_deletion",
        situation="The last process deletes a link that the others follow, and reads its hits.",
        must_hold="A hit is acknowledged if and only if it is counted, and none after the read.",
        story=(
            "A link is deleted while a worker counts its hits with those of another link. A link "
            "that the statement skips is locked or deleted, and the next one finds out which."
        ),
        processes=beside(delete),
        invariant=none_is_counted_later,
    ),
    _race(
        name="hits_beside_an_expiry",
        situation="The last process makes a link expire that the others follow; it reads its hits.",
        must_hold="A hit is acknowledged if and only if it is counted, and none after the read.",
        story=(
            "A campaign ends now, by an edit of its link, while a worker counts hits. What has "
            "been acknowledged is in the number that is read after the end."
        ),
        processes=beside(expire),
        invariant=none_is_counted_later,
    ),
    _race(
        name="hits_of_the_last_uses",
        situation="Every process counts two hits of a link that has three uses left.",
        must_hold="Three hits are counted, each has its visit, and the fourth is refused.",
        story=(
            "A voucher has fewer uses left than hits wait. The statement for all of them counts "
            "none, so each hit gets a statement of its own, beside another worker's."
        ),
        strategies=SEVERAL,
        setup=too_few_uses,
        invariant=all_uses_are_used,
    ),
)
