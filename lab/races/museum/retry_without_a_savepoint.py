"""django-link-shortener: try again after an IntegrityError, in an aborted transaction."""

from collections.abc import Iterable
from functools import partial

from django.db import IntegrityError, models, transaction

from lab.races.creating import target_of
from lab.races.museum import exhibit
from shorturl.strategies.table import Strategy, table


class RetriedLink(exhibit.ExhibitModel):
    """A link whose key is drawn at random."""

    key = models.TextField(primary_key=True)
    target_url = models.TextField()

    def __str__(self) -> str:
        return f"{self.key} → {self.target_url}"


def as_found(target_url: str, keys: Iterable[str]) -> str:
    """Insert, and try another key if this one is taken.

    What goes wrong: the first IntegrityError aborts the caller's transaction. PostgreSQL would
    refuse the second try. Django raises TransactionManagementError before it sends it.
    """
    for key in keys:
        try:
            RetriedLink.objects.create(key=key, target_url=target_url)
        except IntegrityError:
            continue
        return key
    raise KeyError("no key was free")


def mended(target_url: str, keys: Iterable[str]) -> str:
    """Insert in an inner atomic(), and try another key if this one is taken.

    Why nothing can go wrong: inside the caller's transaction the inner atomic() is a savepoint.
    Only the refused INSERT is undone, and the transaction continues.
    """
    for key in keys:
        try:
            with transaction.atomic():
                RetriedLink.objects.create(key=key, target_url=target_url)
        except IntegrityError:
            continue
        return key
    raise KeyError("no key was free")


def create_in_a_request(strategy: Strategy, process: int) -> object:
    """Create a link in the transaction that ATOMIC_REQUESTS begins."""
    with transaction.atomic():
        return strategy.function(target_of(process), ["same", f"own{process}"])


EXHIBIT = exhibit.make_exhibit(
    RetriedLink,
    name="retry_without_a_savepoint",
    situation="Every process creates a link in a transaction, and all draw the same key first.",
    invariant="Each process gets a link that leads to its own target.",
    strategies=table(
        exhibit.wrong_strategy(
            as_found, "catches IntegrityError and continues in the same transaction"
        ),
        exhibit.right_strategy(mended, "the same with a savepoint round the INSERT"),
    ),
    process=create_in_a_request,
    check=partial(exhibit.check_own_links, RetriedLink),
    source="django-link-shortener 1.1: create(), 3 tries on IntegrityError without a savepoint",
    story=(
        "The code expects that two processes may draw the same key, leaves the decision to the "
        "unique constraint, and tries up to three times. In a shell this works, because every "
        "statement is a transaction there. In a site with ATOMIC_REQUESTS, or inside a caller's "
        "atomic(), the first collision breaks the transaction. After an error PostgreSQL refuses "
        "every statement until the transaction ends. So the second try cannot succeed, and "
        "everything else that the request has written is lost as well."
    ),
    lesson="An error that is caught inside a transaction needs a savepoint to go back to.",
)
