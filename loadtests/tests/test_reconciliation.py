"""A ledger that agrees with the database, one that differs in one way, and the result."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from loadtests.harness.lab_api import StoredLink
from loadtests.harness.ledger import Ledger
from loadtests.harness.reconciliation import BUSY, ExitCode, LoadResult, reconcile, wilson

A, B, C = (f"https://lab-aaaaa.invalid/{name}" for name in "abc")
HOT = "https://lab-aaaaa.invalid/hot"
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
    ledger.edit("hot", f"{HOT}/new")
    for _ in range(8):
        ledger.took(5, at=1001.0)
    return ledger


def links(**changes: StoredLink | None) -> list[StoredLink]:
    """Return what the database has after that run, but for the changes."""
    found: dict[str, StoredLink | None] = {
        "hot": StoredLink("hot", f"{HOT}/new", 3),
        "a": StoredLink("a", A, 1),
        "b": StoredLink("b", B, 0),
        "c": StoredLink("c", C, 0),
    }
    return [link for link in {**found, **changes}.values() if link]


def reconciled(of: Ledger, found: Iterable[StoredLink], **changes: Any) -> LoadResult:
    return reconcile(of, found, **{**DEFAULTS, **changes})


def violations(result: LoadResult) -> dict[str, int]:
    """Return what is not zero of what must be."""
    names = ("lost_hits", "doubled", "stolen", "missing", "undone", "failed")
    return {name: getattr(result, name) for name in names if getattr(result, name)}


def test_a_ledger_that_agrees() -> None:
    result = reconciled(ledger(), links())
    assert violations(result) == {}
    assert (result.violated, result.exit_code) == (False, ExitCode.AS_EXPECTED)
    assert (result.requests, result.acknowledged, result.edits) == (8, 8, 1)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"hot": StoredLink("hot", f"{HOT}/new", 2)}, {"lost_hits": 1}),
        ({"hot": StoredLink("hot", f"{HOT}/new", 4)}, {"doubled": 1}),
        ({"b": StoredLink("b", B, 1)}, {"doubled": 1}),
        ({"a": StoredLink("a", B, 1), "b": StoredLink("b", A, 0)}, {"stolen": 2}),
        ({"a": None}, {"missing": 1, "lost_hits": 1}),
        ({"b": None}, {"missing": 1}),
        ({"d": StoredLink("d", A, 0)}, {"doubled": 1}),
        ({"hot": StoredLink("hot", HOT, 3)}, {"undone": 1}),
        (
            # One lost here is not made up for by one too many there.
            {"hot": StoredLink("hot", f"{HOT}/new", 2), "b": StoredLink("b", B, 1)},
            {"lost_hits": 1, "doubled": 1},
        ),
    ],
)
def test_each_difference_is_found(
    changes: dict[str, StoredLink | None], found: dict[str, int]
) -> None:
    result = reconciled(ledger(), links(**changes))
    assert violations(result) == found
    assert (result.violated, result.exit_code) == (True, ExitCode.UNEXPECTED)
    assert reconciled(ledger(), links(**changes), verdict="wrong").exit_code is ExitCode.AS_EXPECTED


def unknown_redirect(ledger: Ledger) -> None:
    ledger.unknown_redirects["hot"] += 1


def unknown_create(ledger: Ledger) -> None:
    ledger.unknown_creates.append(f"{A}/unknown")


def unknown_edit(ledger: Ledger) -> None:
    ledger.unknown_edits += 1


@pytest.mark.parametrize(
    ("note", "allowed", "too_much"),
    [
        (
            unknown_redirect,
            {"hot": StoredLink("hot", f"{HOT}/new", 4)},
            {"b": StoredLink("b", B, 1)},
        ),
        (unknown_redirect, {}, {"hot": StoredLink("hot", f"{HOT}/new", 5)}),
        (unknown_redirect, {}, {"hot": StoredLink("hot", f"{HOT}/new", 2)}),
        (
            unknown_create,
            {"d": StoredLink("d", f"{A}/unknown", 0)},
            {"d": StoredLink("d", f"{A}/else", 0)},
        ),
        (unknown_create, {}, {"a": None}),
        (
            unknown_create,
            {},
            {"d": StoredLink("d", f"{A}/unknown", 0), "e": StoredLink("e", f"{A}/unknown", 0)},
        ),
        (unknown_edit, {"hot": StoredLink("hot", f"{HOT}/newer", 3)}, {"a": StoredLink("a", B, 1)}),
    ],
)
def test_the_unknown_is_allowed_for_and_no_more(
    note: Callable[[Ledger], None],
    allowed: dict[str, StoredLink | None],
    too_much: dict[str, StoredLink | None],
) -> None:
    of = ledger()
    note(of)
    result = reconciled(of, links(**allowed))
    assert (violations(result), result.unknown) == ({}, 1)
    assert reconciled(of, links(**too_much)).violated


def failing(kind: str) -> Ledger:
    """Return the ledger with one error of that kind."""
    of = ledger()
    of.sent += 1
    of.errors[kind] += 1
    return of


@pytest.mark.parametrize("kind", ["500 IntegrityError", "503 OperationalError", "404", "503"])
def test_a_request_that_fails(kind: str) -> None:
    result = reconciled(failing(kind), links())
    assert (violations(result), result.exit_code) == ({"failed": 1}, ExitCode.UNEXPECTED)
    assert result.errors == {kind: 1}


@pytest.mark.parametrize(
    ("kind", "failed"),
    [
        ("503 OperationalError", 0),
        ("503", 0),
        ("not sent: ConnectionRefusedError", 0),
        ("no answer: ConnectionResetError", 0),
        ("500 IntegrityError", 1),
        ("503 Contended", 1),
    ],
)
def test_faults_on_purpose_excuse_a_database_that_is_away(kind: str, failed: int) -> None:
    result = reconciled(failing(kind), links(), faults=True)
    assert (result.failed, result.reason) == (failed, "")


def test_a_failed_create_is_a_lost_one() -> None:
    result = reconciled(failing("500 IntegrityError"), links(), operation="creating")
    assert (result.lost, result.of, result.share) == (1, 8, 1 / 8)


@pytest.mark.parametrize(
    ("verdict", "violated", "code"),
    [
        ("right", False, 0),
        ("right", True, 1),
        ("wrong", True, 0),
        ("wrong", False, 1),
        ("right alone, wrong inside a transaction", False, 0),
        ("right alone, wrong inside a transaction", True, 1),
    ],
)
def test_the_exit_code(verdict: str, violated: bool, code: int) -> None:
    changes = {"b": None} if violated else {}
    assert reconciled(ledger(), links(**changes), verdict=verdict).exit_code == code


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
        (Ledger(sent=2, unknown_edits=2), {}, "none of the 2 requests was answered"),
    ],
)
def test_an_inconclusive_run(of: Ledger, changes: dict[str, Any], reason: str) -> None:
    result = reconciled(of, links(), **changes)
    assert result.exit_code == ExitCode.INCONCLUSIVE
    assert result.reason.startswith(reason)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (1, 1000, 0.0002, 0.0056),
    ],
)
def test_the_interval(count: int, of: int, low: float, high: float) -> None:
    """The values are those of R's binom.confint(count, of, methods="wilson")."""
    assert [*wilson(count, of)] == pytest.approx([low, high], abs=5e-5)


def test_no_interval_of_nothing() -> None:
    assert wilson(0, 0) == (0.0, 0.0)


def test_throughput_and_times() -> None:
    of = Ledger(errors=Counter({"500 IntegrityError": 60}))
    for number in range(100):
        of.took(number + 1, at=1000.0 + (number + 1) / 10)
    of.redirects["hot"], of.other = 30, 10
    of.edit("hot", f"{HOT}/new")  # which is not measured
    result = reconciled(of, [])
    assert (result.p50, result.p95, result.p99) == (50, 95, 99)
    assert result.per_second == pytest.approx(40 / result.seconds)
    assert result.seconds == pytest.approx(9.9, abs=0.11)


def test_the_load_generator_is_watched() -> None:
    of = ledger()
    of.cpu = {"one": BUSY - 0.1}
    assert not reconciled(of, links()).busy
    of.cpu["two"] = BUSY + 0.01
    assert reconciled(of, links()).busy


def test_an_unknown_hit_does_not_hide_a_lost_one() -> None:
    """Two answers have the same number: one of them is lost, and the sum only seems to be right."""
    of = ledger()
    of.redirected("hot", hits="3", request="another request")
    unknown_redirect(of)
    result = reconciled(of, links(hot=StoredLink("hot", f"{HOT}/new", 4)))
    assert (violations(result), result.exit_code) == ({"lost_hits": 1}, ExitCode.UNEXPECTED)


# --- Proofs --------------------------------------------------------------------------------------


def test_two_redirects_prove_a_lost_hit() -> None:
    of = ledger()
    of.redirected("hot", hits="2", request="another request")
    result = reconciled(of, links())
    assert result.lost == 1
    assert result.proofs == [
        ["Two redirects of hot made the counter 2:", "request 2", "another request"]
    ]


def test_two_creates_prove_a_stolen_key() -> None:
    of = ledger()
    of.created("a", f"{A}/mine")
    result = reconciled(of, links(), operation="creating")
    assert (result.stolen, result.lost) == (1, 1)
    assert result.proofs == [["Two creates were told that a is theirs:", A, f"{A}/mine"]]


def test_two_creates_prove_a_collision() -> None:
    of = failing("500 IntegrityError")
    of.refused(f"{A}/mine", "500 IntegrityError", "DETAIL:  Key (key)=(b) already exists.")
    of.refused(f"{A}/other", "500 IntegrityError", "something else")
    assert reconciled(of, links()).proofs == [
        ["Two creates drew b:", B, f"{A}/mine, answered 500 IntegrityError"]
    ]


def test_an_edit_and_a_redirect_prove_that_it_was_undone() -> None:
    of = ledger()
    of.undid("hot", f"{HOT}/new", HOT)
    result = reconciled(of, links(hot=StoredLink("hot", HOT, 3)))
    assert result.undone == 1
    assert result.proofs == [
        [
            "An edit of hot was undone:",
            f"it was acknowledged to lead to {HOT}/new",
            f"and afterwards led to {HOT}",
        ]
    ]


def test_two_proofs_are_enough() -> None:
    of = ledger()
    for _ in range(5):
        of.redirected("hot", hits="2", request="another request")
    assert len(reconciled(of, links()).proofs) == 2


def test_a_redirect_that_fails_is_no_race() -> None:
    """A wrong strategy has to harm something for its run to be as expected."""
    failing = LoadResult("lost_update", "some", "resolving", "wrong", failed=1, acknowledged=9)
    assert failing.exit_code is ExitCode.UNEXPECTED
    losing = LoadResult("lost_update", "some", "resolving", "wrong", lost=1, acknowledged=9)
    assert losing.exit_code is ExitCode.AS_EXPECTED
