"""What an exhibit is, and what several of them are made with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from django.db import connection, models

from lab.catalogue.creating_races import target
from lab.catalogue.race_definition import Race
from pginterleave import Outcome
from shorturl.strategies import Strategy, Verdict


@dataclass(frozen=True, kw_only=True)
class Exhibit(Race):
    """A race that was found in a real shortener.

    `source` is who had it and where, `lesson` a sentence to take away, and the `story` tells what
    they wrote, why it looked right and what happens.
    """

    operation: str = "museum"
    source: str
    lesson: str


class ExhibitModel(models.Model):
    """What the models of the exhibits have in common.

    Their app is not installed, so that no migration is looked for; each set-up makes its tables.
    """

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "museum"
        managed = False


def exhibit(
    *tables: type[ExhibitModel],
    prepare: Callable[[Strategy[Any]], object] = lambda _: None,
    **fields: Any,
) -> Exhibit:
    """Return an exhibit on these tables, where `prepare(strategy)` puts rows and constraints.

    They are made anew before each schedule.
    """

    def setup(strategy: Strategy[Any]) -> None:
        make_tables(*tables)
        prepare(strategy)

    return Exhibit(setup=setup, **{"observe": rows_of(*tables), **fields})


def wrong(function: Any, shows: str) -> Strategy[Any]:
    return Strategy(function.__name__, function, Verdict.WRONG, "–", shows)


def right(function: Any, shows: str) -> Strategy[Any]:
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


def rows_of(*tables: type[ExhibitModel]) -> Callable[[], str]:

    def rows() -> str:
        return "; ".join(
            ", ".join(map(str, model.objects.order_by("pk"))) or "no rows" for model in tables
        )

    return rows


def one_link_called(name: str, model: Any) -> Callable[[list[Outcome]], str]:
    """Return the invariant that one process has the link called `name`, and the others know it."""

    def invariant(outcomes: list[Outcome]) -> str:
        links = list(model.objects.all())
        if len(links) != 1:
            return f"{len(links)} links are called {name}"
        owners = [target(process) for process, each in enumerate(outcomes, 1) if each.returned]
        leads_to = links[0].target_url
        return "" if owners == [leads_to] else f"{name} leads to {leads_to}, and {owners} own it"

    return invariant


def everybody_owns_a(model: Any) -> Callable[[list[Outcome]], str]:
    """Return the invariant that the primary key each process gets leads to its own target."""

    def invariant(outcomes: list[Outcome]) -> str:
        for process, outcome in enumerate(outcomes, 1):
            link = model.objects.filter(pk=outcome.returned).first()
            if link is None or link.target_url != target(process):
                return f"{outcome.returned} does not lead to the target of process {process}"
        return ""

    return invariant
