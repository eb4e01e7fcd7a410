"""The README's example: two people redeem a voucher that is valid once."""

import pytest
from django.db.models import F

from pginterleave.pytest_plugin import Interleave

from .vouchers import Voucher

pytestmark = pytest.mark.usefixtures("voucher_table")


def redeem_checking_first() -> bool:
    voucher = Voucher.objects.get(code="once")
    if voucher.redeemed:
        return False
    voucher.redeemed += 1
    voucher.save()
    return True


def redeem_in_one_statement() -> bool:
    return Voucher.objects.filter(code="once", redeemed=0).update(redeemed=F("redeemed") + 1) == 1


def test_it_is_redeemed_once(interleave: Interleave) -> None:
    Voucher.objects.create(code="once")
    interleave(redeem_in_one_statement)
