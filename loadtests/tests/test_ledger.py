"""The ledger: the records of one process or of several add up to the same."""

import copy
import json
import random

import pytest

from loadtests.harness import ledger as ledgers
from loadtests.harness.ledger import Ledger


def note(ledger: Ledger, what: int) -> None:
    """Record one of all kinds of events, chosen by the number."""
    key, target_url = f"k{what % 3}", f"https://lab-aaaaa.invalid/{what}"
    ledger.sent += 1
    match what % 8:
        case 0:
            ledger.redirected(key, hits=str(what // 16), request=f"request {what}")
        case 1:
            ledger.created(key, target_url)
        case 2:
            ledger.edit(key, target_url)
        case 3:
            ledger.undid(key, target_url, "before")
        case 4:
            ledger.errors["500 IntegrityError"] += 1
            ledger.refused(target_url, "500 IntegrityError", "taken")
        case 5:
            ledger.unknown_redirects[key] += 1
        case 6:
            ledger.unknown_creates.append(target_url)
        case 7:
            ledger.unknown_edits.append(target_url)
            ledger.other += 1


def noted(numbers: range) -> Ledger:
    ledger = Ledger()
    for number in numbers:
        note(ledger, number)
    return ledger


def sums(ledger: Ledger) -> dict[str, object]:
    """Return the ledger with the number of cases, which are truncated, in place of them."""
    data = copy.deepcopy(ledger.as_data())
    for cut in ("contradictions", "undone_cases", "refusals"):
        data[cut] = len(data[cut])
    return data


def test_it_can_be_sent_as_json() -> None:
    ledger = noted(range(80))
    assert Ledger.from_data(json.loads(json.dumps(ledger.as_data()))) == ledger


def test_the_ledgers_of_workers_add_up() -> None:
    """The sum is that of one process, for a random distribution of the records."""
    whole, merged = noted(range(200)), Ledger()
    cuts = sorted(random.sample(range(1, 200), 5))
    for start, end in zip([0, *cuts], [*cuts, 200], strict=True):
        other = noted(range(start, end))
        before = sums(other)
        merged.merge(other)
        assert sums(other) == before
    assert sums(merged) == sums(whole)
    assert merged.acknowledged == whole.acknowledged == 25 * 4
    assert merged.unknown == whole.unknown == 25 * 3


def test_two_answers_that_contradict_each_other() -> None:
    """Two workers get the number 7 for a hit of the same key."""
    first, second = Ledger(), Ledger()
    first.redirected("a", hits="7", request="one")
    first.redirected("b", hits="7", request="other key")
    first.redirected("a", hits="8", request="other number")
    second.redirected("a", hits="7", request="two")
    second.redirected("a", hits=None, request="does not say")
    assert not first.contradictions
    first.merge(second)
    assert first.contradictions == [["a 7", "one", "two"]]


@pytest.mark.parametrize(
    ("kind", "is_open"),
    [
        ("500", True),
        ("408", True),
        ("503 OperationalError", True),
        ("503 RowLocked", True),
        ("no answer: TimeoutError", True),
        ("500 IntegrityError", False),
        ("not sent: ConnectionRefusedError", False),
        ("not processed: 503", False),
    ],
)
def test_which_failures_have_an_unknown_outcome(kind: str, is_open: bool) -> None:
    assert ledgers.leaves_open(kind) is is_open
