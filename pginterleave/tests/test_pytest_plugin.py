"""The fixture `interleave`, and what pytest loads wherever the package is installed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F, Subquery

from pginterleave import CannotExplore, progress
from pginterleave.progress import Progress
from pginterleave.pytest_plugin import Interleave

from . import counter, test_example
from .counter import explored
from .vouchers import Voucher

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.usefixtures("voucher_table")
def test_a_race_fails_with_the_counterexample_of_the_documentation(interleave: Interleave) -> None:
    race: dict[str, Any] = {"setup": test_example.setup, "invariant": test_example.invariant}
    with pytest.raises(AssertionError, match=r"4 of 6 .* The shortest is 1212") as raised:
        interleave(*[test_example.redeem_checking_first] * 2, **race)
    assert str(raised.value) in README.read_text()

    def redeem_what_it_finds() -> bool:
        found = Voucher.objects.filter(code="once", redeemed=0).values("pk")[:1]
        return Voucher.objects.filter(pk=Subquery(found)).update(redeemed=F("redeemed") + 1) == 1

    result = explored(*[redeem_what_it_finds] * 2, split_autocommit=True, **race)
    assert (result.violating, result.schedules) == (2, 4)
    assert interleave(test_example.redeem_in_one_statement, **race).schedules == 1


@pytest.mark.django_db
def test_a_test_in_a_transaction_is_told_what_to_do(interleave: Interleave) -> None:
    with pytest.raises(CannotExplore, match=r"django_db\(transaction=True\)"):
        interleave(counter.naive, setup=counter.setup, invariant=counter.anything)


def test_a_project_without_django_can_load_the_plugin() -> None:
    code = "import sys, pginterleave.pytest_plugin; sys.exit('django' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("counter_table")
def test_the_callback_is_told_how_far_the_search_is() -> None:
    told: list[Progress] = []
    processes = [lambda: 1, counter.naive, counter.naive]  # the first sends nothing
    explored(*processes, invariant=counter.counted(2), progress=told.append)
    assert [(each.schedules, each.violating) for each in told] == [
        *[(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 4)]
    ]
    shares = [each.share for each in told]
    assert shares[0] > 0
    assert shares == sorted({*shares})
    assert shares[-1] == pytest.approx(1)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.usefixtures("counter_table")
def test_a_bar_is_drawn_for_a_person_who_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    explored(counter.naive, counter.naive)
    assert ("schedules, " in capsys.readouterr().err) == terminal
