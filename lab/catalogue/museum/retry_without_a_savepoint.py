"""django-link-shortener: try again after an IntegrityError, in a transaction that is lost."""

from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, models, transaction

from lab.catalogue.creating_races import target
from lab.catalogue.museum.exhibit import ExhibitModel, everybody_owns_a, exhibit, right, wrong
from lab.catalogue.race_definition import each
from shorturl.strategies import Strategy, table


class RetriedLink(ExhibitModel):
    """A link whose key is drawn at random."""

    key = models.TextField(primary_key=True)
    target_url = models.TextField()

    def __str__(self) -> str:
        return f"{self.key} → {self.target_url}"


def as_found(target_url: str, keys: Iterable[str]) -> str:
    """Insert, and try another key when that one is taken.

    What goes wrong: the first IntegrityError aborts the caller's transaction. PostgreSQL would
    refuse the second try, and Django does so before it is sent, with TransactionManagementError.
    """
    for key in keys:
        try:
            RetriedLink.objects.create(key=key, target_url=target_url)
        except IntegrityError:
            continue
        return key
    raise KeyError("no key was free")


def mended(target_url: str, keys: Iterable[str]) -> str:
    """Insert in an atomic block of its own, and try another key when that one is taken.

    Why nothing can go wrong: inside the caller's transaction that block is a savepoint. The
    refused INSERT undoes nothing but itself, and the transaction continues.
    """
    for key in keys:
        try:
            with transaction.atomic():
                RetriedLink.objects.create(key=key, target_url=target_url)
        except IntegrityError:
            continue
        return key
    raise KeyError("no key was free")


def in_a_request(strategy: Strategy[Any], process: int) -> object:
    """Create a link in the transaction that ATOMIC_REQUESTS begins."""
    with transaction.atomic():
        return strategy.function(target(process), ["same", f"own{process}"])


EXHIBIT = exhibit(
    RetriedLink,
    name="retry_without_a_savepoint",
    situation="Everybody creates a link in a transaction, and all draw the same key first.",
    must_hold="Everybody gets a link that leads to their own target.",
    strategies=table(
        wrong(as_found, "catches IntegrityError and continues in the same transaction"),
        right(mended, "the same with a savepoint round the INSERT"),
    ),
    processes=each(in_a_request),
    invariant=everybody_owns_a(RetriedLink),
    source="django-link-shortener 1.1: create(), 3 tries on IntegrityError without a savepoint",
    story=(
        "They knew that two may draw the same key, left the decision to the unique constraint, and "
        "try up to three times. In a shell it works, because every statement is a transaction of "
        "its own there. In a site with ATOMIC_REQUESTS, or inside anybody's atomic(), the first "
        "collision takes the transaction with it. After an error PostgreSQL refuses every "
        "statement until the transaction ends, so the second try cannot succeed, and whatever else "
        "the request had written is gone as well. The retry is there, and never helps."
    ),
    lesson="An error that is caught inside a transaction needs a savepoint to go back to.",
    signature="create(target_url: str, keys: Iterable[str]) -> str: the key that the link has",
)
