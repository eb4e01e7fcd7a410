"""What is marked in the schedules that break, of explorations that were really run."""

import pytest

from shorturl.lab.marks import marks
from shorturl.lab.tests.conftest import Kept


pytestmark = pytest.mark.django_db  # else there is no database to explore in


def marked(explored: dict[str, Kept], what: str, order: str) -> dict[int, list[str]]:
    schedule = explored[what].schedule(order)
    assert schedule.broken
    return marks(schedule.steps)


def test_the_stale_read_and_the_lost_write(explored: dict[str, Kept]) -> None:
    """Both read 0; process 1 writes 1, and process 2 writes 1 over it."""
    print([(k, s.order, s.broken, marks(s.steps)) for k, e in explored.items() for s in e.schedules])
    assert 0
