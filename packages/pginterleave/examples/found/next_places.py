"""Two processes take the next number, or the next place in an order or in a tree."""

from functools import partial

from django.db import IntegrityError, models, transaction
from mptt.models import MPTTModel, TreeForeignKey
from ordered_model.models import OrderedModel
from sequences import get_next_value
from sequences.models import Sequence
from treebeard.mp_tree import MP_Node

from .finding import Finding, empty, equal


@transaction.atomic
def number() -> int:
    return get_next_value("invoices")


def first_and_second(outcomes) -> str:
    numbers = sorted(each.returned for each in outcomes)
    return "" if numbers == [1, 2] else f"numbers {numbers}"


INVOICES = Finding(
    package="django-sequences",
    operation="`get_next_value()` in a transaction, twice",
    breaks=False,
    says="One INSERT … ON CONFLICT DO UPDATE: the second one waits for the COMMIT of the first.",
    setup=lambda: empty(Sequence),
    processes=[number, number],
    invariant=first_and_second,
)


class Chapter(OrderedModel):
    title = models.CharField(max_length=20)


def append() -> None:
    Chapter.objects.create(title="new")


def one_chapter() -> None:
    empty(Chapter)
    append()


CHAPTERS = Finding(
    package="django-ordered-model",
    operation="`OrderedModel.save()` of two new rows",
    breaks=True,
    says="Both take the highest place plus one. A unique constraint on the place would refuse one "
    "of them.",
    setup=one_chapter,
    processes=[append, append],
    invariant=equal(
        [0, 1, 2], lambda: sorted(Chapter.objects.values_list("order", flat=True)), "places {}"
    ),
)


class Genre(MPTTModel):
    name = models.CharField(max_length=20)
    parent = TreeForeignKey("self", models.CASCADE, null=True, related_name="children")


def root_genre() -> None:
    empty(Genre)
    Genre.objects.create(name="root")


def add_genre(name: str) -> None:
    Genre.objects.create(name=name, parent=Genre.objects.get(name="root"))


GENRES = Finding(
    package="django-mptt",
    operation="`MPTTModel.save()` of two children of one parent",
    breaks=True,
    says="Both take the same place in the nested sets. It holds if a lock or a queue lets one "
    "writer at a time change a tree.",
    setup=root_genre,
    processes=[partial(add_genre, "jazz"), partial(add_genre, "blues")],
    invariant=equal(
        [1, 2, 3, 4, 5, 6],
        lambda: sorted(edge for row in Genre.objects.values_list("lft", "rght") for edge in row),
        "edges {}",
    ),
)


class Category(MP_Node):
    name = models.CharField(max_length=20)


def root_category() -> None:
    empty(Category)
    Category.add_root(name="root")


def add_category(name: str) -> None:
    Category.objects.get(name="root").add_child(name=name)


CATEGORIES = Finding(
    package="django-treebeard",
    operation="`MP_Node.add_child()` to one parent, twice",
    breaks=False,
    says="Both may take the same path, which is unique: one of them gets an IntegrityError and has "
    "to try again. The tree stays correct.",
    setup=root_category,
    processes=[partial(add_category, "jazz"), partial(add_category, "blues")],
    invariant=equal([], lambda: [each for each in Category.find_problems() if each], "problems {}"),
    expected=(IntegrityError,),
)
