"""What an exhibit is, and what several exhibits share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Self

from django.db import connection, models

from lab.races.creating import target_of
from lab.races.race import Race
from pginterleave import Outcome
from shorturl.strategies.table import Strategy, Verdict


@dataclass(frozen=True, kw_only=True)
class Exhibit(Race):
    """A race that was found in a real project.

    `source` names the project and the place, `lesson` is one sentence to remember, and `story`
    says what the code does, why it looked right and what happens.
    """

    operation: str = "museum"
    source: str
    lesson: str


class ExhibitModel(models.Model):
    """The base of the exhibits' models.

    Their app is not installed, so it needs no migrations; each set-up makes the tables.
    """

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "museum"
        managed = False


def wrong_strategy(function: Any, shows: str) -> Strategy:
    """Return a function as a strategy that violates the invariant; `shows` is its description."""
    return Strategy(function.__name__, function, Verdict.WRONG, step="–", shows=shows)


def right_strategy(function: Any, shows: str) -> Strategy:
    """Return a function as a strategy that keeps the invariant; `shows` is its description."""
    return Strategy(function.__name__, function, Verdict.RIGHT, step="–", shows=shows)


def make_tables(*exhibit_models: type[ExhibitModel]) -> None:
    """Create the tables of models anew, without rows."""
    with connection.schema_editor() as editor:
        for model in exhibit_models:
            editor.execute(f"DROP TABLE IF EXISTS {editor.quote_name(model._meta.db_table)}")
            editor.create_model(model)


def describe_rows(*exhibit_models: type[ExhibitModel]) -> str:
    """Return all rows of each model, as the lab shows them."""
    tables = [", ".join(map(str, model.objects.order_by("pk"))) for model in exhibit_models]
    return "; ".join(table or "no rows" for table in tables)


def make_exhibit(
    *exhibit_models: type[ExhibitModel],
    first_rows: Sequence[ExhibitModel] = (),
    constraints: Mapping[str, models.UniqueConstraint] = MappingProxyType({}),
    arguments: Callable[[int], Sequence[object]] = lambda _process: (),
    **fields: Any,
) -> Exhibit:
    """Return an exhibit; each schedule begins with new tables of the models and the first rows.

    `constraints` are of the last model, by the names of the strategies that have one. A process
    calls the strategy with the `arguments` of its number. Other `fields` of the exhibit win.
    """

    def set_up(strategy: Strategy) -> None:
        make_tables(*exhibit_models)
        if constraint := constraints.get(strategy.name):
            with connection.schema_editor() as editor:
                editor.add_constraint(exhibit_models[-1], constraint)
        for row in first_rows:
            type(row).objects.bulk_create([row])

    def call_strategy(strategy: Strategy, process: int) -> object:
        return strategy.function(*arguments(process))

    rows = partial(describe_rows, *exhibit_models)
    defaults: dict[str, Any] = {"setup": set_up, "process": call_strategy, "rows": rows}
    return Exhibit(**defaults | fields)


def check_one_owner(name: str, model: Any, outcomes: list[Outcome]) -> str:
    """Return what is wrong, or "" if one link is there, and only its own process returned True."""
    links = list(model.objects.all())
    if len(links) != 1:
        return f"{len(links)} links are called {name}"
    target_url = links[0].target_url
    owners = [target_of(process) for process, outcome in enumerate(outcomes, 1) if outcome.returned]
    return "" if owners == [target_url] else f"{name} leads to {target_url}, and {owners} own it"


def check_own_links(model: Any, outcomes: list[Outcome]) -> str:
    """Return what is wrong, or "" if each process got the primary key of a link to its target."""
    for process, outcome in enumerate(outcomes, 1):
        link = model.objects.filter(pk=outcome.returned).first()
        if link is None or link.target_url != target_of(process):
            return f"{outcome.returned} does not lead to the target of process {process}"
    return ""
