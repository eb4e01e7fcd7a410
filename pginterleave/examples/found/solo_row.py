"""django-solo: two requests are the first to ask for the configuration."""

from django.db import models
from solo.models import SingletonModel

from .finding import Finding


class Configuration(SingletonModel):
    title = models.CharField(max_length=20, default="Shop")

    class Meta:
        app_label = "found"


def ask() -> int:
    return Configuration.get_solo().pk


def one_row(outcomes: object) -> str:
    rows = Configuration.objects.count()
    return "" if rows == 1 else f"{rows} rows"


FINDING = Finding(
    package="django-solo",
    version="2.5.1",
    operation="the first `get_solo()`, twice",
    breaks=False,
    says="The row has a fixed primary key, and get_or_create looks again when it is taken.",
    setup=lambda: Configuration.objects.all().delete(),
    processes=[ask, ask],
    invariant=one_row,
)
