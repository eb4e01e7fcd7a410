"""The open load and the soak: what they make of numbers. A service is measured in CI."""

import sys

import pytest

from loadtests import overload, soak
from loadtests.faults import open_loop
from loadtests.faults.experiment import Experiment
from loadtests.faults.open_loop import OfferedLoad, figure, find_capacity


def test_the_capacity_is_the_best_goodput_of_rates_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half an answered rate does not end the search: the machine may have been busy meanwhile."""
    offered = []

    def offer(_: Experiment, rate: float) -> OfferedLoad:
        offered.append(rate)
        answered = 210 if rate == 400 else min(rate, 900)
        return OfferedLoad(rate, int(answered), 0, 0, seconds=1, longest=0)

    monkeypatch.setattr(open_loop, "offer", offer)
    assert find_capacity(object()) == 900  # type: ignore[arg-type]
    assert offered == [200, 400, 800, 1600, 3200]


def test_the_curve() -> None:
    loads = [OfferedLoad(999.6, 4_000, 1_000, 0, 5, 0.0421), OfferedLoad(5_000, 4_500, 0, 7, 5, 1)]
    lines = overload.table((1, 5), loads).splitlines()
    *_, first, second = (line.split("|")[1:-1] for line in lines)
    assert [cell.strip() for cell in first] == ["1 ×", "1,000", "800", "200", "0", "42 ms"]
    assert [cell.strip() for cell in second] == ["5 ×", "5,000", "900", "0", "7", "1,000 ms"]


def test_what_httperf_prints_is_read_or_named() -> None:
    assert figure(r"Reply status: .*5xx=(\d+)", "Reply status: 3xx=7 4xx=0 5xx=12") == 12
    with pytest.raises(OSError, match="httperf printed nothing like 'rate"):
        figure("rate (.)", "no file descriptors")


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "1441", "a"])
def test_minutes(
    given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", given])
    with pytest.raises(SystemExit):
        soak.main()
    assert f"'{given}' is not a whole number from 1 to 1440" in capsys.readouterr().err
