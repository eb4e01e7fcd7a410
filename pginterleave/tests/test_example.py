"""The README's example: two people redeem a voucher that is valid once."""

import pytest
from django.db.models import F

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave

from .vouchers import Voucher

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("voucher_table")]


def redeem_checking_first() -> bool:
    voucher = Voucher.objects.get(code="once")
    if voucher.redeemed:
        return False
    voucher.redeemed += 1
    voucher.save()
    return True


def redeem_in_one_statement() -> bool:
    return Voucher.objects.filter(code="once", redeemed=0).update(redeemed=F("redeemed") + 1) == 1


def setup() -> None:
    Voucher.objects.update_or_create(code="once", defaults={"redeemed": 0})


def invariant(outcomes: list[Outcome]) -> str:
    redeemed = sum(outcome.returned is True for outcome in outcomes)
    return "" if redeemed == 1 else f"redeemed {redeemed} times"


def test_one_statement_redeems_once(interleave: Interleave) -> None:
    interleave(
        redeem_in_one_statement,
        redeem_in_one_statement,
        setup=setup,
        invariant=invariant,
        split_autocommit=True,
    )
