"""The races of resolves: links are followed, edited and deleted at once, and hits must count."""

from datetime import UTC, datetime, timedelta
from functools import partial

from django.db import OperationalError, transaction
from django.db.backends.postgresql.psycopg_any import errors

from lab.races.race import AGAIN, Race
from pginterleave import MAX_PROCESSES, Outcome
from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import erase
from shorturl.strategies.exhibits.totals import TOTAL_HITS
from shorturl.strategies.table import STRATEGIES, Strategy

OLD = "https://old.example/"
NEW = "https://new.example/"
OTHER = "https://other.example/"
LONG_AGO = datetime(2022, 4, 29, tzinfo=UTC)
EXPIRED = LONG_AGO + timedelta(hours=1)


def make_links(strategy: Strategy) -> None:
    """Make two links, `a` and `b`, in place of all others."""
    erase(ShortUrl.objects.all())
    ShortUrl.objects.create(id=1, key="a", target_url=OLD, created_at=LONG_AGO)
    ShortUrl.objects.create(id=2, key="b", target_url=OTHER, created_at=LONG_AGO)


def make_links_with_one_use(strategy: Strategy) -> None:
    make_links(strategy)
    ShortUrl.objects.filter(key="a").update(max_hits=1)


def make_links_with_many_uses(strategy: Strategy) -> None:
    """Make two links, of which `a` may be followed by as many processes as there can be."""
    make_links(strategy)
    ShortUrl.objects.filter(key="a").update(max_hits=MAX_PROCESSES)


def follow(strategy: Strategy, process: int) -> object:
    return strategy.function("a")


def follow_if_live(strategy: Strategy, process: int, key: str = "a") -> object:
    """Follow a link; return None if it is deleted, expired or used up."""
    try:
        return strategy.function(key)
    except ShortUrl.DoesNotExist:
        return None


def edit_target() -> None:
    ShortUrl.objects.filter(key="a").update(target_url=NEW)


def delete_link() -> None:
    ShortUrl(pk=1).delete()


def raise_limit() -> None:
    ShortUrl.objects.filter(key="a").update(max_hits=MAX_PROCESSES + 1)  # was MAX_PROCESSES


def expire_link() -> int:
    """Make the link `a` expire, and return its hits."""
    ShortUrl.objects.filter(key="a").update(expires_at=EXPIRED)
    return read_hits()["a"]


def order_keys(process: int) -> tuple[str, str]:
    """Return both keys: processes with an odd number follow `a` first, others `b`."""
    return ("a", "b") if process % 2 else ("b", "a")


def follow_both(strategy: Strategy, process: int) -> str:
    """Follow both links in one transaction; return AGAIN for the victim of a deadlock."""
    try:
        with transaction.atomic():
            for key in order_keys(process):
                strategy.function(key)
    except OperationalError as error:
        if isinstance(error.__cause__, errors.DeadlockDetected):
            return AGAIN
        raise
    return "done"


def check_redirects(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if each process is redirected to a target that the link has had."""
    for process, outcome in enumerate(outcomes, 1):
        target_url = getattr(outcome.returned, "target_url", None)
        if target_url not in (OLD, NEW):
            return f"process {process} is redirected to {target_url}"
    return ""


def read_hits() -> dict[str, int]:
    links = ShortUrl.objects.annotate(total_hits=TOTAL_HITS).order_by("key")
    return dict(links.values_list("key", "total_hits"))


def check_hits(expected: int) -> str:
    """Return a violation, or "" if `a` has the `expected` hits, and `b` none."""
    hits = read_hits()
    if hits["a"] != expected:
        return f"hits = {hits['a']}, not {expected}"
    return f"hits = {hits['b']} of b, which was not followed" if hits["b"] else ""


def check_no_lost_hit(outcomes: list[Outcome]) -> str:
    return check_redirects(outcomes) or check_hits(len(outcomes))


def check_no_lost_edit(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if the target is the last process's, and the others are counted."""
    *follows, _edit = outcomes
    if violation := check_redirects(follows):
        return violation
    if ShortUrl.objects.get(key="a").target_url != NEW:
        return "the edit of the target is undone"
    return check_hits(len(follows))


def check_no_undone_deletion(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if the link is still deleted, and every redirect is counted."""
    *follows, _delete = outcomes
    if ShortUrl.objects.get(key="a").deleted_at is None:
        return "the deletion is undone"
    redirects = sum(outcome.returned is not None for outcome in follows)
    hits = read_hits()["a"]
    return f"{redirects} redirected, and hits = {hits}" if hits < redirects else ""


def check_one_use(outcomes: list[Outcome]) -> str:
    redirects = sum(outcome.returned is not None for outcome in outcomes)
    if redirects != 1:
        return f"{redirects} redirected by a link with one use left"
    return check_hits(1)


def check_no_lost_limit(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if the limit is the last process's, and the others are counted."""
    *follows, _raise_limit = outcomes
    if violation := check_redirects(follows):
        return violation
    limit = ShortUrl.objects.get(key="a").max_hits
    is_raised = limit == MAX_PROCESSES + 1  # as raise_limit() has set it
    return check_hits(len(follows)) if is_raised else f"the limit is {limit} again"


def check_no_hit_after_expiry(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if every redirect is counted, and none after the expiry."""
    *follows, expiry = outcomes
    if ShortUrl.objects.get(key="a").expires_at != EXPIRED:
        return "the expiry is undone"
    redirects = sum(outcome.returned is not None for outcome in follows)
    hits = read_hits()["a"]
    if hits != redirects:
        return f"{redirects} redirected, and hits = {hits}"
    if hits != expiry.returned:
        return f"hits = {expiry.returned} when it had expired, and now {hits}"
    return ""


def check_no_lost_hit_of_both(outcomes: list[Outcome]) -> str:
    hits = read_hits()
    expected = len(outcomes)
    is_right = set(hits.values()) == {expected}
    return "" if is_right else f"hits = {hits['a']} and {hits['b']}, not {expected}"


def describe_link() -> str:
    link = ShortUrl.objects.get(key="a")
    deleted = ", deleted" if link.deleted_at else ""
    edited = ", target = NEW" if link.target_url == NEW else ""
    limit = f" of {link.max_hits}" if link.max_hits else ""
    expired = ", expired" if link.expires_at else ""
    return f"hits = {read_hits()['a']}{limit}{edited}{deleted}{expired}"


def describe_hits_of_both() -> str:
    return ", ".join(f"{key}: {number}" for key, number in read_hits().items())


_race = partial(
    Race,
    operation="resolving",
    strategies=STRATEGIES["resolving"],
    setup=make_links,
    process=follow,
    rows=describe_link,
)

RACES = (
    _race(
        name="lost_update",
        situation="Every process follows the same link.",
        invariant="All are redirected, and every hit is counted.",
        story=(
            "A link is followed twice at the same moment. Each process reads the counter, adds one "
            "and writes the sum. If both read before either writes, they write the same number: "
            "after two hits, the counter has gone up by one."
        ),
        process_counts=(2, 3),
        check=check_no_lost_hit,
    ),
    _race(
        name="clobbered_edit",
        situation="The last process edits the target of a link that the others follow.",
        invariant="The edit stays, and every hit is counted.",
        story=(
            "Somebody corrects the target of a link while others follow it. Counting a hit has "
            "nothing to do with the target. But a strategy that saves the whole object writes "
            "every column back as it was read, and the correction is lost."
        ),
        process_counts=(2, 3),
        last=edit_target,
        check=check_no_lost_edit,
    ),
    _race(
        name="deleted_meanwhile",
        situation="The last process deletes a link that the others follow.",
        invariant=(
            "The others are redirected and counted, or told that it is deleted; it stays deleted."
        ),
        story=(
            "A link is deleted while somebody follows it. Depending on the order, the visitor is "
            "redirected or told that there is no such link. The link must stay deleted, and every "
            "redirect must be counted."
        ),
        process=follow_if_live,
        last=delete_link,
        check=check_no_undone_deletion,
    ),
    _race(
        name="crossed_locks",
        situation="Every process resolves two keys in one transaction, in opposite orders.",
        invariant=(
            "All finish, the victim of a deadlock at its second try, and every hit is counted."
        ),
        story=(
            "Two callers each resolve two links in one transaction, in opposite orders. A row that "
            "is written stays locked until the COMMIT, so each caller can wait for a row that the "
            "other has locked. PostgreSQL detects the deadlock and ends one of the transactions, "
            "which must be tried again."
        ),
        # repeatable_read must be the outermost transaction.
        strategies={k: v for k, v in STRATEGIES["resolving"].items() if k != "repeatable_read"},
        process=follow_both,
        check=check_no_lost_hit_of_both,
        rows=describe_hits_of_both,
    ),
    _race(
        name="last_use",
        situation="Every process follows a link that has one use left.",
        invariant="One is redirected and counted, and the others are told that it is used up.",
        story=(
            "An invitation can be used once, and two people follow it at the same moment. A "
            "counter that loses no hit is not enough here: between the check of the limit and the "
            "count, another process can check it. The condition has to be in the statement that "
            "counts."
        ),
        process_counts=(2, 3),
        setup=make_links_with_one_use,
        process=follow_if_live,
        check=check_one_use,
    ),
    _race(
        name="limit_raised",
        situation="The last process raises the limit of a link that the others follow.",
        invariant="The new limit stays, and each of the others is redirected and counted.",
        story=(
            "A voucher sells well, and its limit is raised while it is followed. A process that "
            "writes back the limit that it read, together with the counter, undoes the change."
        ),
        process_counts=(2, 3),
        setup=make_links_with_many_uses,
        process=follow_if_live,
        last=raise_limit,
        check=check_no_lost_limit,
    ),
    _race(
        name="expiry",
        situation=(
            "The last process makes a link expire that the others follow, and reads its hits."
        ),
        invariant=(
            "The others are redirected and counted, or told that it has expired. No hit is counted "
            "after the last process has read the hits."
        ),
        story=(
            "A campaign ends: its link is made to expire, and its hits are read for the bill. A "
            "process that checks the expiry in one statement and counts in the next can count "
            "after the end. A statement that waits for the row's lock checks its condition again "
            "before it counts."
        ),
        process_counts=(2, 3),
        process=follow_if_live,
        last=expire_link,
        check=check_no_hit_after_expiry,
    ),
)
