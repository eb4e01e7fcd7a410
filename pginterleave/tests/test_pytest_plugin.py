"""The fixture `interleave`, and what pytest loads wherever the package is installed."""

import subprocess
import sys

import pytest

from pginterleave import CannotExplore, progress
from pginterleave.progress import Progress
from pginterleave.pytest_plugin import Interleave

from . import counter
from .counter import explored


@pytest.mark.usefixtures("counter_table")
def test_a_race_fails_with_its_counterexample_and_one_without_is_returned(
    interleave: Interleave,
) -> None:
    with pytest.raises(AssertionError, match="The shortest is 1212"):
        interleave(*[counter.naive] * 2, setup=counter.setup, invariant=counter.counted(2))
    found = interleave(counter.hits, setup=counter.setup, invariant=counter.anything)
    assert found.schedules == 1


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
