"""Kutt: a row lock on an hour that has no row yet, and so a second row for the same hour."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import connection, models, transaction
from django.db.models import F

from lab.catalogue.museum.exhibit import (
    ExhibitModel,
    add_unique,
    exhibit,
    right,
    rows_of,
    wrong,
)
from pginterleave import Outcome
from shorturl.strategies import Strategy, table

NOON = datetime(2022, 4, 29, 12, tzinfo=UTC)


class VisitedLink(ExhibitModel):
    """A link, of which only the id matters here."""

    def __str__(self) -> str:
        return f"link {self.pk}"


class Visits(ExhibitModel):
    """The visits of a link in one hour."""

    link_id = models.BigIntegerField()
    hour = models.DateTimeField()
    total = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.hour:%H} h: {self.total}"


def as_found(link_id: int, hour: datetime) -> None:
    """Lock the row of the hour and add one; insert it when there is none.

    What goes wrong: in the first moments of an hour there is no row, and so nothing to lock.
    Everybody goes past, and everybody inserts.
    """
    with transaction.atomic():
        visits = Visits.objects.select_for_update().filter(link_id=link_id, hour=hour).first()
        if visits:
            Visits.objects.filter(pk=visits.pk).update(total=F("total") + 1)
        else:
            Visits.objects.create(link_id=link_id, hour=hour, total=1)


def mended(link_id: int, hour: datetime) -> None:
    """Insert the row of the hour, or add one to it.

    Why nothing can go wrong: the table now has UNIQUE (link_id, hour), and one statement inserts
    or adds. The second process waits for the first, and then adds to what the row holds.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO museum_visits (link_id, hour, total) VALUES (%s, %s, 1)"
            " ON CONFLICT (link_id, hour) DO UPDATE SET total = museum_visits.total + 1",
            [link_id, hour],
        )


def mended_with_a_lock(link_id: int, hour: datetime) -> None:
    """Lock the link, which is there, and then do as before.

    Why nothing can go wrong: the row that is locked exists, so that one waits for the other. It
    needs no unique key, and everybody has to remember the lock.
    """
    with transaction.atomic():
        VisitedLink.objects.select_for_update().get(pk=link_id)
        visits = Visits.objects.filter(link_id=link_id, hour=hour).first()
        if visits:
            Visits.objects.filter(pk=visits.pk).update(total=F("total") + 1)
        else:
            Visits.objects.create(link_id=link_id, hour=hour, total=1)


def one_link(strategy: Strategy[Any]) -> None:
    VisitedLink.objects.create(id=1)
    if strategy.name not in ("as_found", "mended_with_a_lock"):
        add_unique(Visits, "link_id", "hour")


def one_row_counts_all(outcomes: list[Outcome]) -> str:
    totals = list(Visits.objects.order_by("id").values_list("total", flat=True))
    if len(totals) != 1:
        return f"{len(totals)} rows for one hour"
    return "" if totals == [len(outcomes)] else f"total = {totals[0]}, not {len(outcomes)}"


EXHIBIT = exhibit(
    VisitedLink,
    Visits,
    prepare=one_link,
    name="row_lock_on_no_row",
    situation="Everybody follows a link that nobody has followed in this hour.",
    must_hold="The hour has one row, which counts everybody.",
    strategies=table(
        wrong(as_found, "SELECT … FOR UPDATE of a row that may not exist, then INSERT"),
        right(mended, "a unique key, and INSERT … ON CONFLICT DO UPDATE"),
        right(mended_with_a_lock, "the same, with a lock on a row that does exist"),
    ),
    processes=lambda strategy, number: [partial(strategy.function, 1, NOON)] * number,
    invariant=one_row_counts_all,
    observe=rows_of(Visits),
    source="Kutt 3.2.3: server/queries/visit.queries.js (seen live: 4 rows where 1 was due)",
    story=(
        "Visits are counted by the hour, one row for each link and hour. They lock that row inside "
        "a transaction before they add to it, and so two visits can never lose each other. But the "
        "first visit of an hour finds no row, and SELECT … FOR UPDATE of nothing locks nothing and "
        "says nothing. Two first visits both find nothing, and both insert. From then on the hour "
        "has two rows, and a query that takes it for one row reads too little. No unique key says "
        "that there must not be two; it can no longer be added while there are."
    ),
    lesson="A row lock holds nobody back where there is no row yet; a unique key does.",
    signature="visit(link_id: int, hour: datetime) -> None: count one visit in museum_visits",
)
