"""What an exhibit is, and what several exhibits share."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from django.db import connection, models

from lab.races.creating import target
from lab.races.race import Race
from pginterleave import Outcome
from shorturl.strategies.table import Strategy, Verdict


@dataclass(frozen=True, kw_only=True)
class Exhibit(Race):
    """A race that was found in a real shortener.

    `source` names the project and the place, `lesson` is one sentence to remember, and `story`
    says what the code does, why it looked right and what happens.
    """

    operation: str = "museum"
    source: str
    lesson: str


class ExhibitModel(models.Model):
    """The base of the exhibits' models.

    Their app is not installed, so it needs no migrations; each set-up creates the tables.
    """

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "museum"
        managed = False


def wrong(function: Any, shows: str) -> Strategy:
    return Strategy(function.__name__, function, Verdict.WRONG, "–", shows)


def right(function: Any, shows: str) -> Strategy:
    return Strategy(function.__name__, function, Verdict.RIGHT, "–", shows)


def make_tables(*tables: type[ExhibitModel]) -> None:
    with connection.schema_editor() as editor:
        for model in tables:
            editor.execute(f"DROP TABLE IF EXISTS {editor.quote_name(model._meta.db_table)}")
            editor.create_model(model)


def add_unique(model: type[ExhibitModel], *fields: str, nulls_distinct: bool | None = None) -> None:
    with connection.schema_editor() as editor:
        name = "_".join([model._meta.db_table, *fields, "uk"])
        editor.add_constraint(
            model, models.UniqueConstraint(fields=fields, name=name, nulls_distinct=nulls_distinct)
        )


def rows_of(*tables: type[ExhibitModel]) -> str:
    return "; ".join(
        ", ".join(map(str, model.objects.order_by("pk"))) or "no rows" for model in tables
    )


def one_owner_of(name: str, model: Any, outcomes: list[Outcome]) -> str:
    """Check that one link is called `name`, and that only its owner was told so."""
    links = list(model.objects.all())
    if len(links) != 1:
        return f"{len(links)} links are called {name}"
    owners = [target(process) for process, outcome in enumerate(outcomes, 1) if outcome.returned]
    leads_to = links[0].target_url
    return "" if owners == [leads_to] else f"{name} leads to {leads_to}, and {owners} own it"


def own_links_in(model: Any, outcomes: list[Outcome]) -> str:
    """Check that each process is returned a primary key that leads to its own target."""
    for process, outcome in enumerate(outcomes, 1):
        link = model.objects.filter(pk=outcome.returned).first()
        if link is None or link.target_url != target(process):
            return f"{outcome.returned} does not lead to the target of process {process}"
    return ""
