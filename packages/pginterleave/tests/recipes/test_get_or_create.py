"""get_or_create without a unique constraint: two rows where one was meant."""

import pytest
from django.db import models

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class LooseTag(models.Model):
    name = models.CharField(max_length=20)


class Tag(models.Model):
    name = models.CharField(max_length=20, unique=True)


def tag_without_constraint() -> int:
    return LooseTag.objects.get_or_create(name="django")[0].pk


def tag_with_constraint() -> int:
    return Tag.objects.get_or_create(name="django")[0].pk


def the_same(outcomes: list[Outcome]) -> str:
    found = {outcome.returned for outcome in outcomes}
    return "" if len(found) == 1 else f"{len(found)} tags"


def test_wrong(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="18 of 20 schedules violate"):
        interleave(tag_without_constraint, invariant=the_same, count_all=True)


def test_right(interleave: Interleave) -> None:
    assert interleave(tag_with_constraint, invariant=the_same).schedules == 14
