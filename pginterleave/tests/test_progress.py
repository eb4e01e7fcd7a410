"""What an exploration writes to stderr while it runs."""

import re

import pytest

import pginterleave as interleave
from pginterleave import Exploration, explore

from . import counter
from .counter import counter_table  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")


class Eager(interleave._ProgressBar):
    """Is drawn after every schedule, not after a second at the earliest."""

    def show(self, share: float, schedules: int, broken: int, seconds: float) -> None:
        self.next = 0.0
        super().show(share, schedules, broken, seconds)


def run(monkeypatch: pytest.MonkeyPatch, *, progress: bool) -> Exploration:
    monkeypatch.setattr(interleave, "_ProgressBar", Eager)
    processes = [counter.compare_and_swap] * 2
    return explore(
        processes, setup=counter.setup, invariant=lambda outcomes: "shown", progress=progress
    )


def test_the_progress_of_an_exploration_is_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(monkeypatch, progress=True)
    drawn = capsys.readouterr().err
    lines = re.findall(r"\r\[([#.]{30})\] +(\d+)%  (\d+) schedules, (\d+) violating", drawn)
    counts = [str(number) for number in range(1, found.schedules + 1)]
    assert [(schedules, broken) for _, _, schedules, broken in lines] == [
        *zip(counts, counts, strict=True)
    ]
    shares = [int(percent) for _, percent, _, _ in lines]
    assert 0 < shares[0] < 100
    assert shares == sorted(set(shares))
    assert shares[-1] == 100
    assert lines[-1][0] == "#" * 30
    assert drawn.endswith("\r\033[K")


def test_nothing_is_drawn_unless_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, progress=False)
    assert capsys.readouterr().err == ""
