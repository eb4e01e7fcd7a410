"""The races of reuse: several processes ask for a link to one target, and must share one link."""

from functools import partial

from django.db import transaction

from lab.models import Notification
from lab.races.creating_races import links, no_links, target
from lab.races.race_definition import Race, each
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import ReuseClaim
from shorturl.strategies.table import STRATEGIES, Strategy

TARGET = target(0)
REFUSES_TO_NEST = "serializable"  # it must be the outermost transaction


def ask(strategy: Strategy, process: int) -> tuple[ShortUrl, bool]:
    """Ask for a link to the target; if one is created, its key names the process.

    Process 0 is the set-up, and its key is "first".
    """
    key = f"own{process}" if process else "first"
    made = partial(ShortUrl.objects.create, key=key, target_url=TARGET)
    asked: tuple[ShortUrl, bool] = strategy.function(TARGET, owner_id=None, create=made)
    return asked


def ask_in_a_transaction(strategy: Strategy, process: int) -> tuple[ShortUrl, bool]:
    with transaction.atomic():
        short_url, created = ask(strategy, process)
        Notification.objects.create(text=f"process {process} has {short_url.key}")
    return short_url, created


def no_links_and_no_claims(strategy: Strategy) -> None:
    no_links(strategy)
    ReuseClaim.objects.all().delete()


def one_link(strategy: Strategy) -> None:
    no_links_and_no_claims(strategy)
    ask(strategy, 0)


def one_deleted_link(strategy: Strategy) -> None:
    one_link(strategy)
    ShortUrl.objects.all().delete()


def all_have_the_same_new_link(outcomes: list[Outcome]) -> str:
    if wrong := each_has_a_link(outcomes):
        return wrong
    created = [process for process, outcome in enumerate(outcomes, 1) if outcome.returned[1]]
    if len(created) != 1:
        return f"processes {created} are told that the link is new"
    return one_live_link()


def each_has_a_link(outcomes: list[Outcome]) -> str:
    for process, outcome in enumerate(outcomes, 1):
        match outcome.returned:
            case (ShortUrl() as short_url, bool()):
                if not ShortUrl.objects.filter(pk=short_url.pk, target_url=TARGET).exists():
                    return f"the link of process {process} is not in the database"
            case other:
                return f"process {process} is returned {other!r}, not a ShortUrl and a bool"
    return ""


def one_live_link() -> str:
    live = ShortUrl.objects.live().order_by("id").values_list("key", flat=True)
    return "" if len(live) == 1 else f"there are {len(live)} live links, not one: {list(live)}"


def the_same_and_a_notification_each(outcomes: list[Outcome]) -> str:
    written = Notification.objects.count()
    if written != len(outcomes):
        return f"{written} notifications, not {len(outcomes)}"
    return all_have_the_same_new_link(outcomes)


def live_links() -> str:
    deleted = ShortUrl.objects.exclude(deleted_at=None).count()
    return f"{links()}{f', {deleted} of them deleted' if deleted else ''}"


_race = partial(
    Race,
    operation="reusing",
    strategies=STRATEGIES["reusing"],
    signature=(
        "reuse(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) "
        "-> tuple[ShortUrl, bool]"
    ),
    setup=no_links_and_no_claims,
    processes=each(ask),
    invariant=all_have_the_same_new_link,
    observe=live_links,
)

RACES = (
    _race(
        name="same_target",
        situation="Every process asks for a link to the same target, which has none yet.",
        must_hold="All get the same link, and one of them is told that it is new.",
        story=(
            "Somebody clicks twice, or two jobs of one account shorten the same URL. Both prefer "
            "an existing link to a second one, so both look for it first. If both look before "
            "either creates it, neither finds one."
        ),
        counts=(2, 3),
    ),
    _race(
        name="same_target_in_a_transaction",
        situation="As same_target, but in the caller's atomic(), with a second row after the link.",
        must_hold=(
            "All get the same link, one is told that it is new, and each writes its second row."
        ),
        story=(
            "An application writes another row in the same transaction. The second process has to "
            "be kept out until the first has committed, and not only until its statement ends."
        ),
        counts=(2, 3),
        strategies={n: s for n, s in STRATEGIES["reusing"].items() if n != REFUSES_TO_NEST},
        processes=each(ask_in_a_transaction),
        invariant=the_same_and_a_notification_each,
    ),
    _race(
        name="deleted_target",
        situation="Every process asks for a link to a target whose only link is deleted.",
        must_hold="All get the same new link, and one of them is told that it is new.",
        story=(
            "The link to a target is deleted, used up or expired. The next processes to ask need a "
            "new link, and only one. A record of the old link must not block them, and must not "
            "let two of them create a link."
        ),
        counts=(2, 3),
        setup=one_deleted_link,
    ),
)
