"""Isolation levels: the same code loses an update, or is refused, as the level has it."""

import pytest
from django.db import OperationalError, models, transaction

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Meter(models.Model):
    reading = models.IntegerField(default=0)


@transaction.atomic
def add_one() -> None:
    meter = Meter.objects.get()
    meter.reading += 1
    meter.save()


def nothing_is_lost(outcomes: list[Outcome]) -> str:
    """A process that was refused can try again; a lost update is not noticed."""
    done = sum(outcome.raised is None for outcome in outcomes)
    reading = Meter.objects.get().reading
    return "" if reading == done else f"{done} were told that they were counted: {reading}"


def test_wrong(interleave: Interleave) -> None:
    Meter.objects.create()
    with pytest.raises(AssertionError, match="12 of 14 schedules violate"):
        interleave(
            add_one, invariant=nothing_is_lost, isolation_level="read committed", count_all=True
        )


def test_right(interleave: Interleave) -> None:
    Meter.objects.create()
    options = {"invariant": nothing_is_lost, "expected": OperationalError}
    found = interleave(add_one, isolation_level="repeatable read", **options)
    assert found.schedules == 14
