"""Records compared with what the service has counted, and the records of several workers."""

from collections import Counter
from typing import Any

import pytest

from loadtests.records import Records, Result, Verdict

HELD, VIOLATED, UNKNOWN = 0, 1, 2


def compare(counted: int, *, failed: dict[str, int] | None = None, **requests: int) -> Result:
    """Compare the requests of one key with the number that the service has counted."""
    counters = {name: Counter(key=number) for name, number in requests.items()}
    records = Records(failed=Counter(failed), **counters)
    hits = Counter(key=counted)
    return Result(records, Verdict(hits, lost=records.acknowledged - hits))


# What clients know of their requests, what the service has counted, and the result.
@pytest.mark.parametrize(
    ("requests", "counted", "exit_code", "lost", "unanswered"),
    [
        ({"sent": 3, "acknowledged": 3}, 3, HELD, 0, 0),
        ({"sent": 3, "acknowledged": 3}, 2, VIOLATED, 1, 0),
        ({"sent": 3, "acknowledged": 2}, 2, HELD, 0, 1),
        ({"sent": 3, "acknowledged": 2}, 3, HELD, 0, 1),
        ({"sent": 3, "acknowledged": 2}, 1, VIOLATED, 1, 1),  # the unanswered one hides no loss
        ({"sent": 3, "acknowledged": 3}, 4, UNKNOWN, 0, 0),  # as if a proxy had repeated one
        ({"sent": 3, "acknowledged": 2, "refused": 1}, 2, HELD, 0, 0),
        ({"sent": 3, "acknowledged": 2, "refused": 1}, 3, UNKNOWN, 0, 0),  # a refused one counted
        # An exception in the service violates, although no hit is lost.
        ({"sent": 3, "acknowledged": 2, "failed": {"IntegrityError": 1}}, 2, VIOLATED, 0, 0),
        # No request was acknowledged.
        ({"sent": 3, "refused": 3}, 0, UNKNOWN, 0, 0),
        ({"sent": 3}, 3, UNKNOWN, 0, 3),
        # The script does not count what it sends: nothing can be said, not even of a loss.
        ({"acknowledged": 3}, 3, UNKNOWN, 0, -3),
        ({"sent": 2, "acknowledged": 2, "refused": 1}, 1, UNKNOWN, 1, -1),
        ({}, 0, UNKNOWN, 0, 0),
    ],
)
def test_the_outcome_is_held_violated_or_unknown(
    requests: dict[str, Any], counted: int, exit_code: int, lost: int, unanswered: int
) -> None:
    result = compare(counted, **requests)
    assert (result.exit_code, result.lost, result.unknown) == (exit_code, lost, unanswered)
    assert result.outcome.startswith(["held", "violated", "unknown"][exit_code])


def test_the_rows_say_what_was_lost_of_how_many_and_by_which_keys() -> None:
    result = compare(1, sent=7, acknowledged=4, refused=1, failed={"IntegrityError": 1})
    assert result.rows("hits lost") == {
        "outcome": "violated",
        "hits lost": "3 of 5 = 60.0%",
        "greatest loss": "3 of key",
        "sent": "7",
        "acknowledged": "4",
        "refused": "1",
        "failed": "1 IntegrityError",
        "unknown outcome": "1",
        "counted": "1",
    }
    sent = Counter(a=1, b=4, c=3, d=2, e=5)
    rows = Result(Records(sent, sent), Verdict(sent, lost=sent - Counter(e=4))).rows("hits lost")
    assert rows["greatest loss"] == "4 of b, 3 of c, 2 of d"
    assert "1 more acknowledged than sent" in compare(1, acknowledged=1).outcome
    # Without a verdict nothing is known of a loss.
    for result in (compare(0), Result(Records(), Verdict(Counter(), Counter()), "no service")):
        assert result.rows("hits lost")["hits lost"] == "unknown"
    assert result.outcome == "no service"


def test_records_of_workers_are_added_once() -> None:
    master, workers = Records(), [Records(), Records()]
    for number in (1, 2):
        for worker in workers:
            worker.sent["key"] += number
            worker.failed["IntegrityError"] += 1
            master.add(worker.take())
    assert master.sent == {"key": 6}
    assert master.failed == {"IntegrityError": 4}
    assert not workers[0].sent
