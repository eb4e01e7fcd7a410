"""Write skew: two read the same rows, write different ones, and REPEATABLE READ lets them."""

from functools import partial

import pytest
from django.db import OperationalError, models, transaction

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave


class Doctor(models.Model):
    name = models.CharField(max_length=20, unique=True)
    on_call = models.BooleanField(default=True)


@transaction.atomic
def go_home(doctor: str) -> None:
    if Doctor.objects.filter(on_call=True).count() > 1:
        Doctor.objects.filter(name=doctor).update(on_call=False)


def somebody_is_on_call(outcomes: list[Outcome]) -> str:
    return "" if Doctor.objects.filter(on_call=True).exists() else "nobody is on call"


def two_doctors() -> None:
    Doctor.objects.bulk_create([Doctor(name="Ada"), Doctor(name="Ben")])


RACE = {
    "setup": two_doctors,
    "invariant": somebody_is_on_call,
    "expected": OperationalError,  # a refusal, which is to be tried again
}


def test_wrong(interleave: Interleave) -> None:
    doctors = [partial(go_home, "Ada"), partial(go_home, "Ben")]
    with pytest.raises(AssertionError, match="18 of 20 schedules violate"):
        interleave(*doctors, isolation_level="repeatable read", **RACE, count_all=True)


def test_right(interleave: Interleave) -> None:
    doctors = [partial(go_home, "Ada"), partial(go_home, "Ben")]
    found = interleave(*doctors, isolation_level="serializable", **RACE)
    assert found.schedules == 20
