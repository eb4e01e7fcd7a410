"""django-mptt: two children are added to one parent."""

from functools import partial

from django.db import models
from mptt.models import MPTTModel, TreeForeignKey

from .finding import Finding


class Genre(MPTTModel):
    name = models.CharField(max_length=20)
    parent = TreeForeignKey("self", models.CASCADE, null=True, related_name="children")

    class Meta:
        app_label = "found"


def root_alone() -> None:
    Genre.objects.all().delete()
    Genre.objects.create(name="root")


def add(name: str) -> None:
    Genre.objects.create(name=name, parent=Genre.objects.get(name="root"))


def the_tree_is_one(outcomes: object) -> str:
    rows = Genre.objects.values_list("lft", "rght")
    edges = sorted(edge for row in rows for edge in row)
    return "" if edges == [1, 2, 3, 4, 5, 6] else f"edges {edges}"


FINDING = Finding(
    package="django-mptt",
    version="0.20.0",
    operation="`MPTTModel.save()` of two children of one parent",
    breaks=True,
    says="Both take the same place in the nested sets. It holds where a lock or a queue lets one "
    "writer at a time change a tree.",
    setup=root_alone,
    processes=[partial(add, "jazz"), partial(add, "blues")],
    invariant=the_tree_is_one,
)
