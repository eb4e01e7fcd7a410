"""Job queues: two workers take the same job, until each skips what another has locked."""

import pytest
from django.db import models, transaction

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Job(models.Model):
    worker = models.IntegerField(null=True)


def take_first() -> int | None:
    job = Job.objects.filter(worker=None).order_by("id").first()
    if job is None:
        return None
    job.worker = 1
    job.save()
    return job.pk


@transaction.atomic
def take_with_skip_locked() -> int | None:
    free = Job.objects.filter(worker=None).select_for_update(skip_locked=True)
    job = free.order_by("id").first()
    if job is None:
        return None
    job.worker = 1
    job.save()
    return job.pk


def each_its_own(outcomes: list[Outcome]) -> str:
    taken = [outcome.returned for outcome in outcomes]
    return "" if None not in taken and len(set(taken)) == 2 else f"taken: {taken}"


def two_jobs() -> None:
    Job.objects.bulk_create([Job(), Job()])


def test_wrong(interleave: Interleave) -> None:
    with pytest.raises(AssertionError, match="12 of 14 schedules violate"):
        interleave(take_first, setup=two_jobs, invariant=each_its_own, count_all=True)


def test_right(interleave: Interleave) -> None:
    found = interleave(take_with_skip_locked, setup=two_jobs, invariant=each_its_own)
    assert found.schedules == 20
