"""What a run proves: its verdict, whatever a proxy between clients and service does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loadtests.harness import reports
from loadtests.harness.ledger import Ledger
from loadtests.harness.result import ExitCode, LoadResult
from loadtests.tests.test_reconciliation import (
    HOT,
    NEW,
    A,
    B,
    Row,
    ledger,
    links,
    reconciled,
    unknown_create,
    unknown_redirect,
    violations,
)


@pytest.mark.parametrize(
    ("verdict", "counts", "code"),
    [
        ("right", {}, 0),
        ("right", {"failed": 1}, 1),
        ("right", {"doubled": 1}, 1),
        ("wrong", {"lost": 1}, 0),
        ("wrong", {"undone": 1}, 0),
        ("wrong", {}, 1),
        ("wrong", {"failed": 1}, 1),  # a redirect that fails is no race
        ("wrong", {"doubled": 1, "undone": 1}, 1),  # a repeated request is none, either
        ("right alone, wrong inside a transaction", {}, 0),
        ("right alone, wrong inside a transaction", {"lost": 1}, 1),
    ],
)
def test_the_exit_code(verdict: str, counts: dict[str, int], code: int) -> None:
    result = LoadResult("script", "some", "resolving", verdict)
    assert replace(result, **counts).exit_code == code  # type: ignore[arg-type]


# --- Behind a proxy ------------------------------------------------------------------------------


def failing(kind: str) -> Ledger:
    """Return the ledger with one error of that kind."""
    of = ledger()
    of.sent += 1
    of.errors[kind] += 1
    return of


def untouched(of: Ledger) -> None:
    pass


def replaced(of: Ledger) -> None:
    """Have a redirect answered by a 500 that is not the lab's."""
    of.errors["500"] += 1
    unknown_redirect(of)


def same_number(of: Ledger) -> None:
    """Have two redirects told the same number of hits."""
    of.redirected("hot", hits="3", request="another request")


def same_number_and_one_dropped(of: Ledger) -> None:
    same_number(of)
    unknown_redirect(of)


def late_edit(of: Ledger) -> None:
    """Have an edit without an answer come into effect after the next one, which was acknowledged.

    The editor sees it, and at the end it is there.
    """
    of.unknown_edits.append(HOT)
    of.undid("hot", NEW, HOT)
    of.edit("hot", NEW)


def all_redirects_dropped(of: Ledger) -> None:
    of.redirects.clear()
    of.unknown_redirects.update(hot=3, a=1)


HELD = ExitCode.AS_EXPECTED, ExitCode.UNEXPECTED  # of a right and of a wrong strategy
VIOLATED = ExitCode.UNEXPECTED, ExitCode.AS_EXPECTED
DOUBLED = ExitCode.UNEXPECTED, ExitCode.INCONCLUSIVE
NOT_JUDGED = ExitCode.INCONCLUSIVE, ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(
    ("proxy", "changes", "codes"),
    [
        (untouched, {}, HELD),
        (untouched, {"hot": (NEW, 2)}, VIOLATED),
        # Repeated requests: the redirects' alone, an older edit's, and with a hit that was lost.
        (untouched, {"hot": (NEW, 4)}, DOUBLED),
        (untouched, {"d": (A, 0)}, DOUBLED),
        (untouched, {"hot": (HOT, 4)}, DOUBLED),
        (untouched, {"hot": (NEW, 4), "b": None}, VIOLATED),
        (same_number, {"hot": (NEW, 5)}, VIOLATED),
        # Answers that were dropped, of requests that were counted or not.
        (unknown_redirect, {"hot": (NEW, 4)}, HELD),
        (unknown_redirect, {}, HELD),
        (unknown_redirect, {"hot": (NEW, 2)}, VIOLATED),
        (unknown_create, {"d": (f"{A}/unknown", 0)}, HELD),
        (same_number_and_one_dropped, {"hot": (NEW, 4)}, VIOLATED),
        (all_redirects_dropped, {}, NOT_JUDGED),
        (all_redirects_dropped, {"hot": (HOT, 3)}, NOT_JUDGED),
        # Answers that were replaced.
        (replaced, {"hot": (NEW, 4)}, NOT_JUDGED),
        (replaced, {}, NOT_JUDGED),
        (replaced, {"hot": (NEW, 2)}, VIOLATED),
        # Delayed edits.
        (late_edit, {"hot": (HOT, 3)}, HELD),
        (late_edit, {"hot": (B, 3)}, VIOLATED),
    ],
)
def test_what_a_proxy_does_proves_nothing_and_hides_no_loss(
    proxy: Callable[[Ledger], None],
    changes: dict[str, Row],
    codes: tuple[ExitCode, ExitCode],
) -> None:
    of = ledger()
    proxy(of)
    results = [reconciled(of, links(**changes), verdict=verdict) for verdict in ("right", "wrong")]
    assert tuple(result.exit_code for result in results) == codes


@pytest.mark.parametrize(
    ("kind", "code", "code_with_faults"),
    [
        ("500 IntegrityError", 1, 1),  # the strategy failed, as the lab says
        ("503 Contended", 1, 1),
        ("503 OperationalError", 2, 0),
        ("503", 2, 0),
        ("500", 2, 2),
        ("408", 2, 2),
        ("404", 2, 2),
        ("302", 2, 2),  # to somewhere else
        ("no answer: ConnectionResetError", 0, 0),
        ("not sent: ConnectionRefusedError", 2, 0),
    ],
)
def test_a_request_that_fails(kind: str, code: int, code_with_faults: int) -> None:
    """Faults that are injected excuse a service that is unavailable, and nothing else."""
    result = reconciled(failing(kind), links())
    assert (result.exit_code, result.errors) == (code, {kind: 1})
    assert result.failed == (code == 1)
    assert reconciled(failing(kind), links(), faults=True).exit_code == code_with_faults


@pytest.mark.parametrize(("kind", "lost"), [("500 IntegrityError", 1), ("500", 0), ("403", 0)])
def test_a_create_is_lost_when_the_lab_says_that_it_failed(kind: str, lost: int) -> None:
    result = reconciled(failing(kind), links(), operation="creating", verdict="wrong")
    assert (result.lost, result.of) == (lost, 8 * lost)
    assert result.exit_code == (ExitCode.AS_EXPECTED if lost else ExitCode.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("of", "changes", "reason"),
    [
        (Ledger(), {}, "no request was sent"),
        (ledger(), {"reason": "cut short"}, "cut short"),
        (
            failing("not sent: ConnectionRefusedError"),
            {},
            "the service became unavailable: 1 connections",
        ),
        (Ledger(sent=2, unknown_edits=["", ""]), {}, "none of the 2 requests was acknowledged"),
        (failing("408"), {}, "it is unknown what became of the requests with other answers: 1 × 4"),
    ],
)
def test_an_inconclusive_run_shows_no_loss(
    of: Ledger, changes: dict[str, Any], reason: str
) -> None:
    found = [] if "reason" in changes else links()
    result = reconciled(of, found, **changes)
    assert result.exit_code == ExitCode.INCONCLUSIVE
    assert result.reason.startswith(reason)
    assert (violations(result), result.lost, result.proofs) == ({}, 0, [])
    assert "hits lost" not in reports.text(result)
