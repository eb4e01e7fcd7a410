"""Kutt: an hour without a row cannot be locked, so it gets two rows."""

from datetime import UTC, datetime
from functools import partial

from django.db import connection, models, transaction
from django.db.models import F

from lab.races.museum import exhibit
from pginterleave import Outcome
from shorturl.strategies.table import table

NOON = datetime(2022, 4, 29, 12, tzinfo=UTC)


class VisitedLink(exhibit.ExhibitModel):
    """A link; only its id matters here."""

    def __str__(self) -> str:
        return f"link {self.pk}"


class Visits(exhibit.ExhibitModel):
    """The visits of a link in one hour."""

    link_id = models.BigIntegerField()
    hour = models.DateTimeField()
    total = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.hour:%H} h: {self.total}"


def as_found(link_id: int, hour: datetime) -> None:
    """Lock the row of the hour and add one; insert the row if there is none.

    What goes wrong: at the beginning of an hour there is no row, and so nothing to lock. No
    process waits, and each inserts a row.
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
    """Lock the link, whose row exists, and then do as before.

    Why nothing can go wrong: the locked row exists, so one process waits for the other. It needs
    no unique key, but all code that writes the rows has to take the lock.
    """
    with transaction.atomic():
        VisitedLink.objects.select_for_update().get(pk=link_id)
        visits = Visits.objects.filter(link_id=link_id, hour=hour).first()
        if visits:
            Visits.objects.filter(pk=visits.pk).update(total=F("total") + 1)
        else:
            Visits.objects.create(link_id=link_id, hour=hour, total=1)


def check_one_row(outcomes: list[Outcome]) -> str:
    """Check that the hour has one row, with a visit of each process."""
    totals = list(Visits.objects.order_by("id").values_list("total", flat=True))
    if len(totals) != 1:
        return f"{len(totals)} rows for one hour"
    return "" if totals == [len(outcomes)] else f"total = {totals[0]}, not {len(outcomes)}"


EXHIBIT = exhibit.make_exhibit(
    VisitedLink,
    Visits,
    first_rows=[VisitedLink(id=1)],
    constraints={
        "mended": models.UniqueConstraint(fields=["link_id", "hour"], name="museum_visits_uk")
    },
    arguments=lambda _process: [1, NOON],
    name="row_lock_on_no_row",
    situation="Every process follows a link that has no visit in this hour yet.",
    invariant="The hour has one row, which counts every visit.",
    strategies=table(
        exhibit.wrong_strategy(
            as_found, "SELECT … FOR UPDATE of a row that may not exist, then INSERT"
        ),
        exhibit.right_strategy(mended, "a unique key, and INSERT … ON CONFLICT DO UPDATE"),
        exhibit.right_strategy(mended_with_a_lock, "the same, with a lock on a row that exists"),
    ),
    check=check_one_row,
    rows=partial(exhibit.describe_rows, Visits),
    source="Kutt 3.2.3: server/queries/visit.queries.js (seen live: 4 rows where 1 was due)",
    story=(
        "Visits are counted by the hour, in one row for each link and hour. The code locks that "
        "row inside a transaction before it adds to it, so two visits never lose each other. But "
        "the first visit of an hour finds no row, and SELECT … FOR UPDATE locks nothing without an "
        "error. Two first visits both find no row, and both insert one. From then on the hour has "
        "two rows, and a query that expects one row reads too little. No unique key forbids the "
        "second row, and none can be added while there are two."
    ),
    lesson="A row lock keeps no process out while there is no row; a unique key does.",
)
