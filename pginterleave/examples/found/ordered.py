"""django-ordered-model: two rows are appended."""

from django.db import models
from ordered_model.models import OrderedModel

from .finding import Finding


class Chapter(OrderedModel):
    title = models.CharField(max_length=20)

    class Meta(OrderedModel.Meta):
        app_label = "found"


def append() -> None:
    Chapter.objects.create(title="new")


def each_has_its_place(outcomes: object) -> str:
    places = sorted(Chapter.objects.values_list("order", flat=True))
    return "" if places == [0, 1, 2] else f"places {places}"


def one_chapter() -> None:
    Chapter.objects.all().delete()
    append()


FINDING = Finding(
    package="django-ordered-model",
    version="3.7.4",
    operation="`OrderedModel.save()` of two new rows",
    breaks=True,
    says="Both take the highest place plus one. A unique constraint on the place refuses one of "
    "them instead.",
    setup=one_chapter,
    processes=[append, append],
    invariant=each_has_its_place,
)
