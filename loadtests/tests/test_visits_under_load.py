"""Ledgers of visits that differ from the database, and their explanations."""

from collections.abc import Callable

import pytest

from loadtests.harness import reports
from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import Ledger
from loadtests.harness.reconciliation import reconcile
from loadtests.harness.result import ExitCode, LoadResult
from loadtests.tests.test_reconciliation import (
    DOUBLED,
    HELD,
    NOT_JUDGED,
    VIOLATED,
    agreeing,
    replaced,
    violations,
)

REFUSED = ExitCode.UNEXPECTED, ExitCode.UNEXPECTED  # the strategy failed without harm


def ledger() -> Ledger:
    ledger = Ledger(sent=4)
    for number in "123":
        ledger.redirected("hot", hits=number, request=f"request {number}")
    ledger.redirected("cold", hits="1", request="request 4")
    return ledger


def reconciled(
    of: Ledger,
    hot: tuple[int, int],
    cold: tuple[int, int] = (1, 1),
    *,
    verdict: str = "right",
    faults: bool = False,
) -> LoadResult:
    """Return the result if the links have these hits and visits."""
    found = [
        StoredLink(key, f"https://lab-aaaaa.invalid/{key}", hits, None, visits)
        for key, (hits, visits) in {"hot": hot, "cold": cold}.items()
    ]
    return reconcile(
        of,
        found,
        script="same_hour",
        strategy="some",
        operation="recording_visits",
        verdict=verdict,
        seeds=["hot", "cold"],
        faults=faults,
    )


def unanswered(of: Ledger) -> None:
    """Record another request without an answer."""
    of.unknown_redirects["hot"] += 1
    of.errors["no answer: ConnectionResetError"] += 1


def refused(of: Ledger) -> None:
    """Record another request, whose strategy failed: its hit may be counted."""
    of.unknown_redirects["hot"] += 1
    of.errors["500 IntegrityError"] += 1
    of.refused("GET hot, request 5", "500 IntegrityError", "duplicate key value")


@pytest.mark.parametrize(
    ("hot", "cold", "found"),
    [
        ((3, 3), (1, 1), {}),
        ((3, 2), (1, 1), {"missing": 1}),
        ((3, 4), (1, 1), {"extra": 1}),
        ((2, 2), (1, 1), {"lost_hits": 1}),  # the same visit and hit
        ((2, 3), (1, 1), {"lost_hits": 1, "extra": 1}),
        # A missing visit of one link is not balanced by an extra one of another.
        ((3, 2), (1, 2), {"missing": 1, "extra": 1}),
        ((4, 4), (1, 1), {"doubled": 1}),
        ((4, 3), (1, 1), {"doubled": 1, "missing": 1}),
    ],
)
def test_each_difference_is_found(
    hot: tuple[int, int], cold: tuple[int, int], found: dict[str, int]
) -> None:
    result = reconciled(ledger(), hot, cold)
    assert violations(result) == found
    assert result.lost == sum(count for name, count in found.items() if name != "doubled")
    assert result.exit_code == (ExitCode.UNEXPECTED if found else ExitCode.AS_EXPECTED)


@pytest.mark.parametrize(
    ("note", "hot", "codes"),
    [
        (agreeing, (3, 3), HELD),
        (agreeing, (3, 2), VIOLATED),
        (agreeing, (3, 4), VIOLATED),
        # A request without an answer made one hit and one visit, or none.
        (unanswered, (3, 3), HELD),
        (unanswered, (4, 4), HELD),
        (unanswered, (4, 3), VIOLATED),
        (unanswered, (3, 4), VIOLATED),
        (unanswered, (5, 5), DOUBLED),
        (unanswered, (2, 2), VIOLATED),
        # A repeated request is counted and recorded twice. That is no race, and hides none.
        (agreeing, (5, 5), DOUBLED),
        (agreeing, (5, 4), VIOLATED),
        # The hit of a failed request is counted or not. The strategy has failed.
        (refused, (4, 3), VIOLATED),
        (refused, (3, 3), REFUSED),
        (refused, (4, 4), REFUSED),
        (refused, (5, 5), DOUBLED),
        (replaced, (4, 4), (ExitCode.AS_EXPECTED, ExitCode.INCONCLUSIVE)),
        (replaced, (3, 3), NOT_JUDGED),
        (replaced, (4, 3), VIOLATED),
    ],
)
def test_unknown_requests_explain_as_many_differences_and_hide_none(
    note: Callable[[Ledger], None], hot: tuple[int, int], codes: tuple[ExitCode, ExitCode]
) -> None:
    of = ledger()
    note(of)
    results = [reconciled(of, hot, verdict=verdict) for verdict in ("right", "wrong")]
    assert tuple(result.exit_code for result in results) == codes


@pytest.mark.parametrize(
    ("hot", "code", "code_with_faults"), [((3, 3), 2, 0), ((4, 4), 0, 0), ((4, 3), 1, 1)]
)
def test_a_visit_that_waited_too_long(
    hot: tuple[int, int], code: int, code_with_faults: int
) -> None:
    of = ledger()
    of.unknown_redirects["hot"] += 1
    of.errors["503 OperationalError"] += 1
    assert reconciled(of, hot).exit_code == code
    assert reconciled(of, hot, faults=True).exit_code == code_with_faults


def test_a_hit_and_its_failure_prove_a_visit_lost() -> None:
    of = ledger()
    refused(of)
    result = reconciled(of, (4, 3), verdict="wrong")
    assert (result.lost, result.of) == (1, 5)
    assert result.proofs == [
        ["hot has 4 hits and 3 visits.", "GET hot, request 5: 500 IntegrityError"]
    ]
    rows = dict(reports.harm(result))
    assert rows["visits lost or too many"].startswith("1 of 5 = 20.0%")
    assert (rows["… lost"], rows["… too many"]) == ("1", "0")
