"""Ledgers that agree with the database or not: which differences are found, and their proofs."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from loadtests.harness import reports
from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import Ledger
from loadtests.harness.reconciliation import reconcile
from loadtests.harness.result import ExitCode, LoadResult, wilson

A, B, C = (f"https://lab-aaaaa.invalid/{name}" for name in "abc")
HOT = "https://lab-aaaaa.invalid/hot"
NEW = f"{HOT}/new"
Row = tuple[str, int] | None  # the target and the hits of a key; None without it
DEFAULTS: dict[str, Any] = {
    "script": "lost_update",
    "strategy": "some",
    "operation": "resolving",
    "verdict": "right",
    "seeds": ["hot"],
}


def ledger() -> Ledger:
    """Return the ledger of a run with a hot key, three creates, an edit and four redirects."""
    ledger = Ledger(sent=8)
    for hits in "123":
        ledger.redirected("hot", hits=hits, request=f"request {hits}")
    ledger.redirected("a", hits="1", request="request 4")
    for key, target_url in (("a", A), ("b", B), ("c", C)):
        ledger.created(key, target_url)
    ledger.edit("hot", NEW)
    return ledger


def links(**changes: Row) -> list[StoredLink]:
    """Return the rows of the database after that run, with the changes."""
    rows: dict[str, Row] = {"hot": (NEW, 3), "a": (A, 1), "b": (B, 0), "c": (C, 0), **changes}
    return [StoredLink(key, *row) for key, row in rows.items() if row]


def reconciled(of: Ledger, found: Iterable[StoredLink], **changes: Any) -> LoadResult:
    return reconcile(of, found, **{**DEFAULTS, **changes})


def violations(result: LoadResult) -> dict[str, int]:
    """Return the counts of violations that are not zero."""
    names = ("lost_hits", "doubled", "stolen", "missing", "extra", "undone", "failed")
    return {name: getattr(result, name) for name in names if getattr(result, name)}


HELD = ExitCode.AS_EXPECTED, ExitCode.UNEXPECTED  # of a right and of a wrong strategy
VIOLATED = ExitCode.UNEXPECTED, ExitCode.AS_EXPECTED
DOUBLED = ExitCode.UNEXPECTED, ExitCode.INCONCLUSIVE
NOT_JUDGED = ExitCode.INCONCLUSIVE, ExitCode.INCONCLUSIVE
HIDES_NOTHING = ExitCode.AS_EXPECTED, ExitCode.INCONCLUSIVE


def agreeing(of: Ledger) -> None:
    pass


def unknown_redirect(of: Ledger) -> None:
    of.unknown_redirects["hot"] += 1


def unknown_create(of: Ledger) -> None:
    of.unknown_creates.append(f"{A}/unknown")


def replaced_create(of: Ledger) -> None:
    of.errors["500"] += 1
    unknown_create(of)


def unknown_edit(of: Ledger) -> None:
    of.unknown_edits.append(f"{HOT}/newer")


def replaced(of: Ledger) -> None:
    """Record a redirect answered by a 500 that is not the lab's."""
    of.errors["500"] += 1
    unknown_redirect(of)


def same_number(of: Ledger) -> None:
    """Record two redirects with the same number of hits."""
    of.redirected("hot", hits="3", request="another request")


def same_number_and_one_dropped(of: Ledger) -> None:
    same_number(of)
    unknown_redirect(of)


def late_edit(of: Ledger) -> None:
    """Record an edit without an answer that takes effect after a later, acknowledged one.

    The editor sees it, and it stays until the end.
    """
    of.unknown_edits.append(HOT)
    of.undid("hot", NEW, HOT)
    of.edit("hot", NEW)


def all_redirects_dropped(of: Ledger) -> None:
    of.redirects.clear()
    of.unknown_redirects.update(hot=3, a=1)


@pytest.mark.parametrize(
    ("note", "changes", "found", "codes"),
    [
        (agreeing, {}, {}, HELD),
        (agreeing, {"hot": (NEW, 2)}, {"lost_hits": 1}, VIOLATED),
        (agreeing, {"a": (B, 1), "b": (A, 0)}, {"stolen": 2}, VIOLATED),
        (agreeing, {"a": None}, {"missing": 1, "lost_hits": 1}, VIOLATED),
        (agreeing, {"b": None}, {"missing": 1}, VIOLATED),
        (agreeing, {"hot": (HOT, 3)}, {"undone": 1}, VIOLATED),
        # A lost hit of one link is not balanced by an extra one of another.
        (agreeing, {"hot": (NEW, 2), "b": (B, 1)}, {"lost_hits": 1, "doubled": 1}, VIOLATED),
        # Repeated requests: redirects, creates, an older edit, and one beside a lost create.
        (agreeing, {"hot": (NEW, 4)}, {"doubled": 1}, DOUBLED),
        (agreeing, {"b": (B, 1)}, {"doubled": 1}, DOUBLED),
        (agreeing, {"d": (A, 0)}, {"doubled": 1}, DOUBLED),
        (agreeing, {"hot": (HOT, 4)}, {"doubled": 1, "undone": 1}, DOUBLED),
        (agreeing, {"hot": (NEW, 4), "b": None}, {"doubled": 1, "missing": 1}, VIOLATED),
        (same_number, {"hot": (NEW, 5)}, {"lost_hits": 1, "doubled": 1}, VIOLATED),
        # Dropped answers of requests that took effect or not: as many differences, and no more.
        (unknown_redirect, {"hot": (NEW, 4)}, {}, HELD),
        (unknown_redirect, {}, {}, HELD),
        (unknown_redirect, {"b": (B, 1)}, {"doubled": 1}, DOUBLED),
        (unknown_redirect, {"hot": (NEW, 5)}, {"doubled": 1}, DOUBLED),
        (unknown_redirect, {"hot": (NEW, 2)}, {"lost_hits": 1}, VIOLATED),
        (unknown_create, {"d": (f"{A}/unknown", 0)}, {}, HELD),
        (unknown_create, {}, {}, HELD),
        (unknown_create, {"d": (f"{A}/else", 0)}, {"doubled": 1}, DOUBLED),
        (unknown_create, {"a": None}, {"missing": 1, "lost_hits": 1}, VIOLATED),
        (
            unknown_create,
            {"d": (f"{A}/unknown", 0), "e": (f"{A}/unknown", 0)},
            {"doubled": 1},
            DOUBLED,
        ),
        (unknown_edit, {"hot": (f"{HOT}/newer", 3)}, {}, HELD),
        (unknown_edit, {"hot": (HOT, 3)}, {"undone": 1}, VIOLATED),
        (same_number_and_one_dropped, {"hot": (NEW, 4)}, {"lost_hits": 1}, VIOLATED),
        (all_redirects_dropped, {}, {}, NOT_JUDGED),
        (all_redirects_dropped, {"hot": (HOT, 3)}, {}, NOT_JUDGED),
        # Answers that were replaced.
        (replaced, {"hot": (NEW, 4)}, {}, HIDES_NOTHING),
        (replaced, {}, {}, NOT_JUDGED),
        (replaced, {"hot": (NEW, 2)}, {"lost_hits": 1}, VIOLATED),
        (replaced_create, {}, {}, HIDES_NOTHING),  # its link is there or not, and takes no key
        # Delayed edits.
        (late_edit, {"hot": (HOT, 3)}, {}, HELD),
        (late_edit, {"hot": (B, 3)}, {"undone": 1}, VIOLATED),
    ],
)
def test_each_difference_is_found_and_a_misdeed_of_a_proxy_proves_nothing(
    note: Callable[[Ledger], None],
    changes: dict[str, Row],
    found: dict[str, int],
    codes: tuple[ExitCode, ExitCode],
) -> None:
    of = ledger()
    note(of)
    right, wrong = (
        reconciled(of, links(**changes), verdict=verdict) for verdict in ("right", "wrong")
    )
    assert (violations(right), right.violated) == (found, found != {})
    assert (right.exit_code, wrong.exit_code) == codes
    assert (right.requests, right.acknowledged) == (8, of.acknowledged)
    assert (right.unknown, wrong.unknown) == (of.unknown, of.unknown)


def failing(kind: str) -> Ledger:
    """Return the ledger with one error of that kind."""
    of = ledger()
    of.sent += 1
    of.errors[kind] += 1
    return of


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
        ("not processed: 503", 0, 0),
    ],
)
def test_a_request_that_fails(kind: str, code: int, code_with_faults: int) -> None:
    """Injected faults explain an unavailable service, and nothing else."""
    result = reconciled(failing(kind), links())
    assert (result.exit_code, result.errors) == (code, {kind: 1})
    assert result.failed == (code == 1)
    assert reconciled(failing(kind), links(), faults=True).exit_code == code_with_faults


@pytest.mark.parametrize(("kind", "lost"), [("500 IntegrityError", 1), ("500", 0), ("403", 0)])
def test_a_create_is_lost_when_the_lab_says_that_it_failed(kind: str, lost: int) -> None:
    result = reconciled(failing(kind), links(), operation="creating", verdict="wrong")
    assert (result.lost, result.of) == (lost, 7 + lost)
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


def test_a_run_with_an_unknown_outcome_shows_its_losses() -> None:
    of = ledger()
    replaced(of)
    result = reconciled(of, links())
    assert result.reason == "hits lost: 0 of 7; outcome of 1 request unknown: 1 × 500"
    assert "  hits lost                0 of 7 = 0.0%" in reports.text(result)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 0, 0.0, 0.0), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1000, 0.0002, 0.0056)],
)
def test_the_interval(count: int, of: int, low: float, high: float) -> None:
    """The values are those of R's binom.confint(count, of, methods="wilson")."""
    assert [*wilson(count, of)] == pytest.approx([low, high], abs=5e-5)


# --- Proofs --------------------------------------------------------------------------------------


def test_two_redirects_prove_a_lost_hit() -> None:
    of = ledger()
    for number in (1, 2, 3):
        of.redirected("hot", hits=str(number), request=f"another request {number}")
    result = reconciled(of, links())
    assert result.lost == 3
    assert result.proofs == [  # two are enough
        [f"Two redirects of hot made the counter {n}:", f"request {n}", f"another request {n}"]
        for n in (1, 2)
    ]


def test_two_creates_prove_a_stolen_key() -> None:
    of = ledger()
    of.created("a", f"{A}/mine")
    result = reconciled(of, links(), operation="creating")
    assert (result.stolen, result.lost) == (1, 1)
    assert result.proofs == [["Two creates were told that a is theirs:", A, f"{A}/mine"]]


def test_creates_that_all_failed_are_a_race() -> None:
    failed = Ledger(sent=1)
    failed.errors["500 IntegrityError"] += 1
    result = reconciled(failed, [], operation="creating", verdict="wrong", seeds=())
    assert (result.lost, result.of, result.exit_code) == (1, 1, ExitCode.AS_EXPECTED)


def test_second_links_to_a_target() -> None:
    made = Ledger(sent=2)
    for key in "ab":
        made.created(key, A)
    found = [StoredLink(key, A, 0) for key in "ab"]
    result = reconciled(made, found, operation="reusing", verdict="wrong", seeds=())
    assert (result.lost, result.of, result.exit_code) == (1, 2, ExitCode.AS_EXPECTED)
    assert result.proofs == [[f"2 links lead to {A}, and one was requested:", "a", "b"]]


def test_acknowledged_uses_beyond_a_limit_are_lost() -> None:
    """A lost hit lets a use be sold again. A failed use is lost as well."""
    sold = Ledger(sent=4)
    for _ in range(3):
        sold.redirected("a", hits=None, request="")
    sold.errors["500 IntegrityError"] += 1
    changes = {"operation": "last_use", "verdict": "wrong", "seeds": ["a"]}
    result = reconciled(sold, [StoredLink("a", A, 2, max_hits=2)], **changes)
    assert (result.lost, result.of, result.exit_code) == (2, 4, ExitCode.AS_EXPECTED)


def test_links_beyond_a_quota_are_counted_in_the_database() -> None:
    """Each spender has a quota. A repeated request makes another link within the quota."""
    made = Ledger(sent=4)
    found = []
    for key, spender in (("a", 0), ("b", 0), ("c", 0), ("d", 1)):
        target_url = f"https://lab-aaaaa.invalid/{spender}/{key}"
        made.created(key, target_url)
        found.append(StoredLink(key, target_url, 0))
    changes = {"operation": "spending", "verdict": "wrong", "seeds": ()}
    result = reconciled(made, found, limit=2, **changes)
    assert (result.lost, result.of, result.exit_code) == (1, 4, ExitCode.AS_EXPECTED)
    assert reconciled(made, found, limit=3, **changes).lost == 0
