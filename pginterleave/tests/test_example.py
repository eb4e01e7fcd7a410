"""The README's example: two people redeem a voucher that is good for once."""

from pathlib import Path

import pytest
from django.db.models import F, Subquery

from pginterleave import Outcome, explore
from pginterleave.pytest_plugin import Interleave

from .vouchers import Voucher, voucher_table  # noqa: F401

README = Path(__file__).parent.parent / "README.md"

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


def redeem_what_it_finds() -> bool:
    found = Voucher.objects.filter(code="once", redeemed=0).values("pk")[:1]
    return Voucher.objects.filter(pk=Subquery(found)).update(redeemed=F("redeemed") + 1) == 1


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


def test_checking_first_redeems_twice() -> None:
    result = explore([redeem_checking_first] * 2, setup=setup, invariant=invariant)
    assert (result.violating, result.schedules) == (4, 6)
    with pytest.raises(AssertionError, match="redeemed 2 times") as raised:
        result.assert_safe()
    assert str(raised.value) in README.read_text()


def test_a_subquery_is_not_looked_at_again() -> None:
    result = explore(
        [redeem_what_it_finds] * 2, setup=setup, invariant=invariant, split_autocommit=True
    )
    assert (result.violating, result.schedules) == (2, 4)
