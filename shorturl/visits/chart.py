"""A bar chart over time; templates/shorturl/chart.html draws it as SVG.

Lengths are percentages or the chart's own units, so the bars fill the width and the labels keep
their size. The style sheet sets the colours, and hides some labels in a narrow window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

TICKS_MAX = 8  # labels below the chart; more of them would touch
MONTHS_MAX = 13  # labels of months, which are short
LINES_MAX = 5  # horizontal lines


class Count(NamedTuple):
    at: datetime  # in UTC: the start of an hour, a day or a month
    people: int
    bots: int


class TimeBar(NamedTuple):  # in the chart's units; bots are above people
    of: Count
    x: int
    people_y: int
    bots_y: int


class Tick(NamedTuple):
    label: str
    place: float  # in percent from the left or the top
    minor: bool = False  # hidden in a narrow window


def every(
    hours: int = 0, days: int = 0, months: int = 0, years: int = 0
) -> Callable[[datetime], bool]:
    """Return a test for times at this interval."""
    if hours:
        return lambda at: at.hour % hours == 0
    if days == 7:
        return lambda at: at.hour == 0 and at.weekday() == 0
    if days:
        return lambda at: at.hour == 0 and at.toordinal() % days == 0
    if months:
        return lambda at: (at.day, at.hour) == (1, 0) and (at.month - 1) % months == 0
    return lambda at: (at.month, at.day, at.hour) == (1, 1, 0) and at.year % years == 0


# Intervals with the number of labels that fit. The first with at most that many labels is used.
STEPS = [
    *((every(hours=hours), TICKS_MAX) for hours in (3, 6, 12)),
    *((every(days=days), TICKS_MAX) for days in (1, 2, 7)),
]
LONG_STEPS = [
    (every(months=1), MONTHS_MAX),
    (every(months=3), TICKS_MAX),
    *((every(years=years), TICKS_MAX) for years in (1, 2, 5, 10, 20, 50)),
]


@dataclass(frozen=True)
class Chart:
    counts: Sequence[Count]  # at least one, of the same unit and in order

    @cached_property
    def top(self) -> int:
        """The value of the highest line, at the upper edge."""
        most = max(count.people + count.bots for count in self.counts)
        step = line_step(most)
        return max(-(-most // step) * step, 1)

    @cached_property
    def bars(self) -> list[TimeBar]:
        return [
            TimeBar(each, x, self.top - each.people, self.top - each.people - each.bots)
            for x, each in enumerate(self.counts)
            if each.people or each.bots
        ]

    @property
    def bar_width(self) -> float:
        return 0.8 if len(self.counts) <= 100 else 1

    @property
    def lines(self) -> list[Tick]:
        values = range(0, self.top + 1, line_step(self.top))
        return [Tick(short(value), round(100 - 100 * value / self.top, 2)) for value in values]

    @property
    def ticks(self) -> list[Tick]:
        times = [count.at for count in self.counts]
        steps = LONG_STEPS if are_months(times) else STEPS + LONG_STEPS
        few = (at for test, most in steps if 0 < len(at := list(filter(test, times))) <= most)
        chosen = set(next(few, times[:1]))
        places = [(at, 100 * (x + 0.5) / len(times)) for x, at in enumerate(times) if at in chosen]
        shown = 2 if len(places) <= TICKS_MAX else 3  # a narrow window shows every second or third
        return [
            Tick(label(at, times), round(place, 2), minor=bool(number % shown))
            for number, (at, place) in enumerate(places)
        ]


def line_step(most: int) -> int:
    """Return the least of 1, 2, 5, 10, 20, 50 … that has at most LINES_MAX steps up to `most`."""
    power = 1
    while True:  # ends, because `power` grows
        for digit in (1, 2, 5):
            if digit * power * LINES_MAX >= most:
                return digit * power
        power *= 10


def short(value: int) -> str:
    """Return a number as short text: 2,500, 25k, 2.5M."""
    for size, letter in (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"):
        if value >= max(size, 10_000):
            return f"{value / size:,.1f}".removesuffix(".0") + letter
    return f"{value:,}"


def are_months(times: Sequence[datetime]) -> bool:
    return len(times) > 1 and (times[1] - times[0]).days >= 28


def label(at: datetime, times: Sequence[datetime]) -> str:
    if at.hour:
        return f"{at:%H:%M}"
    if not are_months(times) and (times[-1] - times[0]).days <= 120:
        return f"{at.day} {at:%b}"
    return f"{at:%b}" if at.month > 1 else f"{at.year}"
