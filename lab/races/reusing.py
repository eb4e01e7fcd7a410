"""The races of reuse: several processes ask for a link to one target, and must share one link."""

from functools import partial

from django.db import transaction

from lab.models import Notification
from lab.races.creating import delete_all_links, describe_links, target_of
from lab.races.race import Race
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import ReuseClaim
from shorturl.strategies.table import STRATEGIES, Strategy

TARGET = target_of(0)


def request_link(strategy: Strategy, process: int) -> tuple[ShortUrl, bool]:
    """Request a link to the target; return the link, and whether it is new.

    The key of a new link names the process. Process 0 is the set-up.
    """
    key = f"own{process}" if process else "first"
    create = partial(ShortUrl.objects.create, key=key, target_url=TARGET)
    link_and_is_new: tuple[ShortUrl, bool] = strategy.function(TARGET, owner_id=None, create=create)
    return link_and_is_new


def request_link_in_a_transaction(strategy: Strategy, process: int) -> tuple[ShortUrl, bool]:
    with transaction.atomic():
        link, is_new = request_link(strategy, process)
        Notification.objects.create(text=f"process {process} has {link.key}")
    return link, is_new


def delete_links_and_claims(strategy: Strategy) -> None:
    delete_all_links(strategy)
    ReuseClaim.objects.all().delete()


def make_deleted_link(strategy: Strategy) -> None:
    delete_links_and_claims(strategy)
    request_link(strategy, 0)
    ShortUrl.objects.all().delete()


def check_one_shared_link(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if there is one live link, and one process has made it."""
    created = []
    for process, outcome in enumerate(outcomes, 1):
        link, is_new = outcome.returned
        if not ShortUrl.objects.filter(pk=link.pk, target_url=TARGET).exists():
            return f"the link of process {process} is not in the database"
        if is_new:
            created.append(process)
    if len(created) != 1:
        return f"processes {created} are told that the link is new"
    live = ShortUrl.objects.live().order_by("id").values_list("key", flat=True)
    return "" if len(live) == 1 else f"there are {len(live)} live links, not one: {list(live)}"


def check_one_shared_link_and_notifications(outcomes: list[Outcome]) -> str:
    written = Notification.objects.count()
    if written != len(outcomes):
        return f"{written} notifications, not {len(outcomes)}"
    return check_one_shared_link(outcomes)


def describe_links_and_deletions() -> str:
    deleted = ShortUrl.objects.exclude(deleted_at=None).count()
    return describe_links() + (f", {deleted} of them deleted" if deleted else "")


_race = partial(
    Race,
    operation="reusing",
    process_counts=(2, 3),
    strategies=STRATEGIES["reusing"],
    setup=delete_links_and_claims,
    process=request_link,
    check=check_one_shared_link,
    rows=describe_links_and_deletions,
)

RACES = (
    _race(
        name="same_target",
        situation="Every process asks for a link to the same target, which has none yet.",
        invariant="All get the same link, and one of them is told that it is new.",
        story=(
            "Somebody clicks twice, or two jobs of one account shorten the same URL. Both prefer "
            "an existing link to a second one, so both look for it first. If both look before "
            "either creates it, neither finds one."
        ),
    ),
    _race(
        name="same_target_in_a_transaction",
        situation="As same_target, but in the caller's atomic(), with a second row after the link.",
        invariant=(
            "All get the same link, one is told that it is new, and each writes its second row."
        ),
        story=(
            "An application writes another row in the same transaction. The second process has to "
            "be kept out until the first has committed, and not only until its statement ends."
        ),
        # serializable must be the outermost transaction.
        strategies={k: v for k, v in STRATEGIES["reusing"].items() if k != "serializable"},
        process=request_link_in_a_transaction,
        check=check_one_shared_link_and_notifications,
    ),
    _race(
        name="deleted_target",
        situation="Every process asks for a link to a target whose only link is deleted.",
        invariant="All get the same new link, and one of them is told that it is new.",
        story=(
            "The link to a target is deleted, used up or expired. The next processes to ask need a "
            "new link, and only one. A record of the old link must not block them, and must not "
            "let two of them create a link."
        ),
        setup=make_deleted_link,
    ),
)
