"""Times that a clock has set are compared by their distance from the start of their schedule."""

import datetime
import re

_TIME = re.compile(r"'?\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
MARGIN = datetime.timedelta(seconds=10)  # so much may be between setup and a schedule
UNITS = {"days": 1440, "h": 60, "min": 1}  # in minutes


def write_time(time: datetime.datetime) -> str:
    """Write a time as text that is the same for each zone."""
    return time.astimezone(datetime.UTC).isoformat(" ")


def parse_time(text: str | None) -> datetime.datetime | None:
    """Return the time that a text is, of the local zone if it names none; None for another text."""
    if not text or not _TIME.match(text):
        return None
    try:
        return datetime.datetime.fromisoformat(text.strip("'")).astimezone()
    except ValueError:
        return None


def write_distance(time: datetime.datetime, began: float) -> str:
    """Write a time as `now + 30 days`, by the minute; `began` is in seconds since 1970."""
    distance = time - datetime.datetime.fromtimestamp(began, datetime.UTC) + MARGIN
    minutes = distance // datetime.timedelta(minutes=1)
    sign = "-" if minutes < 0 else "+"
    unit = next(unit for unit, length in UNITS.items() if minutes % length == 0)
    return f"now {sign} {abs(minutes) // UNITS[unit]} {unit}" if minutes else "now"
