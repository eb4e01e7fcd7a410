"""django-link-shortener, Shlink: a limit that is checked first and counted then."""

from django.db import models, transaction
from django.db.models import F

from lab.races.museum import exhibit
from pginterleave import Outcome
from shorturl.strategies.table import table


class LimitedLink(exhibit.ExhibitModel):
    """A link that may be followed `max_uses` times."""

    key = models.TextField(unique=True)
    uses = models.BigIntegerField()
    max_uses = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.key}: {self.uses} of {self.max_uses} uses"


def as_found(key: str) -> bool:
    """Check whether the link may still be followed, and count.

    What goes wrong: the counter itself is right, because the database adds. But between the check
    and the count, another process checks, and sees the same free use.
    """
    link = LimitedLink.objects.get(key=key)
    if link.uses >= link.max_uses:
        return False
    link.uses = F("uses") + 1
    link.save(update_fields=["uses"])
    return True


def mended(key: str) -> bool:
    """Count if the link may still be followed, in one statement.

    Why nothing can go wrong: the UPDATE locks the row, and checks its condition again if it had
    to wait. The second process finds no free use and changes no row.
    """
    free = LimitedLink.objects.filter(key=key, uses__lt=F("max_uses"))
    return free.update(uses=F("uses") + 1) == 1


def mended_with_a_lock(key: str) -> bool:
    """Lock the link, then check and count as before.

    Why nothing can go wrong: the second process waits before the check, and then reads what the
    first has written. It costs a transaction and two more round trips.
    """
    with transaction.atomic():
        link = LimitedLink.objects.select_for_update().get(key=key)
        if link.uses >= link.max_uses:
            return False
        link.uses = F("uses") + 1
        link.save(update_fields=["uses"])
    return True


def check_limit(outcomes: list[Outcome]) -> str:
    """Check that as many processes have redeemed the link as its limit allows, and its count."""
    link = LimitedLink.objects.get(key="gift")
    redeemed = sum(bool(outcome.returned) for outcome in outcomes)
    if redeemed != link.max_uses:
        return f"redeemed {redeemed} times, not {link.max_uses}"
    return "" if link.uses == redeemed else f"uses = {link.uses}, not {redeemed}"


EXHIBIT = exhibit.make_exhibit(
    LimitedLink,
    first_rows=[LimitedLink(id=1, key="gift", uses=0, max_uses=1)],
    arguments=lambda _process: ["gift"],
    name="limited_use",
    situation="Every process redeems the same link (LimitedLink), which may be used once.",
    invariant="One may follow it, the others are told that it is used up, and uses = 1.",
    strategies=table(
        exhibit.wrong_strategy(as_found, "check, then act: the counter is right, and too high"),
        exhibit.right_strategy(mended, "one UPDATE … WHERE uses < max_uses"),
        exhibit.right_strategy(mended_with_a_lock, "a row lock before the check"),
    ),
    check=check_limit,
    source=(
        "django-link-shortener 1.1: max_uses (max_uses=1 with 16 threads: 5 to 16 redemptions); "
        "Shlink 5.1.5: max-visits"
    ),
    story=(
        "A gift card, an invitation, a paid download: the link works once. The code reads the "
        "link, compares the number of uses with the limit, and counts. It counts with F(), so no "
        "use is lost. The count is right, and it shows the bug: it says 2 of 1. Two people clicked "
        "at the same time, and both checks came before both counts. A counter that never loses a "
        "hit does not enforce a limit: the check and the count have to be one step."
    ),
    lesson="A limit that one statement checks and another one uses up is not a limit.",
)
