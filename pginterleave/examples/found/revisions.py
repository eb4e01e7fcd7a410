"""django-reversion: two editors save the same page."""

from functools import partial

import reversion
from django.contrib.flatpages.models import FlatPage
from reversion.models import Revision, Version

from .finding import Finding

reversion.register(FlatPage)


def one_page() -> None:
    Revision.objects.all().delete()
    FlatPage.objects.all().delete()
    FlatPage.objects.create(url="/", title="Shop")


def edit(title: str) -> None:
    with reversion.create_revision():
        page = FlatPage.objects.get()
        page.title = title
        page.save()


def each_edit_has_a_version(outcomes: object) -> str:
    titles = sorted(each.field_dict["title"] for each in Version.objects.all())
    return "" if titles == ["one", "two"] else f"versions {titles}"


FINDING = Finding(
    package="django-reversion",
    version="6.4.0",
    operation="`create_revision()` around `save()`, by two editors",
    breaks=False,
    says="Each edit has a version, even if another save overwrites the edit.",
    setup=one_page,
    processes=[partial(edit, "one"), partial(edit, "two")],
    invariant=each_edit_has_a_version,
)
