"""django-treebeard: two children are added to one parent of a materialized path."""

from functools import partial

from django.db import IntegrityError, models
from treebeard.mp_tree import MP_Node

from .finding import Finding


class Category(MP_Node):
    name = models.CharField(max_length=20)

    class Meta:
        app_label = "found"


def root_alone() -> None:
    Category.objects.all().delete()
    Category.add_root(name="root")


def add(name: str) -> None:
    Category.objects.get(name="root").add_child(name=name)


def no_problems(outcomes: object) -> str:
    problems = [each for each in Category.find_problems() if each]
    return f"problems {problems}" if problems else ""


FINDING = Finding(
    package="django-treebeard",
    version="7.0.3",
    operation="`MP_Node.add_child()` to one parent, twice",
    breaks=False,
    says="Both may take the same path, which is unique: one of them gets an IntegrityError, and "
    "is to try again. The tree stays right.",
    setup=root_alone,
    processes=[partial(add, "jazz"), partial(add, "blues")],
    invariant=no_problems,
    expected=(IntegrityError,),
)
