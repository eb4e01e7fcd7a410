"""Which of wrk's answers the database has to have counted."""

import pytest

from benchmarks.wrk import Sample


@pytest.mark.parametrize(
    ("errors", "counted", "miscounted"),
    [
        ({}, 100, 0),
        ({}, 99, 1),  # one lost, however many connections there were
        ({}, 101, 1),  # one twice
        ({"an error as the answer": 3}, 97, 0),
        ({"an error as the answer": 3}, 96, 1),
        ({"an error as the answer": 3}, 100, 0),  # counted before they failed
        ({"not answered": 3, "not read": 1}, 104, 0),
        ({"not answered": 3, "not read": 1}, 105, 1),
        ({"not answered": 3, "not read": 1}, 99, 1),
        ({"too late": 3}, 100, 0),  # for us, and answered all the same
        ({"too late": 3}, 99, 1),
        ({"too late": 3}, 101, 1),
    ],
)
def test_what_is_not_counted(errors: dict[str, int], counted: int, miscounted: int) -> None:
    sample = Sample(requests=100, per_second=1, p50=1, p99=1, p999=1, errors=errors)
    assert sample.miscounted(counted) == miscounted
