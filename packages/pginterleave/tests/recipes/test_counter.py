"""Counters: read, add one, write loses an update."""

import pytest
from django.db import models
from django.db.models import F

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Page(models.Model):
    views = models.IntegerField(default=0)


def count_in_python() -> None:
    page = Page.objects.get()
    page.views += 1
    page.save(update_fields=["views"])


def count_in_the_database() -> None:
    page = Page.objects.get()
    page.views = F("views") + 1
    page.save(update_fields=["views"])


def both_count(outcomes: list[Outcome]) -> str:
    views = Page.objects.get().views
    return "" if views == 2 else f"views = {views}"


def test_wrong(interleave: Interleave) -> None:
    Page.objects.create()
    with pytest.raises(AssertionError, match="12 of 14 schedules violate"):
        interleave(count_in_python, invariant=both_count, count_all=True)


def test_right(interleave: Interleave) -> None:
    Page.objects.create()
    assert interleave(count_in_the_database, invariant=both_count).schedules == 14
