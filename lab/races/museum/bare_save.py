"""django-short-links: `clicks += 1; save()`, which loses hits and edits of other columns."""

from django.db import models
from django.db.models import F

from lab.races.museum import exhibit
from lab.races.resolving import NEW, OLD, check_redirects
from pginterleave import Outcome
from shorturl.strategies.table import Strategy, table


class ClickedLink(exhibit.ExhibitModel):
    """A link that counts its clicks."""

    key = models.TextField(unique=True)
    target_url = models.TextField()
    clicks = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.key} → {self.target_url}, clicks = {self.clicks}"


def as_found(key: str) -> ClickedLink:
    """Read, add one, and save.

    What goes wrong: Python adds to the number, so one of two clicks is lost. And save() writes
    every column as it was read, so an edit between the read and the save is undone.
    """
    link = ClickedLink.objects.get(key=key)
    link.clicks += 1
    link.save()
    return link


def mended_by_half(key: str) -> ClickedLink:
    """Read, let the database add one, and save.

    What goes wrong: no click is lost any more, but the edit still is.
    """
    link = ClickedLink.objects.get(key=key)
    link.clicks = F("clicks") + 1
    link.save()
    return link


def mended(key: str) -> ClickedLink:
    """Read, let the database add one, and save nothing else.

    Why nothing can go wrong: the UPDATE names one column, and adds to the value in the row.
    """
    link = ClickedLink.objects.get(key=key)
    link.clicks = F("clicks") + 1
    link.save(update_fields=["clicks"])
    return link


def follow(strategy: Strategy, process: int) -> object:
    """Follow the link. Process 2, the owner, edits its target before that."""
    if process == 2:
        ClickedLink.objects.filter(key="a").update(target_url=NEW)
    return strategy.function("a")


def check_no_lost_edit_or_click(outcomes: list[Outcome]) -> str:
    """Check the redirects, the edited target, and that each process has a click."""
    expected = len(outcomes)
    if violation := check_redirects(outcomes):
        return violation
    link = ClickedLink.objects.get(key="a")
    if link.target_url != NEW:
        return "the edit of the target is undone"
    return "" if link.clicks == expected else f"clicks = {link.clicks}, not {expected}"


EXHIBIT = exhibit.make_exhibit(
    ClickedLink,
    first_rows=[ClickedLink(id=1, key="a", target_url=OLD, clicks=0)],
    name="bare_save",
    situation="The last process edits a link's target and follows it; the others follow it.",
    invariant="The edit stays, all are redirected, and every click is counted.",
    strategies=table(
        exhibit.wrong_strategy(as_found, "clicks += 1; save()"),
        exhibit.wrong_strategy(mended_by_half, "F() and a bare save(): the edit is still undone"),
        exhibit.right_strategy(mended, "F() and update_fields"),
    ),
    process=follow,
    check=check_no_lost_edit_or_click,
    source="django-short-links: ServeURL.get() in links/views.py, clicks += 1 and save()",
    story=(
        "Most people write this first: get the object, add one, save. It reads as if it changed "
        "one number. It sends an UPDATE of every column, with the values that were read a moment "
        "ago. So it loses a click when two processes read the same number. It does more harm when "
        "the owner corrects the target at that moment: a visitor's save() writes the old target "
        "back, after the owner has seen the new one saved. F() alone corrects the counter and "
        "leaves the second bug, which no counter shows."
    ),
    lesson="save() writes every column, so name the columns that you change.",
)
