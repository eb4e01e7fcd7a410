"""A bar chart over time; templates/shorturl/chart.html draws it as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import NamedTuple

MAX_TICKS = 8  # labels below the chart; more of them would touch
MAX_MONTHS = 13  # labels of months, which are short
MAX_LINES = 5  # horizontal lines


class Bar(NamedTuple):
    at: datetime  # in UTC: the start of an hour, a day or a month
    people: int = 0
    bots: int = 0


class Tick(NamedTuple):
    label: str
    position: float  # in percent from the left or the top
    minor: bool = False  # hidden in a narrow window


def is_labelled(at: datetime, unit: str, step: int) -> bool:
    """Return whether the bar of a time gets a label when each `step`-th hour, day or month does.

    The bars may be of a shorter unit than the labels. A label each 7 days is on Mondays.
    """
    if unit == "hour":
        return at.hour % step == 0
    if unit == "day":
        days_since_label = at.weekday() if step == 7 else at.toordinal() % step
        return at.hour == 0 and days_since_label == 0
    begins_month = (at.day, at.hour) == (1, 0)
    return begins_month and (12 * at.year + at.month - 1) % step == 0


LONG_INTERVALS = [("month", months) for months in (1, 3, 12, 24, 60, 120, 240, 600)]
INTERVALS = [("hour", 3), ("hour", 6), ("hour", 12), ("day", 1), ("day", 2), ("day", 7)]
INTERVALS += LONG_INTERVALS


@dataclass(frozen=True)
class Chart:
    bars: Sequence[Bar]  # at least one, of the same unit and in order

    @property
    def top(self) -> int:
        """The value of the highest line, at the upper edge."""
        highest = max(bar.people + bar.bots for bar in self.bars)
        step = line_step(highest)
        return max(ceil(highest / step) * step, 1)

    @property
    def bar_width(self) -> float:
        return 0.8 if len(self.bars) <= 100 else 1  # of the distance between two bars

    @property
    def lines(self) -> list[Tick]:
        values = range(0, self.top + 1, line_step(self.top))
        return [Tick(short(value), round(100 - 100 * value / self.top, 2)) for value in values]

    @property
    def ticks(self) -> list[Tick]:
        times = [bar.at for bar in self.bars]
        labelled = choose_labelled(times)
        interval = 2 if len(labelled) <= MAX_TICKS else 3  # of the labels that are not minor
        ticks = []
        for number, index in enumerate(labelled):
            position = round(100 * (index + 0.5) / len(times), 2)  # the middle of the bar
            ticks.append(Tick(label(times[index], times), position, minor=number % interval > 0))
        return ticks


def choose_labelled(times: Sequence[datetime]) -> list[int]:
    """Return the indexes of times for labels, at the first interval that has few enough."""
    for unit, step in LONG_INTERVALS if are_months(times) else INTERVALS:
        labelled = [index for index, at in enumerate(times) if is_labelled(at, unit, step)]
        maximum = MAX_MONTHS if (unit, step) == ("month", 1) else MAX_TICKS
        if 0 < len(labelled) <= maximum:
            return labelled
    return [0]  # no interval suits: the first time alone gets a label


def line_step(highest: int) -> int:
    """Return the least of 1, 2, 5, 10, 20 … that has at most MAX_LINES steps up to `highest`."""
    steps = (digit * int(10**power) for power in range(20) for digit in (1, 2, 5))
    return next(step for step in steps if step * MAX_LINES >= highest)


def short(value: int) -> str:
    """Return a number as short text: 2,500, 25k, 2.5M."""
    for size, letter in (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"):
        if value >= max(size, 10_000):
            return f"{value / size:,.1f}".removesuffix(".0") + letter
    return f"{value:,}"


def are_months(times: Sequence[datetime]) -> bool:
    return len(times) > 1 and (times[1] - times[0]).days >= 28


def label(at: datetime, times: Sequence[datetime]) -> str:
    """Return an hour as 15:00, a day as 3 May, and the day that begins a month as May or 2026."""
    if at.hour:
        return f"{at:%H:%M}"
    if not are_months(times) and (times[-1] - times[0]).days <= 120:
        return f"{at.day} {at:%b}"
    return f"{at:%b}" if at.month > 1 else f"{at.year}"
