"""What an exhibit is, and what all of them are made with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from django.db import connection, models

from lab.catalogue.race_definition import Race
from shorturl.strategies import Strategy, Verdict


@dataclass(frozen=True)
class Exhibit:
    """A race that was found in a real shortener.

    `source` is who had it and where; `what` tells a teacher what they wrote, why it looked right
    and what happens; `lesson` is a sentence to take away. `signature` is that of the race's
    strategies, and so of a function that `manage.py race check` judges; such a function finds the
    constraints there that `mended` has.
    """

    race: Race
    source: str
    what: str
    lesson: str
    signature: str


class ExhibitModel(models.Model):
    """What the models of the exhibits have in common.

    Their app is not installed, so that no migration is looked for; each case makes its tables.
    """

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        abstract = True
        app_label = "museum"
        managed = False


def wrong(function: Any, shows: str) -> Strategy[Any]:
    """Return `function` as a strategy that some schedule breaks."""
    return Strategy(function.__name__, function, Verdict.WRONG, "–", shows)


def right(function: Any, shows: str) -> Strategy[Any]:
    """Return `function` as a strategy that no schedule breaks."""
    return Strategy(function.__name__, function, Verdict.RIGHT, "–", shows)


def execute(statements: str) -> None:
    """Execute some statements in one go."""
    with connection.cursor() as cursor:
        cursor.execute(statements)


def rows_of(model: type[ExhibitModel]) -> Callable[[], str]:
    """Return a function that says what the rows of `model` hold."""

    def rows() -> str:
        return ", ".join(map(str, model.objects.order_by("pk"))) or "no rows"

    return rows
